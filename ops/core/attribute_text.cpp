// One overload for each kind of attribute.
#include "ops/core/attribute_text.h"

#include <fmt/format.h>

#include "runtime/base/text.h"

namespace flow::ops {
namespace {

struct AttributeText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return shortest(value); }
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(const std::vector<int64_t>& value) const {
    return fmt::format("[{}]", fmt::join(value, ", "));
  }
  std::string operator()(DType value) const { return std::string(name_of(value)); }
};

}  // namespace

std::string text_of(const Attribute& attribute) { return std::visit(AttributeText(), attribute); }

}  // namespace flow::ops
