// Reads variants according to their tables.
#include "compiler/job/read/variant.h"

#include <fmt/format.h>

#include "compiler/job/text/values.h"
#include "runtime/base/names.h"

namespace flow::job {
namespace {

std::vector<std::string> types_of(const VariantKind& kind) {
  std::vector<std::string> types;
  for (const Variant& variant : kind.variants) types.emplace_back(variant.type);
  return types;
}

/// Returns the variant that a word names. Reports an unknown word and returns null.
const Variant* named_variant(Reader& reader, const yaml::Node& word, const VariantKind& kind) {
  if (const Variant* found = find_variant(kind, word.scalar)) return found;
  reader.error(Diagnosis::kUnknownChoice, word, "unknown {} `{}`", kind.noun, word.scalar)
      .with_hint(suggestion(word.scalar, types_of(kind), "valid types:"));
  return nullptr;
}

}  // namespace

bool expect_variant(Reader& reader, const yaml::Node& node, std::string_view what,
                    const VariantKind& kind) {
  // For a number: the first variant that consists of one number.
  std::string form;
  if (node.is_scalar() && parse_number(node.scalar))
    for (const Variant& variant : kind.variants)
      if (const KeyDef* number = only_number(variant.keys); number && form.empty())
        form = fmt::format("{{type: {}, {}: {}}}", variant.type, number->name, node.scalar);
  if (node.is_scalar() && is_name(node.scalar)) form = fmt::format("{{type: {}}}", node.scalar);
  return reader.expect(node, yaml::Kind::kMapping, what,
                       form.empty() ? form : fmt::format("write `{}`", form));
}

const Variant* pick_variant(Reader& reader, const yaml::Node& node, Span key, std::string_view what,
                            const VariantKind& kind) {
  const yaml::Node* type = node.find("type");
  if (!type) {
    reader.error(Diagnosis::kMissingKey, key, "{} requires `type`", what)
        .with_hint(listed("valid types:", types_of(kind)));
    return nullptr;
  }
  if (!reader.expect(*type, yaml::Kind::kScalar, "`type`")) return nullptr;
  return named_variant(reader, *type, kind);
}

ParsedVariant::ParsedVariant(Reader& reader, const yaml::Node& node, Span owner,
                             std::string_view what, const VariantKind& kind) {
  static const yaml::Node kNoKeys = yaml::mapping_node();
  const bool word = kind.by_word && node.is_scalar();
  if (!word && !expect_variant(reader, node, what, kind)) return;
  variant_ =
      word ? named_variant(reader, node, kind) : pick_variant(reader, node, owner, what, kind);
  if (!variant_) return;
  fields_.emplace(reader, word ? kNoKeys : node, word ? node.span : node.find("type")->span,
                  fmt::format("the {} `{}`", kind.noun, variant_->type), keys_of(kind, variant_));
}

std::vector<KeyDef> keys_of(const VariantKind& kind, const Variant* variant) {
  KeyDef type{"type", KeyType::kWord, "", kind.noun};
  for (const Variant& one : kind.variants) type.words.push_back(one.type);
  std::vector<KeyDef> keys{std::move(type)};
  const auto add = [&keys](const std::vector<KeyDef>& defs) {
    for (const KeyDef& def : defs)
      if (!find_key(keys, def.name)) keys.push_back(def);
  };
  for (const Variant& other : kind.variants)
    if (!variant || variant == &other) add(other.keys);
  add(kind.common);
  return keys;
}

std::optional<std::vector<Name>> read_globs(Reader& reader, const yaml::Node& node,
                                            std::string_view what, std::string_view expected) {
  std::vector<Name> globs;
  bool good = true;
  for (const yaml::Node& item : yaml::each_of(node)) {
    const std::string_view written = reader.sources.text(item.span);
    if (item.kind == yaml::Kind::kMapping && written.starts_with('{'))
      good = reader.expect(item, yaml::Kind::kScalar, what,
                           fmt::format("quote a glob with braces: `\"{}\"`", written));
    else if (const auto text = read_text(reader, item, what))
      globs.push_back({*text, item.span});
    else
      good = false;
  }
  if (!good) return {};
  if (!globs.empty()) return globs;
  reader.error(Diagnosis::kBadScalar, node, "{} is empty; expected {}", what, expected);
  return {};
}

}  // namespace flow::job
