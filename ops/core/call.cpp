// The results and refusals that shape functions report.
#include "ops/core/call.h"

#include <fmt/format.h>

namespace flow::ops {

void Refusal::with_hint(std::string hint) {
  if (!hint.empty()) hints.push_back(std::move(hint));
}

const Attribute& Call::attribute(std::string_view name) const {
  const Attribute* found = attributes_.find(name);
  FLOW_CHECK(found, "attribute {}", name);
  return *found;
}

Refusal& Call::bad_operand(size_t i, Reason reason, std::string text) {
  return refusals_.emplace_back(Refusal{reason, std::move(text), i});
}

Refusal& Call::bad_attribute(std::string_view name, Reason reason, std::string text) {
  return refusals_.emplace_back(Refusal{reason, std::move(text), {}, name});
}

Refusal& Call::bad_call(Reason reason, std::string text) {
  return refusals_.emplace_back(Refusal{reason, std::move(text)});
}

bool Call::same_dtype(size_t first, size_t second) {
  const auto is_wide = [](DType dtype) {
    return dtype == DType::kFloat32 || dtype == DType::kFloat64;
  };
  const DType a = dtype(first), b = dtype(second);
  if (a == b) return true;
  // A cast to integers would stop the gradient.
  const bool cast_first = is_float(b) && !is_float(a);
  bad_operand(cast_first ? first : second, Reason::kDTypeMismatch,
              fmt::format("the operands are {} and {}; expected one dtype", name_of(a), name_of(b)))
      .with_hint(
          fmt::format("convert with `{{op: cast, dtype: {}}}`{}", name_of(cast_first ? b : a),
                      is_wide(a) && is_wide(b) ? ", or set `precision: float64` on the job" : ""));
  return false;
}

bool Call::have_shape(size_t first, size_t end, const Shape& expected) {
  for (size_t i = first; i < end; ++i) {
    if (shape(i) == expected) continue;
    bad_operand(i, Reason::kShapeMismatch,
                fmt::format("found {}; expected {}", shape(i).str(), expected.str()));
    return false;
  }
  return true;
}

void Call::result(DType dtype, Shape shape, int batch_axis, Combine combine) {
  if (shape.rank() > kMaxRank)
    bad_call(Reason::kRankMismatch,
             fmt::format("the result has {} dimensions; at most {} are supported", shape.rank(),
                         kMaxRank));
  else if (!shape.checked_elements())
    bad_call(Reason::kTensorTooLarge,
             fmt::format("the result is {}; its size in bytes overflows", shape.str()));
  if (batch_axis != kBatchReduced) combine = Combine::kNone;
  results_.push_back({dtype, std::move(shape), batch_axis, combine});
}

void infer_like_operand(Call& call) {
  const Operand& x = call.operand(0);
  call.result(x.dtype, x.shape, x.batch_axis);
}

}  // namespace flow::ops
