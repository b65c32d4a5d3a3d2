// Calls other jobs between the steps of a job.
#include "runtime/exec/run/sub_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/plan/model/variable_sharing.h"

namespace flow::exec {

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Returns the job in the form in which it is called: its run section has only what affects a call,
/// and the names of its random draws are unique. Variables that `main` averages are read under the
/// names of their averages.
plan::Job called(const plan::Job& job, const plan::SubJob& also, const plan::Job& main) {
  plan::Job made = job;
  if (also.averaged)
    for (plan::Variable& variable : made.variables) {
      std::string& name = made.tensors[variable.tensor.index()].name;
      if (!plan::has_average(main, name)) continue;
      name = plan::average_of(name);
      variable.slot = true;
    }
  made.run = {};
  made.run.shuffle = job.run.shuffle;
  made.run.shuffle_buffer = job.run.shuffle_buffer;
  made.run.sampling = job.run.sampling;
  made.run.data_threads = job.run.data_threads;
  if (job.train) made.run.steps = job.run.steps.value_or(1);
  for (plan::Step& step : made.steps)
    if (step.attributes.has("consumer"))
      step.attributes.set("consumer",
                          job.name + ":" + step.attributes.get<std::string>("consumer"));
  return made;
}

Period period_of(const plan::SubJob& also) { return {also.every_steps, also.every_epochs}; }

/// Returns the `--input` flags for a called job: those for inputs that have no other source. An
/// input of the main job with the same name gets the flag instead.
std::vector<std::pair<std::string, std::string>> inputs_of(const plan::Job& job,
                                                           const RunRequest& request) {
  std::vector<std::pair<std::string, std::string>> given;
  for (const auto& input : request.inputs)
    if (wants_input(job, input.first)) given.push_back(input);
  return given;
}

}  // namespace

SubJobRun::SubJobRun(const RunRequest& request, const plan::SubJob& also, const plan::Job& job,
                     int64_t number, const data::Learned& learned)
    : request_(request),
      also_(also),
      planned_(job),
      number_(number),
      ranks_(job.sharding ? request.ranks : nullptr),
      job_(called(job, also, request.job)),
      prepared_(job_, request, inputs_of(job, request), learned, job.name + ":") {
  prepared_.deliveries = list_deliveries(*prepared_.whole, prepared_.input_pipeline->step_index(),
                                         followed_keys(request.job, planned_));
  if (prepared_.input_pipeline->is_seen_reading())
    throw RequestError(fmt::format("{}: job `{}` reads a stream, which allows only one pass",
                                   also.where, job.name),
                       "read a file instead; the job is called more than once");
  steps_a_call_ = end_of_run(job_, *prepared_.input_pipeline, {});
}

void SubJobRun::prepare(Backend& backend, const std::vector<VariableSource>& variable_sources,
                        const State& state) {
  prepare_program(backend, request_, prepared_, steps_, kNever, variable_sources);
  state.write_to(planned_, *prepared_.program);
  if (request_.profile) profile_.emplace(job_.name, *prepared_.program, steps_);
}

bool SubJobRun::resume_from(int64_t steps, int64_t calls) {
  steps_ = steps;
  return steps_of(steps / std::max<int64_t>(1, steps_a_call_)) == steps && steps <= steps_of(calls);
}

std::vector<std::string> SubJobRun::growing_files() const {
  std::vector<std::string> files = exec::growing_files(prepared_.deliveries);
  if (job_.train) files.emplace_back(kMetricsFile);
  for (std::string& file : files) file = (fs::path("also") / job_.name / file).string();
  return files;
}

void SubJobRun::add_outputs(OutputState& outputs) const {
  for (io::GrowingFile& file : deliverer_->outputs().files)
    outputs.files.push_back(std::move(file));
  if (metrics_) outputs.files.push_back(metrics_->file());
  deliverer_->add_fired(outputs.sums, sums_prefix());
}

