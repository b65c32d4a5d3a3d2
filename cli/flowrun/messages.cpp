// Prints the messages of flowrun, and the facts about flow and its machine that a bug report needs.
#include "cli/flowrun/flowrun.h"

#include <fmt/format.h>

#include "cli/shared/console.h"
#include "cli/show/show.h"
#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/exec/core/module.h"
#include "runtime/exec/ranks/mpi_module.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/json/json.h"

namespace flow::cli {
namespace {

/// `anew` is true if this run stopped early, and false if it resumes a run that had stopped early.
void print_early_stop(const plan::Job& job, const exec::RunOutcome& outcome, bool anew) {
  print_to_stderr(
      fmt::format("flowrun: {} {} early after {}: {}\n", job.name, anew ? "stops" : "had stopped",
                  counted(static_cast<uint64_t>(outcome.steps), "step"), outcome.early_stop));
  if (!anew)
    print_to_stderr(fmt::format(
        "   hint: continue with --set jobs.{}.run.early_stopping.patience=N\n", job.name));
}

void print_next(const RunOptions& options, const plan::Job& job, const fs::path& directory,
                const exec::RunOutcome& outcome, const std::vector<std::string>& launcher) {
  if (outcome.interrupted()) {
    if (outcome.stop == exec::Stop::kHook)
      print_to_stderr(fmt::format("flowrun: {}\n", outcome.stopping_hook));
    const char* by = outcome.stop == exec::Stop::kCommand ? " by a command"
                     : outcome.stop == exec::Stop::kHook  ? " by a hook"
                                                          : "";
    print_to_stderr(fmt::format("flowrun: stopped{} after {}; {} with: {}\n", by,
                                counted(static_cast<uint64_t>(outcome.steps), "step"),
                                job.train ? "continue" : "restart",
                                next_command(options, job, directory, launcher)));
    return;
  }
  const bool anew = outcome.first_step == 0 || outcome.steps > outcome.first_step;
  if (!outcome.early_stop.empty()) print_early_stop(job, outcome, anew);
  if (!outcome.early_stop.empty() && !anew) return;
  const std::string took = human_seconds(outcome.seconds);
  if (!job.train) {
    print_to_stderr(fmt::format("flowrun: {} done in {}; outputs are in {}\n", job.name, took,
                                escaped(directory.string())));
    return;
  }
  if (!anew) {
    const bool epochs = job.run.epochs && outcome.epochs >= *job.run.epochs;
    print_to_stderr(
        fmt::format("flowrun: {} is already done after {}; continue with {}\n", job.name,
                    epochs ? counted(static_cast<uint64_t>(outcome.epochs), "epoch")
                           : counted(static_cast<uint64_t>(outcome.steps), "step"),
                    epochs ? fmt::format("--set jobs.{}.run.epochs=N", job.name) : "--steps N"));
    return;
  }
  const std::string loss = outcome.last_loss ? ", loss " + human_number(*outcome.last_loss) : "";
  print_to_stderr(
      fmt::format("flowrun: {} done, {} in {}{}; use it in predict jobs with --load {}\n", job.name,
                  counted(static_cast<uint64_t>(outcome.steps), "step"), took, loss,
                  command_line({{directory.string()}})));
}

OrderedJson describe_gpus() {
  const exec::Gpu gpu = exec::find_gpu();
  if (gpu.found()) return {{"usable", true}, {"devices", split(gpu.names(), ',')}};
  return {{"usable", false}, {"problem", gpu.problem()}, {"remedy", gpu.remedy()}};
}

}  // namespace

void print_start(const RunOptions& options, const exec::RunRequest& request,
                 const exec::Backend& backend, const std::string& why_cpu,
                 const std::string& ranks) {
  if (options.json) {
    OrderedJson line{{"event", "start"},
                     {"job", request.job.name},
                     {"device", backend.device()},
                     {"directory", request.directory.string()}};
    if (!ranks.empty()) line["ranks"] = request.ranks ? request.ranks->size() : 1;
    print_object(line);
  }
  if (options.quiet || options.json) return;
  print_to_stderr(fmt::format("flowrun: {} on {}{}{}, writing to {}\n", request.job.name,
                              backend.device(), why_cpu.empty() ? "" : " (" + why_cpu + ")",
                              ranks.empty() ? "" : ", " + ranks,
                              escaped(request.directory.string())));
}

void print_end(const RunOptions& options, const plan::Job& job, const fs::path& directory,
               const exec::RunOutcome& outcome, const std::vector<std::string>& launcher) {
  if (options.json) {
    OrderedJson line{{"event", "end"},
                     {"job", job.name},
                     {"directory", directory.string()},
                     {"step", outcome.steps},
                     {"seconds", outcome.seconds},
                     {"interrupted", outcome.interrupted()},
                     {"exit_status", outcome.exit_status}};
    if (!outcome.early_stop.empty()) line["early_stopping"] = outcome.early_stop;
    if (outcome.interrupted()) line["next"] = next_command(options, job, directory, launcher);
    print_object(line);
  } else if (outcome.exit_status == kDone || outcome.interrupted()) {
    if (!options.quiet || outcome.interrupted())
      print_next(options, job, directory, outcome, launcher);
  } else {
    print_to_stderr(
        fmt::format("flowrun: partial outputs are in {}\n", escaped(directory.string())));
  }
}

void print_profile(const RunOptions& options, const plan::Plan& plan,
                   const exec::ProfileReport& profile) {
  if (!options.json) {
    const auto job = std::ranges::find(plan.jobs, profile.job, &plan::Job::name);
    FLOW_CHECK(job != plan.jobs.end(), "job {}", profile.job);
    return print_to_stderr(profile_table(profile, *job, plan.source) + "\n");
  }
  const OrderedJson line{{"event", "profile"},
                         {"job", profile.job},
                         {"calls", profile.calls},
                         {"seconds", profile.seconds}};
  print_object(line);  // profile.json contains the other figures
}

void print_remark(const RunOptions& options, const std::string& text) {
  if (!options.json) return print_to_stderr(fmt::format("flowrun: {}\n", escaped_message(text)));
  print_object({{"event", "remark"}, {"text", text}});
}

void print_memory(const RunOptions& options, const std::vector<exec::JobMemory>& jobs) {
  size_t total = 0;
  for (const exec::JobMemory& job : jobs) {
    print(options.json ? memory_json(job) : memory_text(job));
    total += job.memory.total();
  }
  if (jobs.size() > 1 && !options.json) print(fmt::format("total: {}\n", human_bytes(total)));
}

ProgressBar::Style progress_style(const RunOptions& options) {
  if (options.quiet) return ProgressBar::Style::kSilent;
  if (options.json) return ProgressBar::Style::kJson;
  return is_screen(stderr) ? ProgressBar::Style::kBar : ProgressBar::Style::kLines;
}

std::string version_report() {
  OrderedJson report{
      {"name", "flowrun"},
      {"version", FLOW_VERSION},
      {"build", exec::build_id()},
      {"cpu", {{"instruction_set", cpu::instruction_set()}, {"cores", cpu::usable_cores()}}},
      {"gpu", describe_gpus()},
      {"mpi", exec::built_mpi()}};
  report["libraries"] = exec::opened_nvidia_libraries();
  return report.dump();
}

}  // namespace flow::cli
