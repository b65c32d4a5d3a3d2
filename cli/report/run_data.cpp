// Reads the small files of a run directory.
#include "cli/report/run_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::cli::report {
namespace {

std::string data_text(const Json& file) {
  const auto rows = plan::integer_in(file, "rows");
  return (rows ? fmt::format("{} rows, ", *rows) : "") +
         plan::text_in(file, "digest").substr(0, 12);
}

Record record_of(const Json& json) {
  Record record{.job = plan::text_in(json, "job"),
                .source = plan::text_in(json, "source"),
                .device = plan::text_in(json, "device"),
                .instruction_set = plan::text_in(json, "instruction_set"),
                .version = plan::text_in(json, "version"),
                .host = plan::text_in(json, "host"),
                .started = plan::text_in(json, "started"),
                .stop_reason = plan::text_in(json, "stop_reason"),
                .error = plan::text_in(json, "error"),
                .seed = plan::integer_in(json, "seed"),
                .threads = plan::integer_in(json, "threads"),
                .first_step = plan::integer_in(json, "first_step"),
                .last_step = plan::integer_in(json, "last_step"),
                .epochs = plan::integer_in(json, "epochs"),
                .exit_status = plan::integer_in(json, "exit_status"),
                .arena_bytes = plan::integer_in(json, "arena_bytes"),
                .peak_memory_bytes = plan::integer_in(json, "peak_memory_bytes")};
  record.load = plan::texts_in(json, "load");
  if (const auto found = json.find("seconds"); found != json.end() && found->is_number())
    record.seconds = found->get<double>();
  if (const auto found = json.find("ranks"); found != json.end() && found->is_object())
    record.ranks = plan::integer_in(*found, "count");
  record.overrides = plan::texts_in(json, "overrides");
  record.libraries = plan::named_texts_in(json, "libraries");
  if (const auto data = json.find("data"); data != json.end() && data->is_object())
    for (const auto& [name, file] : data->items())
      if (file.is_object()) record.data[name] = data_text(file);
  return record;
}

void read_record(RunData& run) {
  const auto text = read_bounded(run.directory / exec::kRunRecord, kLargestRecord, run);
  if (!text) return;
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_object())
    run.record = record_of(json);
  else
    run.note("run.json is damaged: it is not a JSON object");
}

/// Does another job of the plan call it?
bool is_called(const plan::Plan& plan, const plan::Job& job) {
  return std::ranges::any_of(plan.jobs, [&](const plan::Job& other) {
    return std::ranges::count(other.run.also, job.name, &plan::SubJob::job) > 0;
  });
}

/// The job that ran, as run.json says. Of a run that was killed: the only job of the plan, or,
/// where steps have losses, the only train job that no other one calls. Null where it is not known.
const plan::Job* job_that_ran(const RunData& run) {
  const std::vector<plan::Job>& jobs = run.plan->jobs;
  const plan::Job* found = nullptr;
  if (run.record) {
    const auto job = std::ranges::find(jobs, run.record->job, &plan::Job::name);
    return job == jobs.end() ? nullptr : &*job;
  }
  if (jobs.size() == 1) return &jobs.front();
  if (std::ranges::count(run.curves, "loss", &Curve::title) == 0) return nullptr;
  for (const plan::Job& job : jobs) {
    if (!job.train || is_called(*run.plan, job)) continue;
    if (found) return nullptr;
    found = &job;
  }
  return found;
}

void read_plan(RunData& run) {
  const fs::path path = run.directory / exec::kPlanFile;
  const auto text = read_bounded(path, kLargestPlan, run);
  if (!text) return run.note("no network and no memory: there is no plan.json to read");
  try {
    run.plan = plan::from_json(*text, "plan.json");
  } catch (const RunError& error) {
    return run.note(fmt::format("no network and no memory: {}", error.what()));
  }
  run.job = job_that_ran(run);
  if (!run.job) run.note("no network and no memory: it is not known which job of the plan ran");
}

void require_run(const fs::path& directory) {
  std::error_code error;
  if (!fs::exists(directory, error) && !error)
    throw RequestError(fmt::format("no such directory: {}", directory.string()),
                       "name the directory of a run, such as runs/lenet-train-001");
  if (!fs::is_directory(directory, error))
    throw RequestError(fmt::format("{} is not a directory", directory.string()),
                       "name the directory of a run");
  const auto has = [&](const fs::path& in, const char* name) {
    return fs::exists(fs::symlink_status(in / name, error));
  };
  for (const char* name : {exec::kPlanFile, exec::kRunRecord, exec::kMetricsFile})
    if (has(directory, name)) return;
  std::string hint = "name the directory that flowrun wrote to";
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error))
    if (has(entry.path(), exec::kPlanFile))
      hint = fmt::format("it has directories of runs: name {}/*", directory.string());
  throw RequestError(fmt::format("{} is not the directory of a run: it has no {}",
                                 directory.string(), exec::kPlanFile),
                     hint);
}

}  // namespace

std::optional<std::string> read_bounded(const fs::path& path, uint64_t most, RunData& run) {
  std::error_code unknown;
  if (!fs::exists(fs::symlink_status(path, unknown))) return {};
  try {
    return read_inside(run.directory, path, most);
  } catch (const RunError& failure) {
    run.note(fmt::format("left out: {}", failure.what()));
    return {};
  }
}

RunData read_run(const fs::path& directory) {
  require_run(directory);
  RunData run;
  run.directory = directory;
  read_record(run);
  read_metrics(directory / exec::kMetricsFile, run);
  read_plan(run);
  return run;
}

}  // namespace flow::cli::report
