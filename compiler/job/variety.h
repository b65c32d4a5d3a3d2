// What `type:` picks: tables of varieties with their keys, defaults, ranges and docs, and the
// reader of them all.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/job/reader.h"
#include "compiler/job/values.h"

namespace flow::job {

/// How a key's value is read.
enum class KeyType {
  kNumber,
  kSteps,  // an integer: a number of steps
  kBool,
  kNumbers,     // a list, or one
  kBoundaries,  // a list of steps
  kGlobs,       // a list of patterns, or one
  kOther        // by the section's own reader
};

struct KeyDef {
  std::string_view name;
  KeyType type;
  /// As the file would write it; empty: required. "none": absent unless it is given.
  std::string_view fallback;
  std::string_view doc;
  Bounds bounds = {};
};

struct Variety {
  std::string_view type;
  std::string_view doc;      // one sentence
  std::string_view formula;  // what it computes
  std::vector<KeyDef> keys;
};

/// What the values of one key of the language may be.
struct VarietyKind {
  std::string_view key;   // "learning_rate"
  std::string_view noun;  // "learning rate"
  std::vector<Variety> varieties;
  std::vector<KeyDef> common;  // keys that all of them have beside their own and `type`
};

/// What a file says of one variety. Keys whose values cannot be read, or are absent, are missing.
struct VarietyValues {
  std::map<std::string, double> numbers;  // flags are 0 or 1
  std::map<std::string, std::vector<double>> lists;
  std::map<std::string, std::vector<int64_t>> boundaries;
  std::map<std::string, std::vector<Name>> globs;
};

/// The variety that `type:` of a mapping picks; reports a missing or unknown one and returns null.
const Variety* pick_variety(Reader& reader, const yaml::Node& node, Span key,
                            const VarietyKind& kind);

/// `type`, the keys of the variety (of all varieties, where it is null) and the common ones.
std::vector<std::string> keys_of(const VarietyKind& kind, const Variety* variety);

/// Reads the variety's own keys, each as its line in the table says.
VarietyValues read_values(const Fields& fields, const Variety& variety);

/// A list of patterns, or one.
std::optional<std::vector<Name>> read_globs(Reader& reader, const yaml::Node& node,
                                            std::string_view what);

}  // namespace flow::job
