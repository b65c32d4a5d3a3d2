// The pages of keys: the job file with every mapping inside it, ops, optimizers, learning rates,
// and tolerances.yaml. They present the contents of the key tables as words and links.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "cli/reference/pages.h"
#include "cli/shared/markdown.h"
#include "compiler/ir/describe_ops.h"
#include "compiler/job/tables/tables.h"
#include "compiler/tolerances/tolerances.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using job::KeyDef;
using job::KeyType;
using job::Section;

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

/// Returns "Column" for "a column", and "`vars`" for "`vars`".
std::string section_title(std::string_view what) {
  for (const std::string_view article : {"an ", "a "})
    if (what.starts_with(article)) return capitalized(std::string(what.substr(article.size())));
  return capitalized(std::string(what));
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

/// Returns a link to a section. The page of schedules contains no sections, so it links to job.md.
std::string section_link(const job::Section& section, std::string_view page) {
  const std::string title = section_title(section.what);
  return fmt::format("[{}]({}#{})", title.starts_with('`') ? title : std::string(section.what),
                     page == "schedules" ? "job.md" : "", heading_anchor(title));
}

/// Returns "list of [hooks](#hooks): `watch`, ...".
std::string kinds_links(const KeyDef& key) {
  std::vector<std::string> links;
  for (const job::Section& kind : job::kinds_of(key))
    links.push_back(fmt::format("`{}`", kind.keys.front().name));
  const bool hooks = key.type == KeyType::kHooks;
  return fmt::format("list of {}: {}", hooks ? "[hooks](#hooks)" : "[ops](#ops-of-augment)",
                     join(links, ", "));
}

/// The descriptions of the types whose values need no further explanation.
constexpr std::pair<KeyType, std::string_view> kNamedTypes[] = {
    {KeyType::kText, "text"},
    {KeyType::kAnyText, "text"},
    {KeyType::kBool, "`true`, `false`"},
    {KeyType::kInteger, "integer"},
    {KeyType::kNumber, "number"},
    {KeyType::kNumbers, "number, or a list of numbers"},
    {KeyType::kSides, "integer, or `[height, width]`"},
    {KeyType::kInterval, "`[smallest, largest]`"},
    {KeyType::kBoundaries, "list of steps"},
    {KeyType::kIntegers, "list of integers"},
    {KeyType::kShape, "shape"},
    {KeyType::kDType, "dtype"},
    {KeyType::kTexts, "list of names or globs"},
    {KeyType::kGlobs, "text, or a list of them"},
    {KeyType::kRanges, "range of rows, or a list of ranges"},
    {KeyType::kDevices, "`machine:first-last`, or a list of them"},
    {KeyType::kStepList, "list of steps and ranges"},
    {KeyType::kCommand, "line, or a list of words"},
    {KeyType::kVersion, "`1`"},
    {KeyType::kEntry, "[entry](#entries-of-a-graph)"},
    {KeyType::kNested, "name, or lists and mappings of names"},
    {KeyType::kFree, "any value"},
};

std::string named(KeyType type) {
  const auto found =
      std::ranges::find(kNamedTypes, type, &std::pair<KeyType, std::string_view>::first);
  return found == std::end(kNamedTypes) ? std::string() : std::string(found->second);
}

/// Returns the heading of a kind, such as "Loss scales".
std::string kind_title(const job::VariantKind& kind) {
  return capitalized(std::string(kind.noun)) + 's';
}

/// Returns a link from the given page to the heading of the kind.
std::string link_to(const job::VariantKind& kind, std::string_view page) {
  const auto is = [&kind](const job::VariantKind& other) { return &kind == &other; };
  const std::string_view home =
      is(job::kLearningRates) || is(job::kWarmups)                              ? "schedules"
      : is(job::kOptimizers) || is(job::kGradClippings) || is(job::kLossScales) ? "optimizers"
                                                                                : "job";
  return fmt::format("[{}]({}#{})", kind.noun, home == page ? "" : fmt::format("{}.md", home),
                     heading_anchor(kind_title(kind)));
}

/// Returns "integer >= 1", "`on` or `off`", or "[input](#input)". `page` is the name of the page
/// that shows the text.
std::string form_text(const KeyDef& key, std::string_view page) {
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
    case KeyType::kAugment:
      return kinds_links(key);
    default:
      return named(key.type) + bounds_text(key.bounds);
  }
}

