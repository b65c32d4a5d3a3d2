// Varieties read as their tables say.
#include "compiler/job/variety.h"

#include <fmt/format.h>

#include <algorithm>

namespace flow::job {
namespace {

void read_value(const Fields& fields, const KeyDef& def, const yaml::Node& node,
                VarietyValues& values) {
  Reader& reader = fields.reader();
  const std::string key(def.name), what = fmt::format("`{}`", def.name);
  switch (def.type) {
    case KeyType::kNumber:
      if (const auto value = read_number(reader, node, what, def.bounds))
        values.numbers[key] = *value;
      break;
    case KeyType::kSteps:
      if (const auto value = read_integer(reader, node, what, def.bounds))
        values.numbers[key] = static_cast<double>(*value);
      break;
    case KeyType::kBool:
      if (const auto value = read_bool(reader, node, what)) values.numbers[key] = *value ? 1 : 0;
      break;
    case KeyType::kNumbers:
      if (auto value = read_numbers(reader, node, what, def.bounds))
        values.lists[key] = std::move(*value);
      break;
    case KeyType::kBoundaries:
      if (!reader.expect(node, yaml::Kind::kList, what)) break;
      if (auto value = read_integers(reader, node, what, def.bounds))
        values.boundaries[key] = std::move(*value);
      break;
    case KeyType::kGlobs:
      if (auto value = read_globs(reader, node, what)) values.globs[key] = std::move(*value);
      break;
    case KeyType::kOther:
      break;
  }
}

/// Only numbers and flags have defaults.
double fallback_of(const KeyDef& def) {
  return def.type == KeyType::kBool ? (def.fallback == "true" ? 1 : 0)
                                    : parse_number(def.fallback).value();
}

}  // namespace

const Variety* pick_variety(Reader& reader, const yaml::Node& node, Span key,
                            const VarietyKind& kind) {
  const yaml::Node* type = node.find("type");
  if (!type) {
    reader.error(Diagnosis::kMissingKey, key, fmt::format("`{}` needs `type`", kind.key));
    return nullptr;
  }
  if (!reader.expect(*type, yaml::Kind::kScalar, "`type`")) return nullptr;
  std::vector<std::string> types;
  for (const Variety& variety : kind.varieties) {
    if (type->scalar == variety.type) return &variety;
    types.emplace_back(variety.type);
  }
  reader
      .error(Diagnosis::kUnknownChoice, *type,
             fmt::format("`type` is `{}`, which is no {}", type->scalar, kind.noun))
      .with_hint(suggestion(type->scalar, types, "there are"));
  return nullptr;
}

std::vector<std::string> keys_of(const VarietyKind& kind, const Variety* variety) {
  std::vector<std::string> keys{"type"};
  const auto add = [&keys](const std::vector<KeyDef>& defs) {
    for (const KeyDef& def : defs)
      if (std::ranges::find(keys, def.name) == keys.end()) keys.emplace_back(def.name);
  };
  for (const Variety& other : kind.varieties)
    if (!variety || variety == &other) add(other.keys);
  add(kind.common);
  return keys;
}

VarietyValues read_values(const Fields& fields, const Variety& variety) {
  VarietyValues values;
  for (const KeyDef& def : variety.keys) {
    const yaml::Node* given =
        def.fallback.empty() ? fields.require(def.name) : fields.find(def.name);
    if (given)
      read_value(fields, def, *given, values);
    else if (!def.fallback.empty() && def.fallback != "none")
      values.numbers[std::string(def.name)] = fallback_of(def);
  }
  return values;
}

std::optional<std::vector<Name>> read_globs(Reader& reader, const yaml::Node& node,
                                            std::string_view what) {
  std::vector<Name> globs;
  const auto add = [&](const yaml::Node& item) {
    const auto text = read_text(reader, item, what);
    if (text) globs.push_back({*text, item.span});
    return text.has_value();
  };
  bool good = true;
  if (node.is_list())
    for (const yaml::Node& item : node.items) good = add(item) && good;
  else
    good = add(node);
  if (!good) return {};
  if (!globs.empty()) return globs;
  reader.error(Diagnosis::kBadScalar, node, fmt::format("{} is empty", what));
  return {};
}

}  // namespace flow::job
