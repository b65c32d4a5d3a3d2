// What the tables say of keys, in words and links.
#include "cli/reference/key_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cli/shared/markdown.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/tables/tables.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using job::KeyDef;
using job::KeyType;

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string bounds_text(const job::Bounds& bounds) {
  std::string text;
  const auto add = [&text](std::string_view relation, const std::optional<double>& bound) {
    if (!bound) return;
    const bool whole = *bound == static_cast<double>(static_cast<int64_t>(*bound));
    text += fmt::format("{}{} {}", text.empty() ? " " : ", ", relation,
                        whole ? std::to_string(static_cast<int64_t>(*bound)) : shortest(*bound));
  };
  const auto lies_within = [](double bound) { return bound > -1e15 && bound < 1e15; };
  add(">=", bounds.min);
  add(">", bounds.above);
  if (!bounds.max || lies_within(*bounds.max)) add("<=", bounds.max);
  add("<", bounds.below);
  return text;
}

std::string words_text(const std::vector<std::string_view>& words) {
  std::vector<std::string> quoted;
  for (const std::string_view word : words) quoted.push_back(fmt::format("`{}`", word));
  return join(quoted, ", ");
}

/// The page of schedules shows no sections.
std::string section_link(const job::Section& section, std::string_view page) {
  const std::string title = section_title(section.what);
  return fmt::format("[{}]({}#{})", title.starts_with('`') ? title : std::string(section.what),
                     page == "schedules" ? "job.md" : "", heading_anchor(title));
}

std::string hooks_links() {
  std::vector<std::string> links;
  for (const job::Section& hook : job::hook_sections())
    links.push_back(fmt::format("`{}`", hook.keys.front().name));
  return fmt::format("list of [hooks](#hooks): {}", join(links, ", "));
}

std::string named(KeyType type) {
  switch (type) {
    case KeyType::kText:
    case KeyType::kAnyText:
      return "text";
    case KeyType::kBool:
      return "`true`, `false`";
    case KeyType::kInteger:
      return "integer";
    case KeyType::kNumber:
      return "number";
    case KeyType::kNumbers:
      return "number, or a list of numbers";
    case KeyType::kBoundaries:
      return "list of steps";
    case KeyType::kIntegers:
      return "list of integers";
    case KeyType::kShape:
      return "shape";
    case KeyType::kDType:
      return "dtype";
    case KeyType::kTexts:
      return "list of names or globs";
    case KeyType::kGlobs:
      return "text, or a list of them";
    case KeyType::kRanges:
      return "range of rows, or a list of ranges";
    case KeyType::kDevices:
      return "`machine:first-last`, or a list of them";
    case KeyType::kStepList:
      return "list of steps and ranges";
    case KeyType::kCommand:
      return "line, or a list of words";
    case KeyType::kVersion:
      return "`1`";
    case KeyType::kEntry:
      return "[entry](#entries-of-a-graph)";
    case KeyType::kNested:
      return "name, or lists and mappings of names";
    case KeyType::kFree:
      return "any value";
    default:
      return {};
  }
}

/// "; excludes `steps`"
std::string relations(const KeyDef& key) {
  std::string text;
  if (!key.unless.empty()) {
    text += fmt::format("; excludes {}", words_text(key.unless));
  }
  if (!key.with.empty()) text += fmt::format("; requires `{}`", key.with);
  if (key.train_only) text += "; train jobs only";
  return text;
}

std::string fallback_text(const KeyDef& key) {
  if (key.required()) return "required";
  return key.has_default() ? fmt::format("`{}`", key.fallback) : "";
}

}  // namespace

std::string section_title(std::string_view what) {
  for (const std::string_view article : {"an ", "a "})
    if (what.starts_with(article)) return capitalised(std::string(what.substr(article.size())));
  return capitalised(std::string(what));
}

std::string kind_title(const job::VariantKind& kind) {
  return capitalised(std::string(kind.noun)) + 's';
}

std::string link_to(const job::VariantKind& kind, std::string_view page) {
  const auto is = [&kind](const job::VariantKind& other) { return &kind == &other; };
  const std::string_view home =
      is(job::learning_rates()) || is(job::warmups())                                ? "schedules"
      : is(job::optimizers()) || is(job::grad_clippings()) || is(job::loss_scales()) ? "optimizers"
                                                                                     : "job";
  return fmt::format("[{}]({}#{})", kind.noun, home == page ? "" : fmt::format("{}.md", home),
                     heading_anchor(kind_title(kind)));
}

std::string type_text(const KeyDef& key, std::string_view page) {
  switch (key.type) {
    case KeyType::kWord:
      return words_text(key.words);
    case KeyType::kSection:
      return section_link(*key.section, page) + (key.or_none ? " or `none`" : "");
    case KeyType::kSections:
      return fmt::format("list of {}", section_link(*key.section, page));
    case KeyType::kVariant:
      return link_to(*key.variants, page);
    case KeyType::kVariants:
      return fmt::format("{}, or a list of them", link_to(*key.variants, page));
    case KeyType::kSource:
      return fmt::format("`DATASET.COLUMN`, {} or {}", section_link(*key.section, page),
                         link_to(*key.variants, page));
    case KeyType::kHooks:
      return hooks_links();
    default:
      return named(key.type) + bounds_text(key.bounds);
  }
}

std::string each_table(const job::Section& section, std::string_view page) {
  const bool globs = section.own_keys == job::OwnKeys::kGlobs;
  return fmt::format("| key | type | meaning |\n| --- | --- | --- |\n| {} | {} | {} |\n",
                     globs ? "any glob" : "any name", markdown_cell(type_text(*section.each, page)),
                     markdown_cell(section.each->doc));
}

std::string key_table(const std::vector<KeyDef>& keys, std::string_view page) {
  if (keys.empty()) return {};
  std::string text = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyDef& key : keys)
    text += fmt::format("| `{}` | {} | {} | {}{} |\n", key.name,
                        markdown_cell(type_text(key, page)), markdown_cell(fallback_text(key)),
                        markdown_cell(key.doc), markdown_cell(relations(key)));
  return text;
}

std::string variant_text(const job::VariantKind& kind, std::string_view page, int level) {
  std::string text;
  for (const job::Variant& variant : kind.variants) {
    text += fmt::format("\n{} `{}`\n\n{}\n", std::string(static_cast<size_t>(level), '#'),
                        variant.type, variant.doc);
    if (!variant.formula.empty()) text += fmt::format("\n```\n{}\n```\n", variant.formula);
    if (!variant.keys.empty()) text += '\n' + key_table(variant.keys, page);
  }
  return text;
}

}  // namespace flow::cli
