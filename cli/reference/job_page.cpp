// The page of the job file: every mapping that it may hold, from the file down.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/reference/key_text.h"
#include "cli/reference/pages.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/tables/tables.h"
#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow::cli {
namespace {

using job::KeyDef;
using job::KeyType;
using job::Section;

constexpr std::string_view kJobPage = "job";

/// The keys of entries for which ops differ, each with those that have it.
std::vector<KeyDef> entry_keys() {
  std::vector<KeyDef> keys = job::training_keys(nullptr);
  const std::vector<KeyDef>& more = job::call_keys();
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// Shows each section once, those that its keys lead to right after it.
class JobPage {
 public:
  void show(const Section& section) {
    if (!shown_.insert(section.what).second) return;
    text += fmt::format("\n## {}\n", section_title(section.what));
    text +=
        '\n' + (section.each ? each_table(section, kJobPage) : key_table(section.keys, kJobPage));
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
    if (key.type == KeyType::kHooks) show_hooks();
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

  void show_hooks() {
    if (!shown_.insert("hooks").second) return;
    text += "\n## Hooks\n\nThe first key of a hook selects its kind.\n";
    for (const Section& hook : job::hook_sections()) {
      text +=
          fmt::format("\n### `{}`\n\n{}", hook.keys.front().name, key_table(hook.keys, kJobPage));
      for (const KeyDef& key : hook.keys) follow(key);
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
    show(job::initializers());
    show(job::regularizer_section());
  }

  std::set<std::string> shown_;
};

}  // namespace

std::string job_page() {
  JobPage page;
  page.text =
      "# Job file\n\nA job file is a YAML mapping. This page lists every key. `flowc check FILE` "
      "checks a file, `flowc config FILE --full` writes it with every default.\n\nEvery mapping "
      "except `graph` accepts `note:`, a text that is ignored.\n";
  page.show(job::file_section());
  return page.text;
}

}  // namespace flow::cli
