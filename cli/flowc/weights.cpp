// Implements `flowc names` and `flowc export`.
#include "cli/flowc/flowc.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/weights/name_map.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

using exec::MappedVariable;
using exec::StoredItem;
using exec::UnusedArray;

/// The information that `flowc names` prints.
struct NamesReport {
  std::string job, weights;
  bool has_rules = false;
  exec::NameMap map;

  /// Returns true if the array is a problem. Without rules, arrays without a variable are ignored.
  bool is_wrong(const UnusedArray& array) const { return has_rules && !array.ignored(); }
  /// Returns true if a run could load the file.
  bool matches() const {
    return std::ranges::all_of(map.variables,
                               [](const MappedVariable& one) { return one.problem.empty(); }) &&
           std::ranges::none_of(map.unused, [&](const UnusedArray& one) { return is_wrong(one); });
  }
};

/// Returns `!` if something is wrong.
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
    for (const StoredItem& item : variable.arrays) {  // Each further array is on a separate line.
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

/// Lists the rules that match no remaining array. They are mistakes, or belong to another variant
/// of the file.
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

/// Returns the tables, the counts, and the proposed rules as YAML.
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
  return json_text(json);
}

/// Returns the job and the jobs that it calls, because a run loads the variables of all of them.
std::vector<const plan::Job*> jobs_with(const plan::Plan& plan, const plan::Job& job) {
  std::vector<const plan::Job*> jobs = plan::sub_jobs_of(plan, job);
  jobs.insert(jobs.begin(), &job);
  return jobs;
}

/// Returns true if the two jobs load the same variables by the same rules.
bool load_alike(const plan::Plan& plan, const plan::Job& a, const plan::Job& b) {
  const auto rules_of = [](const plan::Job& job) {
    std::vector<std::string> texts;
    for (const plan::NameRule& rule : job.run.checkpoint.names)
      texts.push_back(exec::yaml_text(rule));
    return texts;
  };
  const auto variables_of = [&plan](const plan::Job& job) {
    std::vector<std::pair<std::string, Shape>> variables;
    for (const exec::WantedVariable& one : exec::wanted_variables(jobs_with(plan, job)))
      variables.emplace_back(one.name, one.shape);
    return variables;
  };
  return rules_of(a) == rules_of(b) && variables_of(a) == variables_of(b);
}

/// Returns the job of the given name. Without a name, returns the only candidate: a job with rules
/// for names if there is one, else any job. Among jobs that load alike, the first one counts.
const plan::Job& job_for_names(const plan::Plan& plan, const std::string& name) {
  if (!name.empty()) return find_job(plan, name);
  std::vector<const plan::Job*> jobs;
  for (const plan::Job& job : plan.jobs)
    if (!job.run.checkpoint.names.empty()) jobs.push_back(&job);
  if (jobs.empty())
    for (const plan::Job& job : plan.jobs) jobs.push_back(&job);
  for (const plan::Job* job : jobs)
    if (!load_alike(plan, *jobs[0], *job))
      throw RequestError(fmt::format("{} has {}: {}", plan.source, counted(plan.jobs.size(), "job"),
                                     job_names(plan)),
                         "name one with --job");
  return *jobs[0];
}

/// Returns the variables to write: those that a glob of `only` matches, or all if `only` is empty.
std::vector<exec::StoredItem> items_to_write(const exec::StoredVariables& stored,
                                             const std::vector<std::string>& only) {
  std::vector<exec::StoredItem> items = exec::weights_in(stored);
  for (const std::string& glob : only)
    if (std::ranges::none_of(
            items, [&](const exec::StoredItem& item) { return glob_match(glob, item.name); }))
      throw RequestError("--only: " + no_match("variable", glob),
                         "`*` matches within one part of a name, `**` also matches `/`");
  std::erase_if(items, [&](const exec::StoredItem& item) {
    return !only.empty() && std::ranges::none_of(only, [&](const std::string& glob) {
      return glob_match(glob, item.name);
    });
  });
  return items;
}

}  // namespace

int list_names(const FlowcOptions& options) {
  const auto loaded = load(request_of(options));
  if (!loaded) return kRequestWrong;
  const plan::Job& job = job_for_names(loaded->plan, options.job);
  std::vector<exec::LoadedPath> paths;
  for (const std::string& path : options.weights) paths.push_back({path, "WEIGHTS"});
  const auto stored = exec::open_joined(paths, options.ema);
  const std::vector<plan::NameRule> none;
  const std::vector<plan::NameRule>& rules =
      stored->has_names_of_flow() ? none : job.run.checkpoint.names;
  const NamesReport report{
      .job = job.name,
      .weights = stored->path().string(),
      .has_rules = !rules.empty(),
      .map =
          exec::map_names(stored->has_names_of_flow() ? exec::weights_in(*stored) : stored->items(),
                          exec::wanted_variables(jobs_with(loaded->plan, job)), rules)};
  print(options.json ? names_json(report) : names_text(report));
  return report.matches() ? kDone : kCheckFailed;
}

int export_weights(const FlowcOptions& options) {
  if (is_onnx(options)) return export_onnx(options);
  exec::require_weights_format(options.output);
  if (!options.load.empty())
    throw RequestError("--load applies only to ONNX",
                       "name the checkpoint first: flowc export CKPT -o OUT");
  check_new_file(options.output);
  std::optional<LoadedPlan> loaded;
  std::vector<plan::NameRule> rules;
  if (!options.file.empty()) {
    loaded = load(request_of(options));
    if (!loaded) return kRequestWrong;
    const plan::Job& job = job_for_names(loaded->plan, options.job);
    rules = job.run.checkpoint.names;
    if (rules.empty())
      throw RequestError(
          fmt::format("job `{}` of {} has no rules for names", job.name, loaded->plan.source),
          "add `names` to its checkpoint section, or omit --names");
  } else if (!options.job.empty() || !options.sets.empty()) {
    throw RequestError("--job and --set require --names", "add --names FILE, or omit them");
  }
  const auto stored = exec::open_joined({{options.checkpoint, "CKPT"}}, options.ema);
  if (!stored->has_names_of_flow())
    throw RequestError(fmt::format("{} is not a checkpoint or a run", options.checkpoint),
                       "name a run directory or a folder in its checkpoints/");
  const auto arrays = exec::original_arrays(items_to_write(*stored, options.only), rules);
  exec::write_weights(options.output, *stored, arrays);
  std::vector<std::string> kept;
  for (const exec::OriginalArray& array : arrays)
    if (!array.rule) kept.push_back("`" + array.name + "`");
  if (!rules.empty() && !kept.empty())
    print_to_stderr(fmt::format("{}: no rule names {}; they keep their names\n",
                                escaped(options.output), escaped(join(kept, ", "))));
  print_to_stderr(fmt::format("{}: {} from {}\n", escaped(options.output),
                              counted(arrays.size(), "array"), escaped(stored->path().string())));
  return kDone;
}

}  // namespace flow::cli
