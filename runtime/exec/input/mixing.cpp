// Reads rows as float64, mixes them, and rounds the results.
#include "runtime/exec/input/mixing.h"

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

data::MixOptions options_of(const plan::Mix& mix) {
  const auto given = [](double parameter) {
    return parameter > 0 ? std::optional(parameter) : std::nullopt;
  };
  return {given(mix.mixup), given(mix.cutmix)};
}

}  // namespace

MixedRows::MixedRows(const plan::Mix& mix, data::Column& column, std::string dataset, uint64_t seed,
                     bool boxed, std::optional<data::ImageSize> image)
    : options_(options_of(mix)),
      column_(column),
      dataset_(std::move(dataset)),
      seed_(seed),
      boxed_(boxed),
      image_(image),
      rounder_(DType::kFloat64, false, {}, static_cast<size_t>(column.row_shape().elements())) {}

void MixedRows::fill(const data::BatchRows& rows, int64_t batch, DType dtype,
                     std::span<std::byte> out) {
  const auto elements = static_cast<size_t>(column_.row_shape().elements());
  values_.resize(rows.rows.size() * elements);
  column_.read(rows, DType::kFloat64, std::as_writable_bytes(std::span(values_)));
  const data::Mix mix = data::draw_mix(options_, {seed_, dataset_, rows.epoch}, batch, image_);
  data::apply_mix(mix, boxed_, column_.row_shape(), values_);
  for (size_t i = 0; i + 1 < rows.rows.size(); ++i) {
    const auto* from = reinterpret_cast<const std::byte*>(values_.data() + i * elements);
    // Floats accept every value, and mixed inputs are floats.
    const auto misfit = rounder_.convert(from, dtype, out.data() + i * elements * size_of(dtype));
    FLOW_CHECK(!misfit || is_float(dtype), "mixed rows of {}", name_of(dtype));
  }
}

}  // namespace flow::exec
