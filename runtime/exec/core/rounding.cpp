// Float64 to any dtype.
#include "runtime/exec/core/rounding.h"

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/convert.h"
#include "runtime/io/elements.h"

namespace flow::exec {

void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out) {
  FLOW_CHECK(out.size() == values.size() * size_of(dtype), "{} bytes for {} values", out.size(),
             values.size());
  io::visit_stored(dtype, [&](auto element) {
    using T = decltype(element);
    T* to = reinterpret_cast<T*>(out.data());
    for (size_t i = 0; i < values.size(); ++i) to[i] = io::element_of<T>(values[i]);
  });
}

Array convert(const Array& array, DType dtype, const std::string& name) {
  Array made(dtype, array.shape());
  io::RowConverter converter(array.dtype(), false, {},
                             static_cast<size_t>(array.shape().elements()));
  if (const auto misfit = converter.convert(array.bytes().data(), dtype, made.bytes().data()))
    throw RunError(fmt::format("{} contains {} (element {}), which is not a valid {}", name,
                               shortest(misfit->value), misfit->element, name_of(dtype)));
  return made;
}

}  // namespace flow::exec
