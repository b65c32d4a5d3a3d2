// What the normalising layers and their primitives have in common.
#include "ops/core/normalization.h"

#include <fmt/format.h>

namespace flow::ops {

AttributeSpec first_axis_attribute() {
  return {"axis", AttributeType::kInteger, "-1", "first of the axes to normalize over"};
}

AttributeSpec epsilon_attribute(std::string_view fallback) {
  return {.name = "epsilon",
          .type = AttributeType::kNumber,
          .fallback = fallback,
          .doc = "added to the variance under the square root, for numerical stability",
          .min = 0};
}

AttributeSpec center_attribute() {
  return {"center", AttributeType::kBool, "true", "learn an offset, beta"};
}

AttributeSpec scale_attribute() {
  return {"scale", AttributeType::kBool, "true", "learn a scale, gamma"};
}

bool has_groups(Call& call) {
  const Shape& x = call.shape(0);
  const auto groups = call.attribute<int64_t>("groups");
  if (x.rank() < 2) {
    call.bad_operand(0, Reason::kRankMismatch,
                     fmt::format("{} has fewer than 2 dimensions; expected (N, C, ...)", x.str()));
    return false;
  }
  if (x[1] % groups != 0) {
    call.bad_attribute(
        "groups", Reason::kBadAttribute,
        fmt::format("{} channels cannot be split evenly into {} groups", x[1], groups));
    return false;
  }
  return true;
}

}  // namespace flow::ops
