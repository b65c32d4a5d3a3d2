// `flowc names` and `flowc export`.
#include "cli/flowc/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "cli/flowc/names_report.h"
#include "cli/flowc/onnx.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "runtime/base/display.h"
#include "runtime/base/exit_code.h"
#include "runtime/base/text.h"
#include "runtime/exec/checkpoint/loaded_variables.h"
#include "runtime/exec/weights/write_weights.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::cli {
namespace {

/// The job and those that it calls: a run loads the variables of all of them.
std::vector<const plan::Job*> jobs_with(const plan::Plan& plan, const plan::Job& job) {
  std::vector<const plan::Job*> jobs = plan::sub_jobs_of(plan, job);
  jobs.insert(jobs.begin(), &job);
  return jobs;
}

/// Do the jobs load the same variables by the same rules?
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

/// The job that is named or, where none is, the only one that can be meant: one with rules for
/// names, else any; of jobs that load alike the first.
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

/// The variables to write: those that a glob of `only` matches, or where there is none, all.
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
