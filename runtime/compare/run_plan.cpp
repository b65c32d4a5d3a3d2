// The plan of a run directory.
#include "runtime/compare/run_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/run/run_files.h"
#include "runtime/plan/json/json_text.h"
#include "runtime/plan/json/serialize.h"
#include "runtime/plan/model/job_changes.h"

namespace flow::compare {
namespace {

/// The job that ran: run.json names it, and a plan of one job.
std::optional<size_t> job_that_ran(const plan::Plan& plan, const fs::path& run) {
  std::error_code ignored;
  const fs::path record = run / exec::kRunRecord;
  if (!fs::is_regular_file(record, ignored))
    return plan.jobs.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
  const Json json = plan::parse_json(read_text(record), record.string());
  const auto name = json.find("job");
  if (name == json.end() || !name->is_string()) return {};
  const auto job = std::ranges::find(plan.jobs, name->get<std::string>(), &plan::Job::name);
  if (job == plan.jobs.end()) return {};
  return static_cast<size_t>(job - plan.jobs.begin());
}

}  // namespace

std::optional<RunPlan> read_run_plan(const fs::path& run) try {
  const fs::path path = run / exec::kPlanFile;
  RunPlan read{.plan = plan::from_json(read_text(path), path.string()), .deliveries = {}};
  const auto job = job_that_ran(read.plan, run);
  if (!job) return {};
  read.job = *job;
  read.deliveries = exec::list_deliveries(read.ran(), exec::StepIndex());
  return read;
} catch (const RunError&) {
  return {};  // it is not what is compared
}

std::optional<ArrayPart> part_of(const exec::Delivery& delivery, std::string_view name) {
  const std::string folder = delivery.folder + "/";
  if (!name.starts_with(folder)) return {};
  name.remove_prefix(folder.size());
  if (name == (delivery.gradient ? "diff" : "value")) return ArrayPart{true, {}};
  if (delivery.gradient) {
    if (!name.starts_with("diff_")) return {};
    name.remove_prefix(5);
  }
  const auto step = whole_number(name);
  return step ? std::optional(ArrayPart{false, *step}) : std::nullopt;
}

std::string plan_changes(const RunPlan& golden, const RunPlan& out) {
  constexpr size_t kMostShown = 3;
  const std::string& job = golden.ran().name;
  if (job != out.ran().name) return fmt::format("different jobs: {} -> {}", job, out.ran().name);
  const auto changes = plan::list_job_changes(golden.plan, out.plan, job);
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kMostShown, changes.size()); ++i)
    shown.push_back(
        fmt::format("{} {} -> {}", changes[i].key, changes[i].before, changes[i].after));
  if (shown.empty()) return {};
  if (changes.size() > kMostShown)
    shown.push_back(fmt::format("{} more", changes.size() - kMostShown));
  return fmt::format("plans differ: {}", join(shown, ", "));
}

}  // namespace flow::compare
