// The plan and the record of a run.
#include "runtime/exec/run/run_record.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <variant>

#include <fmt/format.h>

#include "flow_version.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {

namespace {

bool is_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (!character.valid) return false;
    at += character.bytes;
  }
  return true;
}

/// The root as the plan names it: from the directory of the run.
std::string root_from_run(const RunRequest& request) {
  std::error_code error;
  const fs::path root = request.root.empty() ? "." : request.root;
  const fs::path run = request.directory.empty() ? "runs/new" : request.directory;
  const fs::path way = fs::relative(root, fs::absolute(run), error);  // it may not exist yet
  return error || way.empty() ? fs::absolute(root).string() : way.string();
}

}  // namespace

void require_utf8_paths(const RunRequest& request) {
  for (const std::string& path : {request.plan.source, root_from_run(request)})
    if (!is_utf8(path))
      throw RequestError(fmt::format("the path {} is not UTF-8; plans of runs require UTF-8", path),
                         "rename the directory or file");
}

void write_plan(const RunRequest& request) {
  plan::Plan plan = request.plan;
  plan.root = root_from_run(request);
  write_text_atomically(request.directory / kPlanFile, plan::to_json(plan));
}

bool has_metrics(const RunRequest& request) {
  const auto reduces = [](const plan::Sink& sink) {
    const auto* print = std::get_if<plan::PrintSink>(&sink);
    return print && (print->metric || print->reduce != plan::Reduce::kNone);
  };
  return std::ranges::any_of(jobs_of(request), [&](const plan::Job* job) {
    return job->train || (job->returns && std::ranges::any_of(job->returns->sinks, reduces)) ||
           std::ranges::any_of(job->hooks, [&](const plan::Hook& hook) {
             return std::ranges::any_of(hook.sinks, reduces);
           });
  });
}

namespace {

/// Of a column of the job's own datasets.
std::optional<int64_t> rows_of(const std::string& name, const plan::Job& job,
                               const InputPipeline& input_pipeline) {
  const bool own = std::ranges::any_of(job.datasets, [&](const plan::Dataset& dataset) {
    return name.starts_with(dataset.name + ".");
  });
  if (!own || !input_pipeline.step_index().has_rows()) return {};
  return input_pipeline.step_index().rows();
}

}  // namespace

plan::RunRecord record_of(const Backend& backend, const RunRequest& request,
                          const PreparedRun& prepared) {
  plan::RunRecord record;
  record.job = request.job.name;
  record.source = request.plan.source;
  record.plan_hash = plan::hash(request.plan);
  record.device = backend.device();
  record.instruction_set = backend.instruction_set();
  record.version = FLOW_VERSION;
  record.host = host_name();
  record.overrides = request.overrides;
  record.load = request.load;
  record.seed = request.job.seed;
  record.threads = prepared.program->threads();
  record.first_step = prepared.start.first;
  if (request.fingerprints) record.fingerprint_every = request.fingerprints->every;
  record.arena_bytes = prepared.program->memory().arena;
  record.peak_memory_bytes = peak_memory();
  record.libraries = backend.libraries();
  for (const auto& [name, file] : prepared.start.data)
    record.data[name] = {rows_of(name, request.job, *prepared.input_pipeline), file.digest};
  if (const Ranks* ranks = request.ranks) {
    record.ranks = {ranks->size(), prepared.program->memory().sent};
    const std::string mpi = ranks->collectives().library();
    if (!mpi.empty()) record.libraries["mpi"] = mpi;
  }
  return record;
}

}  // namespace flow::exec
