// Implements `flowc show` and `flowc diff`.
#include "cli/flowc/flowc.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "cli/show/job_tree.h"
#include "cli/show/picture.h"
#include "cli/show/show.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"

namespace flow::cli {
namespace {

/// Returns the option that requests a table other than the default one.
std::optional<std::string> view_of(const FlowcOptions& options) {
  std::optional<std::string> view;
  for (const auto& [given, name] : {std::pair{options.steps, "--steps"},
                                    {options.memory, "--memory"},
                                    {options.ranks > 0, "--ranks"},
                                    {options.commands, "--commands"},
                                    {options.all, "--all"}})
    if (given && view)
      throw RequestError(fmt::format("{} and {}: expected one of them", *view, name),
                         "run `flowc show` once for each");
    else if (given)
      view = name;
  return view;
}

/// Returns the job's entries as its author wrote them, or as its plan shows them.
std::vector<WrittenEntry> entries_of(const LoadedPlan& loaded, const plan::Job& job) {
  const auto written = loaded.entries.find(job.name);
  return written == loaded.entries.end() ? entries_of_plan(job) : written->second;
}

std::string show_text(const LoadedPlan& loaded, const plan::Job& job, const FlowcOptions& options) {
  if (options.steps) return show_steps(job);
  if (options.commands) return show_commands(job);
  if (options.memory) return show_memory(job);
  if (options.ranks > 0) return show_ranks(job, options.ranks);
  return show_job(job, entries_of(loaded, job), loaded.plan.source, options.all,
                  columns_of(stdout));
}

/// Draws a picture, which shows one job.
int draw(const LoadedPlan& loaded, const FlowcOptions& options) {
  const plan::Plan& plan = loaded.plan;
  if (plan.jobs.size() > 1)
    throw RequestError(
        fmt::format("--format {} draws one job; the file has {}", options.format, plan.jobs.size()),
        fmt::format("name one with --job: {}", job_names(plan)));
  const plan::Job& job = plan.jobs[0];
  const Picture picture =
      picture_of(job, tree_of(job, entries_of(loaded, job)),
                 {.gradients = options.gradients, .hooks = options.hooks, .all = options.all});
  print(options.format == "dot" ? to_dot(picture) : to_svg(picture));
  return kDone;
}

/// Returns the job of the given name. For a whole plan, also returns the jobs that it calls.
std::vector<plan::Job> chosen_jobs(const plan::Plan& plan, const std::string& name, bool whole) {
  std::vector<plan::Job> chosen = {find_job(plan, name)};
  for (size_t i = 0; whole && i < chosen.size(); ++i)
    for (const plan::Job* called : plan::sub_jobs_of(plan, chosen[i]))
      if (std::ranges::count(chosen, called->name, &plan::Job::name) == 0)
        chosen.push_back(*called);
  return chosen;
}

/// Returns the job of the given name, or null.
const plan::Job* job_of(const plan::Plan& plan, const std::string& name) {
  const auto job = std::ranges::find(plan.jobs, name, &plan::Job::name);
  return job == plan.jobs.end() ? nullptr : &*job;
}

/// Prints the differences job by job. A plan has less information about entries than a job file.
void print_diff(const LoadedPlan& a, const LoadedPlan& b,
                const std::vector<plan::Difference>& found) {
  const auto written = [&](const LoadedPlan& loaded, const plan::Job& job) {
    return WrittenJob{
        job, a.from_job_file && b.from_job_file ? entries_of(loaded, job) : entries_of_plan(job)};
  };
  std::map<std::string, std::vector<plan::Difference>> of_job;
  for (const plan::Difference& difference : found) {
    const size_t dot = difference.path.find('.');
    if (dot != difference.path.npos)
      of_job[difference.path.substr(0, dot)].push_back(
          {difference.path.substr(dot + 1), difference.a, difference.b});
  }
  for (const plan::Job& job : a.plan.jobs) {
    const plan::Job* other = job_of(b.plan, job.name);
    if (!other)
      print(fmt::format("job {}: removed\n", escaped(job.name)));
    else if (const auto& differs = of_job[job.name]; !differs.empty())
      print(fmt::format("job {}\n{}", escaped(job.name),
                        diff_text(written(a, job), written(b, *other), differs)));
  }
  for (const plan::Job& job : b.plan.jobs)
    if (!job_of(a.plan, job.name)) print(fmt::format("job {}: added\n", escaped(job.name)));
}

}  // namespace

int show_file(const FlowcOptions& options) {
  const auto view = view_of(options);
  const bool drawn = options.format == "dot" || options.format == "svg";
  if ((options.gradients || options.hooks) && !drawn)
    throw RequestError(fmt::format("--{} is for pictures, not for --format {}",
                                   options.gradients ? "gradients" : "hooks", options.format),
                       "add --format svg or --format dot");
  if (view && options.format != "table" && !(drawn && options.all))
    throw RequestError(
        fmt::format("{} prints a table; --format {} does not have it", *view, options.format),
        options.memory ? "use `flowrun --dry-run --json` for the memory of a run"
                       : "use `--format json` for the whole plan");
  auto loaded = load(request_of(options));
  if (!loaded) return kRequestWrong;
  plan::Plan& plan = loaded->plan;
  if (!options.job.empty()) plan.jobs = chosen_jobs(plan, options.job, options.format == "json");
  if (options.format == "json") {
    print(plan::to_json(plan));
    return kDone;
  }
  if (options.format != "table") return draw(*loaded, options);
  for (size_t i = 0; i < plan.jobs.size(); ++i)
    print_fitted(fmt::format("{}{}", i ? "\n" : "", show_text(*loaded, plan.jobs[i], options)));
  return kDone;
}

int diff_files(const FlowcOptions& options) {
  CompileRequest request = request_of(options);
  auto a = load(request);
  if (!a) return kRequestWrong;
  request.file = options.other;
  auto b = load(request);
  if (!b) return kRequestWrong;
  if (!options.job.empty())
    for (plan::Plan* plan : {&a->plan, &b->plan})
      plan->jobs = chosen_jobs(*plan, options.job, true);
  const std::vector<plan::Difference> found = plan::differences(a->plan, b->plan);
  if (found.empty()) {
    print("the plans are equivalent\n");
    return kDone;
  }
  if (options.values)
    print(list_values(found));
  else
    print_diff(*a, *b, found);
  print(fmt::format("{} in the plans{}\n", counted(found.size(), "difference"),
                    options.values ? "" : "; --values lists each of them"));
  return kCheckFailed;
}

}  // namespace flow::cli
