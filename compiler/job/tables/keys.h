// Declares the tables of the language: the keys of each mapping of a job file, with defaults,
// ranges and docs. The readers, the JSON schema, `flowc config` and the reference documentation use
// them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/plan/model/dataset.h"
#include "runtime/plan/model/enum_names.h"
#include "runtime/plan/model/record.h"

namespace flow::job {

using plan::Bounds;

/// The type of a key's value. A key of another type than kWord and kSection can have `words` and a
/// `section`, which are further forms of its value.
enum class KeyType {
  kText,
  kAnyText,  // may be empty
  kWord,     // one of `words`
  kBool,
  kInteger,
  kNumber,
  kNumbers,     // a number, or a list
  kSides,       // an integer, or [height, width]
  kInterval,    // [smallest, largest]
  kBoundaries,  // a list of steps
  kIntegers,    // a list
  kShape,
  kDType,
  kTexts,     // a list of names or patterns
  kGlobs,     // a name or pattern, or a list
  kRanges,    // a range of rows, or a list
  kDevices,   // machine:first-last, or a list
  kStepList,  // steps and ranges of steps
  kCommand,   // a line, or a list of words
  kVersion,   // the version of the language
  kSection,   // a mapping: `section`
  kSections,  // a list of such mappings
  kVariant,   // one of `variants`
  kVariants,  // one of `variants`, or a list
  kSource,    // a column of a dataset, or one of `variants`, or `section`
  kHooks,     // a list of kHookSections
  kAugment,   // a list of kAugmentSections
  kEntry,     // a call of an op or a network
  kNested,    // names, nested in lists and mappings
  kFree       // any value that the user chooses
};

struct Section;
struct VariantKind;

struct KeyDef {
  std::string_view name;
  KeyType type;
  /// The default, as the file would write it. Empty if the key is required; "none" if it has no
  /// default.
  std::string_view fallback;
  std::string_view doc;
  Bounds bounds = {};
  std::vector<std::string_view> words = {};
  const Section* section = nullptr;
  bool or_none = false;  // `none` instead of the section disables its default
  const VariantKind* variants = nullptr;
  /// A regular expression for texts, for the JSON schema.
  std::string_view pattern = {};
  std::vector<std::string_view> unless = {};  // keys that exclude this one
  std::string_view with = {};                 // a key that this one requires
  // Only train jobs can have the key. If it is required, only train jobs require it.
  bool train_only = false;

