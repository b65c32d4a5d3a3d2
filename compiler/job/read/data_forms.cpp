// Reads the values of datasets that job files write in several forms.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// Reads a section that replaces a shorter form of the value, which begins with its brace.
Fields fields_of(Reader& reader, const yaml::Node& node, const Section& section) {
  return {reader, node, node.span, section};
}

/// Reports a mapping without any of the keys.
void require_one_of(const Fields& fields, const Section& section) {
  if (std::ranges::any_of(section.one_of, [&](auto key) { return fields.find(key); })) return;
  const std::vector<std::string> keys(section.one_of.begin(), section.one_of.end());
  fields.reader().error(Diagnosis::kMissingKey, fields.owner(), "{} requires {}", section.what,
                        quoted_alternatives(keys));
}

const Section* section_of_item(const yaml::Node& item) {
  for (const Section& section : kAugmentSections)
    if (item.find(section.keys.front().name)) return &section;
  return nullptr;
}

template <typename T>
plan::Augment read_op(Reader& reader, const yaml::Node& item, const Section& section) {
  T op;
  const KeyDef& first = section.keys.front();
  const Fields fields(reader, item, item.find_entry(first.name)->key_span, section);
  if (first.type != KeyType::kSection) {
    read_record(fields, op);
    return op;
  }
  const Fields own(reader, *item.find(first.name), fields.owner(), *first.section);
  read_record(own, op);
  return op;
}

template <typename... T>
plan::Augment read_op(Reader& reader, const yaml::Node& item, const Section& section,
                      const std::variant<T...>*) {
  plan::Augment made;
  const auto read = [&]<typename One>(const One*) {
    if (One::record().type == section.keys.front().name) made = read_op<One>(reader, item, section);
  };
  (read(static_cast<const T*>(nullptr)), ...);
  return made;
}

}  // namespace

std::optional<std::string> read_text_of(Reader& reader, const yaml::Node& node,
                                        const std::string& what, plan::TextForm form) {
  using enum plan::TextForm;
  if (form == kElementType)
    return read_choice(reader, node, what,
                       {plan::kElementTypes.begin(), plan::kElementTypes.end()});
  const auto text = read_text(reader, node, what);
  if (!text) return {};
  const bool or_none = form == kTextOrNone || form == kCharacterOrNone;
  if (or_none && *text == plan::kNoDefault) return "";
  const bool character = form == kCharacter || form == kCharacterOrNone;
  if (!character || plan::is_character(*text)) return text;
  reader.error(Diagnosis::kBadScalar, node, "{} is `{}`; expected one ASCII character", what, *text)
      .with_hint(*text == "\\t" || *text == "tab" ? "write `\"\\t\"`, in double quotes, for a tab"
                                                  : "");
  return {};
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Channels& out) {
  out.learn = node.is_scalar() && node.scalar == "learn";
  if (out.learn) return true;
  const auto values = read_numbers(reader, node, what, bounds);
  if (!values) return false;
  out.values = *values;
  if (!values->empty()) return true;
  reader.error(Diagnosis::kBadColumn, node, "{} is empty; expected numbers", what);
  return false;
}

