// Tables of arrays and variables.
#include "cli/flowc/names_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/shared/table.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

using exec::MappedVariable;
using exec::StoredItem;
using exec::UnusedArray;

/// `!` where something is wrong.
std::string mark(bool wrong) { return wrong ? "!" : ""; }

std::string shape_and_dtype(const StoredItem& item) {
  return fmt::format("{} {}", item.shape.str(), item.dtype_name());
}

std::string rule_text(const plan::NameRule* rule) { return rule ? rule->where : ""; }

Table variables_table(const NamesReport& report) {
  Table table;
  table.row({"", "variable", "shape", "array", "shape and dtype", "rule", ""});
  for (const MappedVariable& variable : report.map.variables) {
    std::string name = variable.wanted.name, shape = variable.wanted.shape.str(),
                flag = mark(!variable.problem.empty()), problem = variable.problem;
    if (variable.arrays.empty()) table.row({flag, name, shape, "", "", "", problem});
    for (const StoredItem& item : variable.arrays) {  // further arrays on lines of their own
      table.row(
          {flag, name, shape, item.name, shape_and_dtype(item), rule_text(variable.rule), problem});
      name = shape = flag = problem = "";
    }
  }
  return table;
}

Table unused_table(const NamesReport& report) {
  Table table;
  table.row({"", "array", "shape and dtype", "rule", ""});
  for (const UnusedArray& array : report.map.unused)
    table.row({mark(report.is_wrong(array)), array.item.name, shape_and_dtype(array.item),
               rule_text(array.rule), array.ignored() ? "ignored" : array.problem});
  return table;
}

/// Rules that no array is left for: mistakes, or for another form of the file.
std::string idle_rules(const NamesReport& report) {
  const auto& rules = report.map.idle_rules;
  if (rules.empty()) return "";
  std::string text = fmt::format("\n{} without an array\n", counted(rules.size(), "rule"));
  for (const plan::NameRule* rule : rules)
    text += fmt::format("  {}  {}\n", escaped(rule_text(rule)), escaped(exec::yaml_text(*rule)));
  return text;
}

std::string counts(const NamesReport& report) {
  const auto& variables = report.map.variables;
  const auto missing = std::ranges::count_if(
      variables, [](const MappedVariable& one) { return one.arrays.empty(); });
  const auto wrong = std::ranges::count_if(variables, [](const MappedVariable& one) {
    return !one.arrays.empty() && !one.problem.empty();
  });
  const auto matched = static_cast<std::ptrdiff_t>(variables.size()) - missing - wrong;
  return fmt::format(
      "{} of job `{}`: {} matched, {} without an array, {} that do not fit\n{} of {} without a "
      "variable\n",
      counted(variables.size(), "variable"), escaped(report.job), matched, missing, wrong,
      counted(report.map.unused.size(), "array"), escaped(report.weights));
}

std::string proposal(const std::vector<exec::ProposedRule>& rules) {
  std::string text =
      "\n# proposed rules, by shapes and similar names; check them\n"
      "run:\n  checkpoint:\n    names:\n";
  for (const exec::ProposedRule& one : rules)
    text += fmt::format("      - {}{}{}\n", escaped(exec::yaml_text(one.rule)),
                        one.remark.empty() ? "" : "  # ", escaped(one.remark));
  return text;
}

OrderedJson to_json(const StoredItem& item) {
  return {{"name", item.name}, {"shape", item.shape.extents()}, {"dtype", item.dtype_name()}};
}

OrderedJson to_json(const plan::NameRule& rule) {
  OrderedJson json = {{"from", rule.from}};
  if (!rule.to.empty()) json["to"] = rule.to;
  if (!rule.perm.empty()) json["perm"] = rule.perm;
  if (rule.concat) json["concat"] = *rule.concat;
  if (!rule.sizes.empty()) json["sizes"] = rule.sizes;
  if (rule.split) json["split"] = *rule.split;
  for (const auto& [key, given] :
       {std::pair{"copy", rule.copy}, {"reshape", rule.reshape}, {"ignore", rule.ignore}})
    if (given) json[key] = true;
  return json;
}

}  // namespace

bool NamesReport::matches() const {
  return std::ranges::all_of(map.variables,
                             [](const MappedVariable& one) { return one.problem.empty(); }) &&
         std::ranges::none_of(map.unused, [&](const UnusedArray& one) { return is_wrong(one); });
}

std::string names_text(const NamesReport& report) {
  std::string text = variables_table(report).str();
  if (!report.map.unused.empty()) text += "\n" + unused_table(report).str();
  text += idle_rules(report) + "\n" + counts(report);
  const auto proposed =
      report.matches() ? std::vector<exec::ProposedRule>() : exec::propose_rules(report.map);
  return proposed.empty() ? text : text + proposal(proposed);
}

std::string names_json(const NamesReport& report) {
  OrderedJson variables = OrderedJson::array(), unused = OrderedJson::array(),
              idle = OrderedJson::array(), proposed = OrderedJson::array();
  for (const MappedVariable& one : report.map.variables) {
    OrderedJson arrays = OrderedJson::array();
    for (const StoredItem& item : one.arrays) arrays.push_back(to_json(item));
    variables.push_back({{"name", one.wanted.name},
                         {"shape", one.wanted.shape.extents()},
                         {"dtype", name_of(one.wanted.dtype)},
                         {"arrays", std::move(arrays)},
                         {"rule", rule_text(one.rule)},
                         {"problem", one.problem}});
  }
  for (const UnusedArray& one : report.map.unused) {
    OrderedJson json = to_json(one.item);
    json["rule"] = rule_text(one.rule);
    json["ignored"] = one.ignored();
    json["problem"] = one.problem;
    unused.push_back(std::move(json));
  }
  for (const plan::NameRule* rule : report.map.idle_rules) {
    OrderedJson json = to_json(*rule);
    json["rule"] = rule_text(rule);
    idle.push_back(std::move(json));
  }
  if (!report.matches())
    for (const exec::ProposedRule& one : exec::propose_rules(report.map)) {
      OrderedJson json = to_json(one.rule);
      json["remark"] = one.remark;
      proposed.push_back(std::move(json));
    }
  const OrderedJson json = {{"job", report.job},
                            {"weights", report.weights},
                            {"matches", report.matches()},
                            {"variables", std::move(variables)},
                            {"unused", std::move(unused)},
                            {"idle_rules", std::move(idle)},
                            {"proposed", std::move(proposed)}};
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace flow::cli
