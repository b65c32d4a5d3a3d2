// The plan of a run directory.
#include "runtime/compare/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::compare {
namespace {

/// The job that ran: run.json names it, and a plan of one job.
std::optional<size_t> job_that_ran(const plan::Plan& plan,
                                   const std::optional<std::string>& record) {
  if (!record) return plan.jobs.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
  const Json json = plan::parse_json(*record, exec::kRunRecord);
  const auto name = json.find("job");
  if (name == json.end() || !name->is_string()) return {};
  const auto job = std::ranges::find(plan.jobs, name->get<std::string>(), &plan::Job::name);
  if (job == plan.jobs.end()) return {};
  return static_cast<size_t>(job - plan.jobs.begin());
}

}  // namespace

std::optional<RunPlan> read_run_plan(const fs::path& run) {
  const auto text = read_if_there(run, exec::kPlanFile, kLargestPlan);
  const auto record = read_if_there(run, exec::kRunRecord, kLargestRecord);
  if (!text) return {};
  try {
    RunPlan read{.plan = plan::from_json(*text, exec::kPlanFile), .deliveries = {}};
    const auto job = job_that_ran(read.plan, record);
    if (!job) return {};
    read.job = *job;
    read.deliveries = exec::list_deliveries(read.ran(), exec::StepIndex());
    return read;
  } catch (const RunError&) {
    return {};  // it is damaged, and not what is compared
  }
}

namespace {

struct DataFile {
  std::optional<int64_t> rows = {};
  std::string digest;
};

/// What run.json or, without it, the newest checkpoint says.
std::map<std::string, DataFile> data_of(const fs::path& run) {
  std::map<std::string, DataFile> files;
  auto text = read_if_there(run, exec::kRunRecord, kLargestRecord);
  const io::CheckpointFolder checkpoints(run);
  if (const auto steps = checkpoints.steps(); !text && !steps.empty())
    text = read_inside(run, checkpoints.at(steps.back()) / io::kCheckpointRecord, kLargestRecord);
  const Json json = text ? Json::parse(*text, nullptr, false) : Json();
  const auto data = json.is_object() ? json.find("data") : json.end();
  if (!json.is_object() || data == json.end() || !data->is_object()) return files;
  for (const auto& [name, file] : data->items()) {
    if (file.is_string()) files[name] = {{}, file.get<std::string>()};
    if (file.is_object())
      files[name] = {plan::integer_in(file, "rows"), plan::text_in(file, "digest")};
  }
  return files;
}

std::string rows_text(const DataFile& golden, const DataFile& out) {
  if (!golden.rows || !out.rows) return "";
  return golden.rows == out.rows ? fmt::format(", rows {}", *golden.rows)
                                 : fmt::format(", rows {} and {}", *golden.rows, *out.rows);
}

}  // namespace

std::vector<std::string> data_changes(const fs::path& golden, const fs::path& out) {
  constexpr size_t kMostShown = 5, kShownDigits = 12;
  const auto before = data_of(golden), after = data_of(out);
  std::vector<std::string> lines;
  for (const auto& [name, file] : before) {
    const auto other = after.find(name);
    if (other == after.end() || other->second.digest == file.digest) continue;
    lines.push_back(fmt::format("data differ: {}{}, digest {} and {}", name,
                                rows_text(file, other->second), file.digest.substr(0, kShownDigits),
                                other->second.digest.substr(0, kShownDigits)));
  }
  if (lines.size() > kMostShown) {
    const std::string rest = fmt::format("data differ: {} more", lines.size() - kMostShown);
    lines.resize(kMostShown);
    lines.push_back(rest);
  }
  return lines;
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