/// Reads both the number and the category that the text can be. The type of the cells decides.
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what, const Bounds&,
               plan::Replacement& out) {
  using Kind = plan::Replacement::Kind;
  if (node.is_mapping()) {
    const auto category = fields_of(reader, node, kReplacementSection).text("category");
    out.kind = Kind::kCategory;
    out.category = category.value_or("");
    return category.has_value();
  }
  const auto text = read_text(reader, node, what);
  if (!text) return false;
  constexpr std::string_view kWords[] = {"error", "mean", "median", "extra"};
  const auto word = std::ranges::find(kWords, *text);
  if (word != std::end(kWords)) {
    out.kind = enumerator_of<Kind>(plan::EnumNames<Kind>::words, *word);
    return true;
  }
  const auto number = parse_number(*text);
  out.kind = number ? Kind::kNumber : Kind::kCategory;
  out.number = number.value_or(0);
  out.category = *text;
  return true;
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string& what, const Bounds&,
               plan::Categories& out) {
  using Kind = plan::Categories::Kind;
  if (node.is_mapping()) {
    const auto file = fields_of(reader, node, kCategoriesSection).text("lines");
    out.kind = Kind::kFile;
    out.file = file.value_or("");
    return file.has_value();
  }
  if (node.is_scalar() && node.scalar == "learn") return true;
  if (!reader.expect(node, yaml::Kind::kList, what, "write a list, `{lines: FILE}` or `learn`"))
    return false;
  const auto names = read_globs(reader, node, what, "categories");
  if (!names) return false;
  out.kind = Kind::kListed;
  std::set<std::string> distinct;
  for (const Name& name : *names) {
    out.names.push_back(name.text);
    if (distinct.insert(name.text).second) continue;
    reader.error(Diagnosis::kBadColumn, name.span, "category `{}` occurs twice", name.text);
    return false;
  }
  return true;
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string& what, const Bounds&,
               plan::Tokenizer& out) {
  using Kind = plan::Tokenizer::Kind;
  if (!node.is_mapping()) {
    const auto word = read_choice(reader, node, what, {"bytes", "characters"});
    if (word) out.kind = enumerator_of<Kind>(plan::EnumNames<Kind>::words, *word);
    return word.has_value();
  }
  const size_t before = reader.diags.error_count();
  const Fields fields = fields_of(reader, node, kTokenizerSection);
  require_one_of(fields, kTokenizerSection);
  std::vector<std::string_view> given;
  for (const std::string_view key : kTokenizerSection.one_of)
    if (fields.find(key)) given.push_back(key);
  if (given.size() > 1)
    reader.error(Diagnosis::kBadColumn, fields.key_span(given[1]),
                 "{} has both `{}` and `{}`; expected one of them", what, given[0], given[1]);
  for (const auto& [key, other] :
       {std::pair("vocab", "merges"), {"merges", "vocab"}, {"special", "vocab"}})
    if (fields.find(key) && !fields.find(other))
      reader.error(Diagnosis::kMissingKey, fields.key_span(key), "`{}` requires `{}`", key, other);
  out.characters = fields.text("characters").value_or("");
  out.vocab = fields.text("vocab").value_or("");
  out.merges = fields.text("merges").value_or("");
  out.json = fields.text("json").value_or("");
  if (const yaml::Node* special = fields.find("special"))
    for (const Name& token :
         read_globs(reader, *special, "`special`", "a token").value_or(std::vector<Name>()))
      out.special.push_back(token.text);
  out.kind = !out.characters.empty() ? Kind::kCharacters
             : !out.json.empty()     ? Kind::kJson
                                     : Kind::kBytePairs;
  return reader.diags.error_count() == before;
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::ImageSize& out) {
  if (node.is_mapping()) {
    const auto shorter = fields_of(reader, node, kShorterSection).integer("short");
    out.shorter = shorter.value_or(0);
    return shorter.has_value();
  }
  const auto sides = read_array<int64_t, 2>(reader, node, what, bounds, true);
  if (sides) out = {(*sides)[0], (*sides)[1], 0};
  return sides.has_value();
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string&, const Bounds&,
               plan::Mix& out) {
  const Fields fields = fields_of(reader, node, kMixSection);
  if (!fields.is_mapping()) return false;
  require_one_of(fields, kMixSection);
  return read_record(fields, out).empty();
}

bool read_form(Reader& reader, const yaml::Node& node, const std::string& what, const Bounds&,
               std::vector<plan::Augment>& out) {
  if (!reader.expect(node, yaml::Kind::kList, what, hint_for_item(node))) return false;
  const size_t before = reader.diags.error_count();
  std::vector<std::string> ops;
  for (const Section& section : kAugmentSections) ops.emplace_back(section.keys.front().name);
  for (const yaml::Node& item : node.items) {
    if (!reader.expect(item, yaml::Kind::kMapping, "an op of `augment`",
                       "write `{flip: horizontal}`"))
      continue;
    const Section* section = section_of_item(item);
    if (section)
      out.push_back(read_op(reader, item, *section, static_cast<const plan::Augment*>(nullptr)));
    else
      reader
          .error(Diagnosis::kUnknownChoice, item, "an op of `augment` requires {}",
                 quoted_alternatives(ops))
          .with_hint(item.entries.empty() ? std::string()
                                          : suggestion(item.entries.front().key, ops));
  }
  return reader.diags.error_count() == before;
}

}  // namespace flow::job
