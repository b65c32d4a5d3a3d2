// The data that an op or a step has besides its operands: a small sorted map from name to value.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/error.h"
#include "runtime/base/variant_of_vectors.h"

namespace flow::ops {

/// A flag, integer, number, text (also for enumerations), list of integers (shapes, axes, paddings)
/// or dtype.
using Attribute = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, DType>;

class Attributes {
 public:
  using Entry = std::pair<std::string, Attribute>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) {
    for (const auto& [name, value] : entries) set(name, value);
  }

  void set(std::string_view name, Attribute value);
  void erase(std::string_view name);
  const Attribute* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the value of `name`. REQUIRES: the attribute exists and is a T; the compiler and the
  /// plan check ensure this.
  template <typename T>
  const T& get(std::string_view name) const {
    const Attribute* found = find(name);
    FLOW_CHECK(found && std::holds_alternative<T>(*found), "attribute {}", name);
    return std::get<T>(*found);
  }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  bool empty() const { return entries_.empty(); }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<Entry> entries_;  // sorted by name
};

/// Returns the value as text: "true", "0.1", "same", "[2, 2]", "float32".
std::string text_of(const Attribute& attribute);

}  // namespace flow::ops
