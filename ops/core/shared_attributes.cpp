// Attributes that ops of several families have, and checks of their values.
#include "ops/core/shared_attributes.h"

#include <fmt/format.h>

#include "runtime/base/array.h"
#include "runtime/base/text.h"

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

bool can_store(Call& call, std::string_view attribute, DType dtype) {
  const double value = call.attribute<double>(attribute);
  if (is_representable(value, dtype)) return true;
  call.bad_attribute(attribute, Reason::kBadAttribute,
                     fmt::format("cannot store {} as {}", shortest(value), name_of(dtype)));
  return false;
}

std::vector<AttributeSpec> embedding_attributes(const std::vector<AttributeSpec>& own) {
  std::vector<AttributeSpec> attributes = {
      count_attribute("vocab_size", "number of vectors; integers are in [0, vocab_size)"),
      count_attribute("units", "size of each vector")};
  attributes.insert(attributes.end(), own.begin(), own.end());
  attributes.push_back(
      {"sparse", AttributeType::kBool, "false",
       "gradient of only the rows that a batch looks up, for sgd, adagrad and adam"});
  attributes.push_back({"embeddings_initializer", AttributeType::kInitializer,
                        "random_normal(0.02)", "initial value of the weight"});
  attributes.push_back({"embeddings_regularizer", AttributeType::kRegularizer, "none",
                        "L1 or L2 penalty on the weight"});
  return attributes;
}

}  // namespace flow::ops
