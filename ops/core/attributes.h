// What an op or a step carries besides its operands: a small sorted map from name to value.
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

#ifdef __GLIBCXX__
// Up to version 12 at least, libstdc++ takes a variant of such types to hold a value always, also
// while it is copied: where the copy gets no memory, it then destroys what is not there.
template <>
struct std::__detail::__variant::_Never_valueless_alt<std::vector<int64_t>> : std::false_type {};
#endif

namespace flow::ops {

/// Integers, numbers, texts (enumerations too), lists of integers (shapes, axes, paddings), dtypes.
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
  /// The value of `name`. REQUIRES: it is there, as a T; the compiler and the plan check see to it.
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

/// "true", "0.1", "same", "[2, 2]", "float32"
std::string text_of(const Attribute& attribute);

}  // namespace flow::ops