void SubJobRun::begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
                      TensorBoard* tensorboard) {
  of_run_ = of_run;
  tensorboard_ = tensorboard;
  const fs::path directory = request_.directory / "also" / job_.name;
  SinkOptions options = sink_options(request_, job_, directory, steps_, of_run, tensorboard);
  options.recorded = recorded;
  options.calls_before = steps_ / std::max<int64_t>(1, steps_a_call_);
  for (const auto& [name, words] : sums)
    if (name.starts_with(sums_prefix())) options.sums[name.substr(sums_prefix().size())] = words;
  deliverer_.emplace(*prepared_.whole, prepared_.input_pipeline->step_index(), prepared_.deliveries,
                     options);
  if (!job_.train) return;
  make_folders(directory);
  metrics_.emplace(directory / kMetricsFile, steps_);
}

RunResult SubJobRun::call_until(int64_t calls, const CallSite& site) {
  RunResult result;
  deliverer_->begin_call({site.main_step, site.main_epoch, also_.every_epochs > 0});
  while (steps_ < steps_of(calls) && !result.cut_short()) {
    const MetricsLog::Length before = of_run_ ? of_run_->length() : MetricsLog::Length();
    const uint64_t events_before = tensorboard_ ? tensorboard_->bytes() : 0;
    result = call(site);
    if (!result.cut_short()) end_call(result);
    if (!result.cut_short() && site.after_call) site.after_call(*this);
    if (result.stop == Stop::kNone) continue;
    if (of_run_) of_run_->cut(before);
    if (tensorboard_) tensorboard_->cut(events_before);
  }
  return result;
}

void SubJobRun::end_call(RunResult& result) {
  steps_ = result.steps;
  try {
    deliverer_->end_call(steps_);
  } catch (...) {
    result.error = std::current_exception();
  }
}

void SubJobRun::close() {
  deliverer_->close();
  if (metrics_) metrics_->close();
}

RunResult SubJobRun::call(const CallSite& site) {
  const auto log_step = [&](const StepRecord& record) {
    if (record.loss) log(record, site);
    if (job_.train) say_what_is_awaited(record.step + 1 - steps_);
  };
  Execution steps = execution(*deliverer_, site.pool);
  steps.first = steps_;
  steps.end = steps_ + steps_a_call_;
  steps.since = site.since;
  steps.on_step = log_step;
  steps.profile = profile_ ? &*profile_ : nullptr;
  return execute_on_ranks(steps, number_);
}

/// No rank interrupts the call of a train job.
Execution SubJobRun::execution(Deliverer& deliverer, ThreadPool& pool) {
  return {.prepared = prepared_,
          .deliverer = deliverer,
          .pool = pool,
          .stop = [this] { return job_.train ? Stop::kNone : stop_for(request_.stop_signal); },
          .ranks = ranks_};
}

void SubJobRun::log(const StepRecord& record, const CallSite& site) {
  metrics_->append(
      plan::Metrics{record.step, prepared_.input_pipeline->step_index().at(record.step).epoch,
                    *record.loss, record.learning_rate, record.seconds, record.loss_scale,
                    record.skipped, site.main_step, record.gradient_norm});
  of_run_->append(plan::CalledMetrics{{site.main_step, site.main_epoch, job_.name, record.step},
                                      *record.loss,
                                      record.learning_rate});
}

void SubJobRun::say_what_is_awaited(int64_t steps) {
  if (said_ || !request_.say || stop_for(request_.stop_signal) == Stop::kNone ||
      steps == steps_a_call_)
    return;
  said_ = true;
  request_.say(fmt::format("stopping after the call of `{}`: {} of {} steps done", job_.name, steps,
                           steps_a_call_));
}