  bool required() const { return fallback.empty(); }
  bool has_default() const {
    return !fallback.empty() && (fallback != "none" || std::ranges::count(words, fallback) > 0);
  }
};

/// The names that the user can choose as keys of a section.
enum class OwnKeys {
  kNames,
  kAnyNames,  // including reserved words
  kGlobs
};

/// A mapping: its keys, or the type of each value if the user chooses the keys.
struct Section {
  std::string what;  // such as "a hook"
  std::vector<KeyDef> keys;
  std::optional<KeyDef> each = {};
  bool notes = true;                          // `note:` is allowed
  OwnKeys own_keys = OwnKeys::kNames;         // applies if `each` is set
  std::vector<std::string_view> one_of = {};  // at least one of these keys is required
};

/// One of the mappings that `type:` selects.
struct Variant {
  std::string_view type;
  std::string_view doc;      // one sentence
  std::string_view formula;  // the formula of its result
  std::vector<KeyDef> keys;
};

/// The possible values of one key of the language.
struct VariantKind {
  std::string_view key;   // such as "learning_rate"
  std::string_view noun;  // such as "learning rate"
  std::vector<Variant> variants;
  std::vector<KeyDef> common;    // keys of all variants, in addition to `type`
  bool by_word = false;          // `zeros` means {type: zeros}
  std::string_view number = {};  // the variant whose first key a number sets
};

/// Returns the definition with that name, or null.
inline const KeyDef* find_key(const std::vector<KeyDef>& keys, std::string_view name) {
  const auto found = std::ranges::find(keys, name, &KeyDef::name);
  return found == keys.end() ? nullptr : &*found;
}

inline std::vector<std::string> names_of(const std::vector<KeyDef>& keys) {
  std::vector<std::string> names;
  names.reserve(keys.size());
  for (const KeyDef& key : keys) names.emplace_back(key.name);
  return names;
}

/// Returns the definition of a key of a section, or null. A key that is not in the list is one that
/// the user chooses.
inline const KeyDef* find_key(const Section& section, std::string_view name) {
  const KeyDef* found = find_key(section.keys, name);
  return !found && section.each ? &*section.each : found;
}

/// Returns the only required key if its value is a number, or null.
inline const KeyDef* only_number(const std::vector<KeyDef>& keys) {
  if (std::ranges::count_if(keys, &KeyDef::required) != 1) return nullptr;
  const KeyDef& key = *std::ranges::find_if(keys, &KeyDef::required);
  return key.type == KeyType::kInteger || key.type == KeyType::kNumber ? &key : nullptr;
}

inline const Variant* find_variant(const VariantKind& kind, std::string_view type) {
  const auto found = std::ranges::find(kind.variants, type, &Variant::type);
  return found == kind.variants.end() ? nullptr : &*found;
}

/// Returns the names of the enumerators of E in plans, in order.
template <typename E>
std::vector<std::string_view> words_of() {
  const auto& words = plan::EnumNames<E>::words;
  return {words.begin(), words.end()};
}

/// Returns the enumerator of E at the position of the word in `words`.
template <typename E, typename Words>
E enumerator_of(const Words& words, std::string_view word) {
  return static_cast<E>(std::ranges::find(words, word) - words.begin());
}

// Functions that make keys of common types, and keys from records.

inline KeyDef excluding(KeyDef key, std::vector<std::string_view> others) {
  key.unless = std::move(others);
  return key;
}

inline KeyDef requiring(KeyDef key, std::string_view other) {
  key.with = other;
  return key;
}

inline KeyDef matching(KeyDef key, std::string_view pattern) {
  key.pattern = pattern;
  return key;
}

inline KeyDef train_only(KeyDef key) {
  key.train_only = true;
  return key;
}

inline KeyDef text(std::string_view name, std::string_view fallback, std::string_view doc,
                   std::string_view pattern = {}) {
  return matching({name, KeyType::kText, fallback, doc}, pattern);
}

inline KeyDef word(std::string_view name, std::string_view fallback, std::string_view doc,
                   std::vector<std::string_view> words) {
  return {name, KeyType::kWord, fallback, doc, {}, std::move(words)};
}

inline KeyDef section(std::string_view name, std::string_view fallback, std::string_view doc,
                      const Section& section) {
  return {name, KeyType::kSection, fallback, doc, {}, {}, &section};
}

inline KeyDef list_of(std::string_view name, std::string_view fallback, std::string_view doc,
                      const Section& section) {
  return {name, KeyType::kSections, fallback, doc, {}, {}, &section};
}

inline KeyDef variant(std::string_view name, std::string_view fallback, std::string_view doc,
                      const VariantKind& variants) {
  KeyDef key{name, KeyType::kVariant, fallback, doc};
  key.variants = &variants;
  return key;
}

template <typename V>
constexpr KeyType key_type_of() {
  if constexpr (std::is_same_v<V, double>) return KeyType::kNumber;
  if constexpr (std::is_same_v<V, int64_t>) return KeyType::kInteger;
  if constexpr (std::is_same_v<V, bool>) return KeyType::kBool;
  if constexpr (std::is_same_v<V, std::vector<double>>) return KeyType::kNumbers;
  if constexpr (std::is_same_v<V, std::vector<int64_t>>) return KeyType::kBoundaries;
  if constexpr (std::is_same_v<V, std::vector<std::string>>) return KeyType::kGlobs;
  if constexpr (std::is_same_v<V, std::array<int64_t, 2>>) return KeyType::kSides;
  if constexpr (std::is_same_v<V, std::array<int64_t, 3>>) return KeyType::kIntegers;
  if constexpr (std::is_same_v<V, std::array<double, 2>>) return KeyType::kInterval;
  return std::is_enum_v<V> ? KeyType::kWord : KeyType::kText;
}

/// Add the forms of a value that job files write in several ways.
void add_forms(KeyDef& key, const plan::Channels*);
void add_forms(KeyDef& key, const plan::Replacement*);
void add_forms(KeyDef& key, const plan::Categories*);
void add_forms(KeyDef& key, const plan::Tokenizer*);
void add_forms(KeyDef& key, const plan::ImageSize*);
void add_forms(KeyDef& key, const plan::Mix*);
void add_forms(KeyDef& key, const std::vector<plan::Augment>*);
/// Adds the words and the pattern of a text.
void add_form_of_text(KeyDef& key, plan::TextForm form);

template <typename V>
struct WithoutOptional {
  using Type = V;
};
template <typename V>
struct WithoutOptional<std::optional<V>> {
  using Type = V;
};

template <typename T, typename V>
KeyDef key_of_field(const plan::Field<T, V>& field) {
  using Value = typename WithoutOptional<V>::Type;
  KeyDef key{field.name, key_type_of<Value>(), field.fallback, field.doc, field.bounds};
  if constexpr (std::is_enum_v<Value>)
    key.words = words_of<Value>();
  else if constexpr (std::is_same_v<Value, std::string>)
    add_form_of_text(key, field.form);
  else if constexpr (requires { add_forms(key, static_cast<const Value*>(nullptr)); })
    add_forms(key, static_cast<const Value*>(nullptr));
  return key;
}

/// Returns a key for each member of the record.
template <typename T>
std::vector<KeyDef> keys_of_record() {
  std::vector<KeyDef> keys;
  plan::for_each_field<T>([&](const auto& field) { keys.push_back(key_of_field(field)); });
  return keys;
}

template <typename T>
Variant variant_of() {
  constexpr auto kRecord = T::record();
  return {kRecord.type, kRecord.doc, kRecord.formula, keys_of_record<T>()};
}

/// Returns one variant for each record type of the std::variant.
template <typename... T>
std::vector<Variant> variants_of(const std::variant<T...>&) {
  return {variant_of<T>()...};
}

}  // namespace flow::job