/// Returns the same text for all forms of the value.
std::string type_text(const KeyDef& key, std::string_view page) {
  std::string text = form_text(key, page);
  if (key.type != KeyType::kWord && !key.words.empty()) text += ", or " + words_text(key.words);
  const bool alone = key.type == KeyType::kSection || key.type == KeyType::kSections ||
                     key.type == KeyType::kSource;
  if (!alone && key.section) text += ", or " + section_link(*key.section, page);
  return text;
}

/// Returns how a key relates to other keys, such as "; excludes `steps`".
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

/// Returns a table of keys with type, default and meaning.
std::string key_table(const std::vector<KeyDef>& keys, std::string_view page) {
  if (keys.empty()) return {};
  std::string text = "| key | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const KeyDef& key : keys)
    text += fmt::format("| `{}` | {} | {} | {}{} |\n", key.name,
                        markdown_cell(type_text(key, page)), markdown_cell(fallback_text(key)),
                        markdown_cell(key.doc), markdown_cell(relations(key)));
  return text;
}

/// Returns a table for a section whose key names the user chooses. REQUIRES: section.each.
std::string each_table(const job::Section& section, std::string_view page) {
  const bool globs = section.own_keys == job::OwnKeys::kGlobs;
  return fmt::format("| key | type | meaning |\n| --- | --- | --- |\n| {} | {} | {} |\n",
                     globs ? "any glob" : "any name", markdown_cell(type_text(*section.each, page)),
                     markdown_cell(section.each->doc));
}

/// Returns a text with each `type:` of a kind, its formula and its keys. Its headings have the
/// given level.
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

constexpr std::string_view kJobPage = "job";

