// Decides when the state of a run is saved, saves it, and writes the records of checkpoints.
#include "runtime/exec/run/run_outputs.h"

#include <fmt/format.h>

#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/state.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {

void NonfiniteWarning::say(int64_t step, const std::string& found) {
  if (std::exchange(said_, true) || !request_.say) return;
  request_.say(fmt::format("{}: step {}: {}; continuing, as `on_nonfinite` is set",
                           request_.job.optimizer->where, step, found));
}

CheckpointWriter::CheckpointWriter(const RunRequest& request, const PreparedRun& prepared,
                                   const SameDirectory& home,
                                   const std::optional<MetricsLog>& metrics,
                                   std::optional<TensorBoard>& tensorboard,
                                   const Decisions& decisions, NonfiniteWarning& warning)
    : request_(request),
      job_(request.job),
      prepared_(prepared),
      home_(home),
      metrics_(metrics),
      tensorboard_(tensorboard),
      decisions_(decisions),
      warning_(warning),
      folder_(request.directory),
      best_(io::CheckpointFolder::at_path(request.directory / kBestFolder)),
      plan_hash_(plan::hash(request.plan)),
      resume_hash_(plan::resume_hash(request.plan, request.job)) {
  if (request.resume) kept_ = prepared.start.first;
}

/// Returns true if the interval between checkpoints has passed on rank 0, whose answer all ranks
/// use.
bool CheckpointWriter::has_time_passed() {
  const auto now = std::chrono::steady_clock::now();
  const std::chrono::duration<double, std::ratio<60>> minutes = now - last_;
  if (minutes.count() < *job_.run.checkpoint.every_minutes) return false;
  last_ = now;
  return true;
}

bool CheckpointWriter::wanted_after(int64_t step) {
  const plan::Checkpointing& wanted = job_.run.checkpoint;
  if (!job_.train) return false;
  if (wanted.every_minutes) return has_time_passed();
  if (wanted.every_steps > 0 && (step + 1) % wanted.every_steps == 0) return true;
  if (wanted.every_epochs == 0) return false;
  const Position position = prepared_.input_pipeline->step_index().at(step);
  return position.last_of_epoch && (position.epoch + 1) % wanted.every_epochs == 0;
}

void CheckpointWriter::save(int64_t steps, const OutputState& outputs) {
  check_trained(steps);
  home_.require();
  if (tensorboard_) tensorboard_->mark_checkpoint(steps);
  write_checkpoint(folder_.at(steps), prepared_.start.state, record(steps, outputs.sums),
                   files(outputs));
  kept_ = steps;
  prune();
  if (job_.run.checkpoint.rolls) rolling_ = steps;
}

void CheckpointWriter::prune() const try {
  if (rolling_ && rolling_ != kept_) folder_.remove(*rolling_);
  folder_.prune(job_.run.checkpoint.keep);
  if (job_.run.checkpoint.keep_best) best_.keep_only(decisions_.best_step());
} catch (const RunError& error) {
  if (request_.say) request_.say(error.what());  // too many checkpoints are not a failure
}

void CheckpointWriter::save_best(int64_t steps, const OutputState& outputs) const {
  check_trained(steps);
  home_.require();
  write_checkpoint(best_.at(steps), prepared_.start.state, record(steps, outputs.sums));
}

fs::path CheckpointWriter::save_last(int64_t steps, const OutputState& outputs) {
  if (kept_ != steps) save(steps, outputs);
  return folder_.at(steps);
}

void CheckpointWriter::save_copy(const fs::path& path, int64_t steps,
                                 const OutputState& outputs) const {
  write_checkpoint(path, prepared_.start.state, record(steps, outputs.sums));
}

/// Returns the step of the state that an earlier start of this job rescued, or 0 if there is none
/// that can be loaded.
int64_t CheckpointWriter::rescued_step() const try {
  const plan::CheckpointRecord before = Checkpoint(request_.directory / kRescued).record();
  return before.resume_hash == resume_hash_ ? before.step : 0;
} catch (const RunError&) {
  return 0;
}

int64_t CheckpointWriter::rescue(int64_t steps) {
  check_trained(steps);
  home_.require();
  if (const int64_t before = rescued_step(); before >= steps) return before;
  write_checkpoint(request_.directory / kRescued, prepared_.start.state, record(steps, {}));
  return steps;
}

/// Checks that the trained variables are finite before they are saved. The loss may not show this,
/// because not every variable contributes to it.
void CheckpointWriter::check_trained(int64_t steps) const {
  const auto found = nonfinite_variables(prepared_.start.state, [](const plan::Variable& variable) {
    return variable.trainable && !variable.slot;
  });
  if (!found) return;
  if (!job_.run.fail_on_nonfinite) return warning_.say(steps - 1, "the variable " + *found);
  throw RunError(fmt::format("{}: after step {}: the variable {}; it is not saved",
                             job_.optimizer->where, steps - 1, *found),
                 kFindNonfinite, kCheckFailed);
}

plan::CheckpointRecord CheckpointWriter::record(int64_t steps, const Sums& sums) const {
  const Position position =
      prepared_.input_pipeline->step_index().at(steps);  // the position of the next step
  plan::CheckpointRecord record;
  record.job = job_.name;
  record.step = steps;
  record.epoch = position.epoch;
  record.row = position.row;
  record.seed = job_.seed;
  record.plan_hash = plan_hash_;
  record.resume_hash = resume_hash_;
  if (!sums.empty()) record.sums = sums;
  if (plan::DecisionRecords decisions = decisions_.records(); !decisions.empty())
    record.decisions = std::move(decisions);
  if (metrics_) record.metrics_rows = metrics_->length().rows;
  record.inputs = given_inputs(request_);
  record.data.emplace();
  for (const auto& [name, file] : prepared_.start.data) (*record.data)[name] = file.digest;
  for (const auto& job : prepared_.called.jobs()) record.also[job->job().name] = job->steps();
  return record;
}

plan::FilesRecord CheckpointWriter::files(const OutputState& outputs) const {
  plan::FilesRecord record;
  record.files.emplace();
  for (const auto& [name, file] : prepared_.start.data) {
    if (file.stamp) record.data[name] = *file.stamp;
    if (!file.files.empty() && file.files.size() <= plan::FilesRecord::kMostListedFiles)
      (*record.files)[name] = file.files;
  }
  for (const io::GrowingFile& file : outputs.files)
    record.outputs[file.path.lexically_relative(request_.directory).string()] = {file.bytes,
                                                                                 file.digest};
  return record;
}

}  // namespace flow::exec
