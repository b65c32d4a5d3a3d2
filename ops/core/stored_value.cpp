// Attributes that are stored as elements.
#include "ops/core/stored_value.h"

#include <fmt/format.h>

#include "runtime/base/representable.h"
#include "runtime/base/text.h"

namespace flow::ops {

bool can_store(Call& call, std::string_view attribute, DType dtype) {
  const double value = call.attribute<double>(attribute);
  if (is_representable(value, dtype)) return true;
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("cannot store {} as {}", shortest(value), name_of(dtype)));
  return false;
}

}  // namespace flow::ops
