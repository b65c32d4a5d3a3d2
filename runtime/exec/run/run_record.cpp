// The plan and the record of a run.
#include "runtime/exec/run/run_record.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <variant>

#include "flow_version.h"
#include "runtime/base/file.h"
#include "runtime/base/process.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/run_files.h"
#include "runtime/plan/json/serialize.h"

namespace flow::exec {

void write_plan(const RunRequest& request) {
  plan::Plan plan = request.plan;
  std::error_code error;
  const fs::path root = request.root.empty() ? "." : request.root;
  const fs::path way = fs::relative(root, request.directory, error);
  plan.root = error || way.empty() ? fs::absolute(root).string() : way.string();
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
  if (const Ranks* ranks = request.ranks) {
    record.ranks = {ranks->size(), prepared.program->memory().sent};
    const std::string mpi = ranks->collectives().library();
    if (!mpi.empty()) record.libraries["mpi"] = mpi;
  }
  return record;
}

}  // namespace flow::exec
