// Operands and attributes that ops of several families share, and checks of their values.
#include "ops/core/shared_attributes.h"

#include <fmt/format.h>

#include "runtime/base/array.h"
#include "runtime/base/text.h"

namespace flow::ops {

OperandSpec integers(std::string_view name, std::string_view doc, LimitRule limit) {
  return {.name = name, .doc = doc, .accepts = Accepts::kInteger, .limit = limit};
}

OperandSpec optional_integers(std::string_view name, std::string_view doc, LimitRule limit) {
  OperandSpec operand = integers(name, doc, limit);
  operand.optional = true;
  return operand;
}

OperandSpec optional_floats(std::string_view name, std::string_view doc) {
  return {.name = name, .doc = doc, .optional = true};
}

int64_t limit_of_axis(std::span<const Shape> operands, const Attributes& attributes) {
  return operands[0][static_cast<int>(attributes.get<int64_t>("axis"))];
}

int64_t limit_of_extent(std::span<const Shape>, const Attributes& attributes) {
  return attributes.get<int64_t>("extent");
}

AttributeSpec axis_attribute(std::string_view fallback, std::string_view doc) {
  return of_kind(Kind::kAxis, {"axis", AttributeType::kInteger, fallback, doc});
}

AttributeSpec axes_attribute(std::string_view doc) {
  return of_kind(Kind::kUnplanned, {"axis", AttributeType::kIntegers, "all", doc});
}

PlanAttribute axes_in_plans() { return {"axes", Kind::kAxes}; }

AttributeSpec choice_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc, std::vector<std::string_view> choices) {
  return {name, AttributeType::kText, fallback, doc, std::move(choices)};
}

AttributeSpec number_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc, std::optional<double> min,
                               std::optional<double> max) {
  return {name, AttributeType::kNumber, fallback, doc, {}, min, max};
}

AttributeSpec value_attribute(std::string_view name, std::string_view fallback,
                              std::string_view doc) {
  return of_kind(Kind::kValue, number_attribute(name, fallback, doc));
}

AttributeSpec fraction_attribute(std::string_view name, std::string_view fallback,
                                 std::string_view doc) {
  return {name, AttributeType::kNumber, fallback, doc, {}, 0, {}, 1};
}

AttributeSpec integer_attribute(std::string_view name, std::string_view fallback,
                                std::string_view doc, std::optional<double> min,
                                std::optional<double> max) {
  return {name, AttributeType::kInteger, fallback, doc, {}, min, max};
}

AttributeSpec count_attribute(std::string_view name, std::string_view doc,
                              std::string_view fallback) {
  return integer_attribute(name, fallback, doc, 1, kMaxSize);
}

AttributeSpec offset_attribute(std::string_view name, std::string_view fallback,
                               std::string_view doc) {
  return integer_attribute(name, fallback, doc, -kMaxSize, kMaxSize);
}

AttributeSpec extent_attribute(std::string_view doc) {
  return of_kind(Kind::kCount, {"extent", AttributeType::kInteger, "", doc});
}

AttributeSpec extents_attribute(std::string_view name, std::string_view fallback,
                                std::string_view doc) {
  return {name, AttributeType::kIntegers, fallback, doc, {}, 1};
}

PlanAttribute extents_of_result(std::string_view name) {
  return {.name = name, .kind = Kind::kShape, .of_result = true};
}

AttributeSpec of_kind(Kind kind, AttributeSpec attribute) {
  attribute.kind = kind;
  return attribute;
}

AttributeSpec first_axis_attribute() {
  return axis_attribute("-1", "first of the axes to normalize over");
}

AttributeSpec epsilon_attribute(std::string_view fallback) {
  return number_attribute("epsilon", fallback,
                          "added to the variance under the square root, for numerical stability",
                          0);
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
