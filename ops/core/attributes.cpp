// What an op or a step carries besides its operands.
#include "ops/core/attributes.h"

#include <algorithm>

namespace flow::ops {

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

}  // namespace flow::ops