SubJobRuns::SubJobRuns(const RunRequest& request, const StepIndex& step_index,
                       data::Learned& learned)
    : main_(request.job), step_index_(step_index) {
  const auto jobs = plan::sub_jobs_of(request.plan, request.job);
  for (size_t i = 0; i < jobs.size(); ++i) {
    const plan::SubJob& also = request.job.run.also[i];
    if (request.ranks && !request.ranks->leads() && !jobs[i]->sharding) continue;
    if (also.every_epochs > 0 && !step_index.has_rows())
      throw RequestError(
          fmt::format("{}: job `{}` is called after epochs, but `{}` reads no dataset", also.where,
                      also.job, request.job.name),
          "use `steps` instead");
    jobs_.push_back(
        std::make_unique<SubJobRun>(request, also, *jobs[i], static_cast<int64_t>(i) + 1, learned));
    learned.merge(jobs_.back()->prepared().input_pipeline->learned());
  }
}

SubJobRun& SubJobRuns::numbered(int64_t number) const {
  const auto found = std::ranges::find(jobs_, number, &SubJobRun::number);
  FLOW_CHECK(found != jobs_.end(), "called job {}", number);
  return **found;
}

void SubJobRuns::prepare(Backend& backend, const Program& main, const State& state) {
  std::vector<VariableSource> variable_sources = {{&main_, &main}};
  for (const auto& job : jobs_) {
    job->prepare(backend, variable_sources, state);
    variable_sources.push_back({&job->job(), job->prepared().program.get()});
  }
}

int64_t SubJobRuns::calls_after(const plan::SubJob& also, int64_t steps) const {
  return period_of(also).count(step_index_, steps);
}

bool SubJobRuns::due_at(int64_t steps) const {
  return std::ranges::any_of(
      jobs_, [&](const auto& job) { return period_of(job->also()).ends_at(step_index_, steps); });
}

bool SubJobRuns::behind_at(int64_t steps) const {
  return std::ranges::any_of(jobs_, [&](const auto& job) {
    return job->steps() < job->steps_of(calls_after(job->also(), steps));
  });
}

const SubJobRun* SubJobRuns::resume_from(const std::map<std::string, int64_t>& own_steps,
                                         int64_t steps) {
  for (const auto& job : jobs_) {
    const auto own = own_steps.find(job->job().name);
    if (own != own_steps.end() && !job->resume_from(own->second, calls_after(job->also(), steps)))
      return job.get();
  }
  return nullptr;
}

int64_t SubJobRuns::next_after(int64_t steps) const {
  int64_t next = kNever;
  for (const auto& job : jobs_)
    next = std::min(next, period_of(job->also()).next_end(step_index_, steps));
  return next;
}

void SubJobRuns::begin(const Sums& sums, const io::RecordedFiles* recorded, MetricsLog* of_run,
                       TensorBoard* tensorboard) {
  for (const auto& job : jobs_) job->begin(sums, recorded, of_run, tensorboard);
}

RunResult SubJobRuns::call_at(const CallSite& site) {
  RunResult result;
  for (const auto& job : jobs_) {
    const int64_t calls = calls_after(job->also(), site.main_step);
    if (job->steps() >= job->steps_of(calls)) continue;
    result = job->call_until(calls, site);
    if (result.cut_short()) break;
    if (job->trains_alone() && site.share_trained) site.share_trained();
  }
  return result;
}

Stop SubJobRuns::stop_asked() const {
  Stop stop = Stop::kNone;
  for (const auto& job : jobs_)
    if (stop == Stop::kNone) stop = job->deliverer().stop_asked();
  return stop;
}

std::string SubJobRuns::stopping_hook() const {
  std::string hook;
  for (const auto& job : jobs_)
    if (hook.empty()) hook = job->deliverer().stopping_hook();
  return hook;
}

void SubJobRuns::end(std::string_view status) {
  for (const auto& job : jobs_) job->end(status);
}

void SubJobRuns::close() {
  for (const auto& job : jobs_) job->close();
}

}  // namespace flow::exec
