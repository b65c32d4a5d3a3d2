// Reads rules for names, and points to what is wrong with them.
#include "compiler/job/read/name_rules.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"

namespace flow::job {
namespace {

/// Reads one rule.
class NameRuleReader {
 public:
  NameRuleReader(Reader& reader, const yaml::Node& node)
      : reader_(reader),
        fields_(reader, node, {node.span.source, node.span.begin, node.span.begin + 1},
                name_rule_section()) {
    rule_.where = reader.sources.where(node.span);
  }

  std::optional<plan::NameRule> read() {
    if (!fields_.is_mapping()) return {};
    const size_t before = reader_.diags.error_count();
    fields_.require("from");
    read_names("from", rule_.from);
    read_names("to", rule_.to);
    read_numbers("perm", rule_.perm);
    read_numbers("sizes", rule_.sizes);
    rule_.concat = fields_.integer("concat");
    rule_.split = fields_.integer("split");
    rule_.copy = fields_.flag("copy").value_or(false);
    rule_.reshape = fields_.flag("reshape").value_or(false);
    rule_.ignore = fields_.flag("ignore").value_or(false);
    if (reader_.diags.error_count() > before) return {};
    for (const plan::NameRuleFault& fault : faults_of(rule_))
      reader_.error(Diagnosis::kNameRule, span_of(fault), fault.message).with_hint(fault.hint);
    if (reader_.diags.error_count() > before) return {};
    return std::move(rule_);
  }

 private:
  void read_names(std::string_view key, std::vector<std::string>& names) {
    const yaml::Node* node = fields_.find(key);
    const auto read = node ? read_globs(reader_, *node, fmt::format("`{}`", key)) : std::nullopt;
    for (const Name& name : read.value_or(std::vector<Name>())) names.push_back(name.text);
  }

  void read_numbers(std::string_view key, std::vector<int64_t>& numbers) {
    const yaml::Node* node = fields_.find(key);
    const std::string what = fmt::format("`{}`", key);
    if (!node || !reader_.expect(*node, yaml::Kind::kList, what)) return;
    if (auto read = read_integers(reader_, *node, what)) numbers = *std::move(read);
    if (node->items.empty())
      reader_.error(Diagnosis::kNameRule, *node, what + " is empty; expected integers");
  }

  /// The value of the key, or its item; the rule where it has no such key.
  Span span_of(const plan::NameRuleFault& fault) const {
    const yaml::Node* node = fields_.find(fault.key);
    if (!node) return fields_.owner();
    const auto items = yaml::each_of(*node);
    return fault.position < items.size() ? items[fault.position].span : node->span;
  }

  Reader& reader_;
  Fields fields_;
  plan::NameRule rule_;
};

}  // namespace

std::vector<plan::NameRule> read_name_rules(Reader& reader, const yaml::Node& node) {
  std::vector<plan::NameRule> rules;
  if (!reader.expect(node, yaml::Kind::kList, "`names`", hint_for_item(node))) return rules;
  for (const yaml::Node& item : node.items)
    if (auto rule = NameRuleReader(reader, item).read()) rules.push_back(*std::move(rule));
  if (node.items.size() > plan::kMostNameRules)
    reader.error(Diagnosis::kNameRule, node,
                 fmt::format("`names` has {} rules; expected at most {}", node.items.size(),
                             plan::kMostNameRules));
  return rules;
}

}  // namespace flow::job
