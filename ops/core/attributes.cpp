// Storage of attributes by name, and their conversion to text.
#include "ops/core/attributes.h"

#include <fmt/format.h>

#include <algorithm>

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

void Attributes::set(std::string_view name, Attribute value) {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::first);
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.emplace(at, name, std::move(value));
}

void Attributes::erase(std::string_view name) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.first == name; });
}

const Attribute* Attributes::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(entries_, name, {}, &Entry::first);
  return at != entries_.end() && at->first == name ? &at->second : nullptr;
}

std::string text_of(const Attribute& attribute) { return std::visit(AttributeText(), attribute); }

}  // namespace flow::ops
