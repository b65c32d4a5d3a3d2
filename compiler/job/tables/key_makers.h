// Keys as the tables write them: of the usual types, and from records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/job/tables/keys.h"

namespace flow::job {

inline constexpr KeyType kNumber = KeyType::kNumber;
using plan::kNotNegative;

inline KeyDef text(std::string_view name, std::string_view fallback, std::string_view doc,
                   std::string_view pattern = {}) {
  return {
      .name = name, .type = KeyType::kText, .fallback = fallback, .doc = doc, .pattern = pattern};
}

inline KeyDef word(std::string_view name, std::string_view fallback, std::string_view doc,
                   std::vector<std::string_view> words) {
  return {.name = name,
          .type = KeyType::kWord,
          .fallback = fallback,
          .doc = doc,
          .words = std::move(words)};
}

inline KeyDef section(std::string_view name, std::string_view fallback, std::string_view doc,
                      const Section& section) {
  return {.name = name,
          .type = KeyType::kSection,
          .fallback = fallback,
          .doc = doc,
          .section = &section};
}

inline KeyDef variant(std::string_view name, std::string_view fallback, std::string_view doc,
                      const VariantKind& variants) {
  return {.name = name,
          .type = KeyType::kVariant,
          .fallback = fallback,
          .doc = doc,
          .variants = &variants};
}

/// Of a value that a run follows: `name`, which is `watch` or `by`, then `mode` and `every`.
std::vector<KeyDef> followed_keys(std::string_view name);

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
