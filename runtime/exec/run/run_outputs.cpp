// Opens what a run writes, keeps it on the disk, and says what of it a checkpoint needs.
#include "runtime/exec/run/run_outputs.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/run/run_record.h"

namespace flow::exec {

RunOutputs::RunOutputs(const RunRequest& request, PreparedRun& prepared)
    : request_(request), job_(*prepared.whole), prepared_(prepared) {}

void RunOutputs::open() {
  if (request_.tensorboard) open_tensorboard();
  TensorBoard* const events = tensorboard ? &*tensorboard : nullptr;
  if (has_metrics(request_))
    metrics.emplace(request_.directory / kMetricsFile, prepared_.start.metrics_rows, events);
  SinkOptions options = sink_options(request_, job_, request_.directory, prepared_.start.first);
  options.sums = prepared_.start.sums;
  if (prepared_.start.recorded) options.recorded = &*prepared_.start.recorded;
  if (metrics) options.keep_reduced = [this](const auto& reduced) { metrics->append(reduced); };
  if (events)
    options.keep_histogram = [events, this](const auto& found) { events->add(job_.name, found); };
  deliverer.emplace(job_, prepared_.input_pipeline->step_index(), prepared_.deliveries, options);
  prepared_.called.begin(request_, prepared_.start.sums, options.recorded,
                         metrics ? &*metrics : nullptr, events);
  if (request_.fingerprints) open_fingerprints();
}

void RunOutputs::open_tensorboard() {
  std::vector<const plan::Job*> jobs = {&job_};
  for (const auto& job : prepared_.called.jobs()) jobs.push_back(&job->whole());
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
