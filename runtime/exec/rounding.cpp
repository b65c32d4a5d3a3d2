// Float64 to any dtype.
#include "runtime/exec/rounding.h"

#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/convert.h"
#include "runtime/io/elements.h"

namespace flow::exec {

namespace {

template <typename T>
T rounded(double value) {
  if constexpr (std::is_same_v<T, io::Float16>)
    return {double_to_float16(value)};
  else if constexpr (std::is_same_v<T, io::BFloat16>)
    return {double_to_bfloat16(value)};
  else if constexpr (std::is_same_v<T, io::Bool>)
    return {value != 0};
  else
    return static_cast<T>(value);
}

}  // namespace

void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out) {
  FLOW_CHECK(out.size() == values.size() * size_of(dtype), "{} bytes for {} values", out.size(),
             values.size());
  io::visit_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    T* to = reinterpret_cast<T*>(out.data());
    for (size_t i = 0; i < values.size(); ++i) to[i] = rounded<T>(values[i]);
  });
}

Array convert(const Array& array, DType dtype, const std::string& name) {
  Array made(dtype, array.shape());
  io::RowConverter converter(array.dtype(), false, {},
                             static_cast<size_t>(array.shape().elements()));
  if (const auto misfit = converter.convert(array.bytes().data(), dtype, made.bytes().data()))
    throw RunError(fmt::format("{} holds {} (element {}), which is no {}", name,
                               shortest(misfit->value), misfit->element, name_of(dtype)));
  return made;
}

}  // namespace flow::exec