/// Returns the keys of graph entries for calls, variables and training.
std::vector<KeyDef> entry_keys() {
  std::vector<KeyDef> keys = job::training_keys(nullptr);
  const std::vector<KeyDef>& more = job::kCallKeys;
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Shows each section once, directly followed by the sections to which its keys lead.
class JobPage {
 public:
  void show(const Section& section) {
    if (!shown_.insert(section.what).second) return;
    text += fmt::format("\n## {}\n", section_title(section.what));
    text +=
        '\n' + (section.each ? each_table(section, kJobPage) : key_table(section.keys, kJobPage));
    if (section.each && !section.keys.empty())
      text += "\nThese names have a meaning of their own:\n\n" + key_table(section.keys, kJobPage);
    if (!section.one_of.empty()) {
      std::vector<std::string> keys;
      for (const std::string_view key : section.one_of) keys.emplace_back(key);
      text += fmt::format("\nAt least one of {} is required.\n", quoted_alternatives(keys));
    }
    if (section.each) follow(*section.each);
    for (const KeyDef& key : section.keys) follow(key);
  }

  std::string text;

 private:
  void follow(const KeyDef& key) {
    if (key.section) show(*key.section);
    if (key.variants) show(*key.variants);
    if (key.type == KeyType::kHooks)
      show_kinds("Hooks", "The first key of a hook selects its kind.", key);
    if (key.type == KeyType::kAugment)
      show_kinds("Ops of `augment`",
                 "The first key of an op selects it. The ops act one after another.", key);
    if (key.type == KeyType::kEntry) show_entries();
  }

  void show(const job::VariantKind& kind) {
    const bool elsewhere = !link_to(kind, kJobPage).starts_with(fmt::format("[{}](#", kind.noun));
    if (elsewhere || !shown_.insert(std::string(kind.noun)).second) return;
    text += fmt::format("\n## {}\n", kind_title(kind));
    if (kind.by_word)
      text +=
          "\nA mapping with `type:` and the keys of that type. A type without required keys can "
          "be written as one word.\n";
    else
      text += "\nA mapping with `type:` and the keys of that type.\n";
    if (!kind.number.empty()) text += fmt::format("A number means `{}`.\n", kind.number);
    text += variant_text(kind, kJobPage, 3);
    for (const job::Variant& variant : kind.variants)
      for (const KeyDef& key : variant.keys) follow(key);
  }

  void show_kinds(const std::string& title, std::string_view explanation, const KeyDef& list) {
    if (!shown_.insert(title).second) return;
    text += fmt::format("\n## {}\n\n{}\n", title, explanation);
    for (const Section& kind : job::kinds_of(list)) {
      text +=
          fmt::format("\n### `{}`\n\n{}", kind.keys.front().name, key_table(kind.keys, kJobPage));
      for (const KeyDef& key : kind.keys) follow(key);
    }
  }

  void show_entries() {
    if (!shown_.insert("entries").second) return;
    text +=
        "\n## Entries of a graph\n\nAn entry calls an op or a network. `op:` names it, `in:` "
        "lists its operands. The operands and attributes of each op are also keys: see "
        "[ops](ops.md), or `flowc ops NAME`. Further keys:\n\n" +
        key_table(entry_keys(), kJobPage) +
        "\nOps without variables take neither `trainable` nor `variables`. Only networks and "
        "ops that behave differently in training take `training`.\n";
    for (const KeyDef& key : entry_keys()) follow(key);
    show(job::kInitializers);
    show(job::kRegularizerSection);
  }

  std::set<std::string> shown_;
};

constexpr std::string_view kOpsPage = "ops";

std::string operands_table(const ops::OpSpec& op) {
  if (op.operands.empty()) return {};
  std::string text = "\n| operand | type | meaning |\n| --- | --- | --- |\n";
  for (const ops::OperandSpec& operand : op.operands)
    text += fmt::format("| `{}` | {} | {} |\n", operand.name, markdown_cell(operand_type(operand)),
                        markdown_cell(operand.doc));
  return text;
}

std::string attributes_table(const ops::OpSpec& op) {
  const std::vector<job::KeyDef> keys = job::training_keys(&op);
  if (op.attributes.empty() && keys.empty()) return {};
  std::string text = "\n| attribute | type | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const ops::AttributeSpec& attribute : op.attributes) {
    const std::string fallback =
        attribute.fallback.empty() ? "required" : fmt::format("`{}`", attribute.fallback);
    text += fmt::format("| `{}` | {} | {} | {} |\n", attribute.name,
                        markdown_cell(attribute_type(attribute)),
                        op.attribute(attribute.fallback) ? "same as " + fallback : fallback,
                        markdown_cell(attribute.doc));
  }
  for (const job::KeyDef& key : keys)
    text += fmt::format("| `{}` | {} | {} | {} |\n", key.name, type_text(key, kOpsPage),
                        key.has_default() ? fmt::format("`{}`", key.fallback) : "",
                        markdown_cell(key.doc));
  return text;
}

std::string results_text(const ops::OpSpec& op) {
  if (op.results.size() < 2) return {};
  std::vector<std::string> names;
  for (size_t i = 1; i < op.results.size(); ++i)
    names.push_back(fmt::format("`NAME.{}`", op.results[i].name));
  return fmt::format("\nSecondary outputs: {}.\n", join(names, ", "));
}

std::string kind_text(const job::VariantKind& kind, std::string_view page) {
  return fmt::format("\n## {}\n{}", kind_title(kind), variant_text(kind, page, 3));
}

}  // namespace

std::string job_page() {
  JobPage page;
  page.text =
      "# Job file\n\nA job file is a YAML mapping. This page lists every key. `flowc check FILE` "
      "checks a file, `flowc config FILE --full` writes it with every default.\n\nEvery mapping "
      "except `graph` accepts `note:`, a text that is ignored.\n";
  page.show(job::kFileSection);
  return page.text;
}

