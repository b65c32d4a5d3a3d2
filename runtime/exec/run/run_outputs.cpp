// The plan and the record of a run. Opens the files that a run writes, makes sure that they are on
// the disk, and returns what a checkpoint needs of them.
#include "runtime/exec/run/run_outputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "flow_version.h"
#include "runtime/base/digest.h"
#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
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

/// Returns the root as the plan names it, relative to the run directory.
std::string root_from_run(const RunRequest& request) {
  std::error_code error;
  const fs::path root = request.root.empty() ? "." : request.root;
  const fs::path run = request.directory.empty() ? "runs/new" : request.directory;
  // The run directory may not exist yet.
  const fs::path way = fs::relative(root, fs::absolute(run), error);
  return error || way.empty() ? fs::absolute(root).string() : way.string();
}

/// Adds the rows of the datasets that a job reads.
void add_rows(const InputPipeline& input_pipeline, plan::RunRecord& record) {
  for (const auto& dataset : input_pipeline.datasets()) {
    plan::RunRecord::Data& data = record.data[std::string(dataset->dataset_name())];
    data.rows = dataset->counts().rows;
    data.bad_rows = dataset->counts().bad_rows;
  }
}

/// Returns the name of the dataset if `name` is one of its columns, "JOB:DATASET.COLUMN".
std::optional<std::string> dataset_of(const std::string& name, const RunRequest& request) {
  const size_t colon = name.find(':');
  const std::string column = colon == name.npos ? name : name.substr(colon + 1);
  for (const plan::Job* job : jobs_of(request))
    for (const plan::Dataset& dataset : job->datasets)
      if (column.starts_with(dataset.name + ".")) return dataset.name;
  return {};
}

/// Counts the files and bytes of a dataset or input, and joins the digests of its columns.
void add_files(const std::set<fs::path>& files, plan::RunRecord::Data& data) {
  std::error_code missing;
  data.files = std::ssize(files);
  for (const fs::path& file : files) {
    const uintmax_t bytes = fs::file_size(file, missing);
    if (!missing) data.bytes += bytes;
  }
  std::set<std::string> digests;
  for (const auto& [column, digest] : data.columns) digests.insert(digest);
  if (digests.empty()) return;
  data.digest = *digests.begin();
  if (digests.size() == 1) return;
  ContentDigest joined;
  for (const auto& [column, digest] : data.columns) joined.add(std::as_bytes(std::span(digest)));
  data.digest = joined.text();
}

/// Adds the datasets and the .npy files of inputs.
void add_data(const RunRequest& request, const PreparedRun& prepared, plan::RunRecord& record) {
  add_rows(*prepared.input_pipeline, record);
  for (const auto& job : prepared.called.jobs()) add_rows(*job->prepared().input_pipeline, record);
  std::map<std::string, std::set<fs::path>> files;
  for (const auto& [name, file] : prepared.start.data) {
    const std::optional<std::string> dataset = dataset_of(name, request);
    plan::RunRecord::Data& data = record.data[dataset.value_or(name)];
    if (dataset)
      data.columns[name.substr(name.rfind('.') + 1)] = file.digest;
    else
      data.digest = file.digest;
    files[dataset.value_or(name)].insert(file.source.paths.begin(), file.source.paths.end());
  }
  for (const auto& [name, paths] : files) add_files(paths, record.data[name]);
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
  add_data(request, prepared, record);
  if (const Ranks* ranks = request.ranks) {
    record.ranks = {ranks->size(), prepared.program->memory().sent};
    const std::string mpi = ranks->collectives().library();
    if (!mpi.empty()) record.libraries["mpi"] = mpi;
  }
  return record;
}

RunOutputs::RunOutputs(const RunRequest& request, PreparedRun& prepared)
    : request_(request), job_(*prepared.whole), prepared_(prepared) {}

void RunOutputs::open() {
  if (request_.tensorboard) open_tensorboard();
  TensorBoard* const events = tensorboard ? &*tensorboard : nullptr;
  if (has_metrics(request_))
    metrics.emplace(request_.directory / kMetricsFile, prepared_.start.metrics_rows, events);
  SinkOptions options = sink_options(request_, job_, request_.directory, prepared_.start.first,
                                     metrics ? &*metrics : nullptr, events);
  options.sums = prepared_.start.sums;
  if (prepared_.start.recorded) options.recorded = &*prepared_.start.recorded;
  deliverer.emplace(job_, prepared_.input_pipeline->step_index(), prepared_.deliveries, options);
  prepared_.called.begin(prepared_.start.sums, options.recorded, metrics ? &*metrics : nullptr,
                         events);
  if (request_.fingerprints) open_fingerprints();
}

void RunOutputs::open_tensorboard() {
  std::vector<const plan::Job*> jobs = {&job_};
  for (const auto& job : prepared_.called.jobs()) jobs.push_back(&*job->prepared().whole);
  tensorboard.emplace(request_, prepared_.start.first, jobs);
}

void RunOutputs::open_fingerprints() {
  const fs::path path = request_.directory / kFingerprintFile;
  std::error_code missing;
  const bool had_some = prepared_.start.first > 0 && fs::exists(path, missing);
  fingerprints.emplace(path, prepared_.program->fingerprinted(), *request_.fingerprints,
                       prepared_.start.first);
  if (had_some && !fingerprints->is_continued() && request_.say)
    request_.say(fmt::format(
        "{} is written again from here: it had another interval, size or tensors", path.string()));
}

void RunOutputs::say_cost_of_fingerprints(double seconds) const {
  if (!fingerprints || !request_.say || seconds <= 0) return;
  request_.say(fmt::format("fingerprints of {} every {} took {:.1f} % of the time of all steps",
                           counted(prepared_.program->fingerprinted().size(), "tensor"),
                           counted(static_cast<uint64_t>(request_.fingerprints->every), "step"),
                           100 * prepared_.program->fingerprint_seconds() / seconds));
}

OutputState RunOutputs::with_logs(OutputState state) const {
  if (metrics) state.files.push_back(metrics->file());
  for (const auto& job : prepared_.called.jobs()) job->add_outputs(state);
  return state;
}

void RunOutputs::close() {
  deliverer->close();
  prepared_.called.close();
  if (metrics) metrics->close();
  if (tensorboard) tensorboard->close();
  if (fingerprints) fingerprints->close();
}

}  // namespace flow::exec
