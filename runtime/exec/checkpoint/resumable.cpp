// A directory that is resumed, started anew, or left alone.
#include "runtime/exec/checkpoint/resumable.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/exec/checkpoint/resume_checks.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {

namespace {

constexpr const char* kStartAnew =
    "start from step 0 with --force, which removes the earlier run; or name another directory with "
    "-o DIR";

[[noreturn]] void refuse(const RunRequest& request, const std::string& why) {
  throw RequestError(fmt::format("cannot resume {}: {}", request.directory.string(), why),
                     kStartAnew);
}

/// Was the run of this job, and not of another one of its plan? One that was killed has no record,
/// but perhaps metrics: lines without a job are a train job's, those with a step of their own are
/// of jobs that it calls.
bool is_of_this_job(const RunRequest& request) try {
  std::error_code ignored;
  const fs::path record = request.directory / kRunRecord;
  if (fs::exists(record, ignored))
    return Json::parse(read_text(record)).at("job") == request.job.name;
  const fs::path metrics = request.directory / kMetricsFile;
  if (!fs::exists(metrics, ignored)) return true;
  const std::string text = read_text(metrics);
  const Json line = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  if (!line.is_object() || line.contains("job_step")) return true;  // nothing is told
  return line.contains("job") ? line["job"] == request.job.name : request.job.train;
} catch (const std::exception&) {
  return false;
}

}  // namespace

Resumable find_resumable(const RunRequest& request) {
  const fs::path& directory = request.directory;
  std::error_code error;
  if (!fs::exists(directory, error) && !error) return Resumable::kNothing;
  if (!fs::is_directory(directory, error))
    throw RequestError(fmt::format("{} is a file, not a directory", directory.string()),
                       "name another directory with -o DIR");
  if (io::CheckpointFolder(directory).newest()) return Resumable::kCheckpoint;
  if (has_leftovers_only(directory)) return Resumable::kNothing;
  const fs::path path = directory / kPlanFile;
  if (!fs::exists(path, error))
    refuse(request, fmt::format("the directory is not empty and has no {}", kPlanFile));
  const plan::Plan plan = [&] {
    try {
      return plan::from_json(read_text(path), path.string());
    } catch (const RunError& unreadable) {
      refuse(request, unreadable.what());
    }
  }();
  const auto job = std::ranges::find(plan.jobs, request.job.name, &plan::Job::name);
  const bool same = job != plan.jobs.end() &&
                    plan::resume_hash(plan, *job) == plan::resume_hash(request.plan, request.job);
  if (!same || !is_of_this_job(request))
    refuse(request, fmt::format("its run differs from job `{}`{}", request.job.name,
                                differences_from_run(directory, request)));
  return Resumable::kUnsaved;
}

}  // namespace flow::exec