std::string ops_page() {
  std::string text =
      "# Ops\n\n`flowc ops` lists the ops, `flowc ops NAME` shows one. Every entry also takes the "
      "keys of [entries](job.md#entries-of-a-graph).\n\n| op | what it computes |\n| --- | --- |\n";
  for (const ops::OpSpec* op : ops::written_specs())
    text += fmt::format("| [`{}`](#{}) | {} |\n", op->name, op->name, markdown_cell(op->doc));
  for (const ops::OpSpec* op : ops::written_specs()) {
    text += fmt::format("\n## `{}`\n\n{}\n", op->name, op->doc);
    if (!op->formula.empty()) text += fmt::format("\n```\n{}\n```\n", op->formula);
    text += operands_table(*op) + attributes_table(*op) + results_text(*op);
  }
  text += "\n## Activations\n\n`activation:` takes one of these names:\n\n";
  for (const std::string& name : activation_names()) text += fmt::format("- `{}`\n", name);
  return text;
}

std::string optimizers_page() {
  constexpr std::string_view kPage = "optimizers";
  const job::VariantKind& kind = job::kOptimizers;
  std::string text =
      "# Optimizers\n\n`optimizer:` of a train job is a mapping. `type:` selects the optimizer. In "
      "formulas `w` is a variable, `g` its gradient and `lr` the learning rate.\n\n## Keys of "
      "every optimizer\n\n" +
      key_table(kind.common, kPage) + variant_text(kind, kPage, 2);
  const job::Section& scales = job::kLearningRateScales;
  text += fmt::format("\n## {}\n\n{}", section_title(scales.what), each_table(scales, kPage));
  text += kind_text(job::kGradClippings, kPage) + kind_text(job::kLossScales, kPage);
  for (const job::Section* section : {&job::kEmaSection, &job::kLookaheadSection})
    text +=
        fmt::format("\n## {}\n\n{}", section_title(section->what), key_table(section->keys, kPage));
  return text;
}

std::string schedules_page() {
  constexpr std::string_view kPage = "schedules";
  const job::VariantKind& kind = job::kLearningRates;
  return fmt::format(
             "# Schedules\n\n`learning_rate:` of an optimizer is a number or one of these "
             "schedules, a mapping with `type:`. In formulas `step` counts from 0.\n\n## Keys of "
             "every schedule\n\n{}",
             key_table(kind.common, kPage)) +
         kind_text(kind, kPage) + kind_text(job::kWarmups, kPage);
}

std::string tolerances_page() {
  constexpr std::string_view kPage = "tolerances";
  const job::Section& entry = tolerances::entry_section();
  const job::KeyDef& steps = *job::find_key(entry.keys, "steps");
  return "# Tolerances\n\n`tolerances.yaml` in a golden directory sets the tolerances of "
         "`flowdiff GOLDEN OUT`. An element passes if |out - golden| <= atol + rtol * |golden|. "
         "The "
         "key of a tolerance is a glob of the names of arrays; of several that match, the last one "
         "applies.\n\n```yaml\narrays:\n  \"returns/**\": {rtol: 1e-5, atol: 1e-7, reason: threads "
         "sum in another order}\n  \"checkpoint/**\":\n    atol: 1e-4\n    steps: {0..10: {atol: "
         "1e-6}}\n    reason: errors grow with each step\n```\n\n## File\n\n" +
         key_table(tolerances::file_section().keys, kPage) + "\n## `arrays`\n\n" +
         each_table(*tolerances::file_section().keys[0].section, kPage) + "\n## Tolerance\n\n" +
         key_table(entry.keys, kPage) +
         "\nOne of `rtol`, `atol` and `steps` is required.\n\n## `steps` of a tolerance\n\n" +
         each_table(*steps.section, kPage) + "\n## Tolerance of steps\n\n" +
         key_table(steps.section->each->section->keys, kPage);
}

}  // namespace flow::cli
