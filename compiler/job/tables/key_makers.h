// Keys of the usual types, as the tables write them.
#pragma once

#include <string_view>
#include <utility>
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

}  // namespace flow::job
