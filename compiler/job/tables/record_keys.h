// Keys of job files from records.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/job/tables/keys.h"

namespace flow::job {

template <typename V>
constexpr KeyType key_type_of() {
  if constexpr (std::is_same_v<V, double>) return KeyType::kNumber;
  if constexpr (std::is_same_v<V, int64_t>) return KeyType::kInteger;
  if constexpr (std::is_same_v<V, bool>) return KeyType::kBool;
  if constexpr (std::is_same_v<V, std::vector<double>>) return KeyType::kNumbers;
  if constexpr (std::is_same_v<V, std::vector<int64_t>>) return KeyType::kBoundaries;
  return std::is_enum_v<V> ? KeyType::kWord : KeyType::kText;
}

template <typename T>
Variant variant_of() {
  constexpr auto kRecord = T::record();
  Variant made{kRecord.type, kRecord.doc, kRecord.formula, {}};
  plan::for_each_field<T>([&](const auto& field) {
    using V = typename std::decay_t<decltype(field)>::Value;
    KeyDef key{field.name, key_type_of<V>(), field.fallback, field.doc, field.bounds};
    if constexpr (std::is_enum_v<V>) key.words = words_of<V>();
    made.keys.push_back(std::move(key));
  });
  return made;
}

/// One for each record that the std::variant may hold.
template <typename... T>
std::vector<Variant> variants_of(const std::variant<T...>&) {
  return {variant_of<T>()...};
}

}  // namespace flow::job
