// Opens, checks and prepares everything that a run needs.
#include "runtime/exec/run/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/events/tensorboard.h"
#include "runtime/exec/ranks/identity.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/follower.h"
#include "runtime/plan/model/environment_text.h"
#include "runtime/plan/model/variable_sharing.h"
#include "runtime/plan/serialize.h"

namespace flow::exec {

namespace {

/// Returns for each deliverable whether any of its deliveries has this property.
template <typename Has>
std::vector<uint8_t> list_those(const std::vector<plan::TensorId>& deliverables,
                                const std::vector<Delivery>& deliveries, const Has& has) {
  std::vector<uint8_t> those;
  for (const plan::TensorId id : deliverables)
    those.push_back(std::ranges::any_of(deliveries, [&](const Delivery& delivery) {
      return delivery.tensor == id && has(delivery);
    }));
  return those;
}

void require_shards(const Backend& backend, const plan::Job& job) {
  if (!job.sharding || backend.runs_shards()) return;
  throw RequestError(fmt::format("{}: shards are not supported on {}: job `{}` has {}, expected 1",
                                 job.where, backend.device(), job.name, job.sharding->count),
                     "write `shards: 1`, or use --device cpu");
}

void require_ranks(const Backend& backend, const plan::Job& job) {
  if (backend.runs_ranks()) return;
  throw RequestError(fmt::format("{}: several ranks are not supported on {}: job `{}`", job.where,
                                 backend.device(), job.name),
                     "use one process, or --device cpu");
}

/// Checks that each rank has one shard, because ranks exchange statistics of the whole batch.
void require_rank_of_shard(const plan::Job& job, int64_t ranks) {
  const int64_t shards = plan::shards_of(job);
  if (shards == 1 || shards == ranks) return;
  for (const plan::Step& step : job.steps) {
    const ops::Attribute* synchronized = step.attributes.find("synchronized");
    if (!synchronized || !std::get<bool>(*synchronized)) continue;
    const std::string entry = step.name.substr(0, step.name.rfind('/'));
    throw RequestError(
        fmt::format("{}: `{}` is synchronized: job `{}` has {} shards on {}, expected one shard a "
                    "rank",
                    step.where, entry, job.name, shards,
                    counted(static_cast<uint64_t>(ranks), "rank")),
        fmt::format("use mpirun -np {} with --distributed on CPUs, or write `synchronized: false`",
                    shards));
  }
}

void require_one_rank(const RunRequest& request, const char* flag) {
  if (request.ranks)
    throw RequestError(fmt::format("{} is not supported for several ranks", flag),
                       "use one process and one device; shards give the same results there");
}

/// Throws RequestError for requests that a job with a loop does not support.
void refuse_for_loop(const RunRequest& request, const plan::Job& job) {
  const auto refuse = [&](bool asked, const char* what, const char* hint) {
    if (asked)
      throw RequestError(fmt::format("{}: {} not supported for job `{}`, which has a loop",
                                     job.where, what, job.name),
                         hint);
  };
  const bool own = &job == &request.job;
  refuse(request.ranks != nullptr, "several ranks are", "use one process and one device");
  refuse(own && request.capture, "--capture is", "return or watch the results of its last pass");
  refuse(request.profile, "--profile is", "profile a job that makes one pass, without `loop`");
}

/// Checks that rows can be permuted: this process computes all rows of a batch, and no row is
/// padding.
void require_permutable(const RunRequest& request, const StepIndex& step_index) {
  require_one_rank(request, "--permute-rows");
  if (request.fingerprints)
    throw RequestError("--permute-rows is not supported with --fingerprint",
                       "leave one of the two out");
  if (step_index.pads())
    throw RequestError(
        fmt::format("--permute-rows: the last batch of {} rows is not whole", step_index.rows()),
        "choose a batch size that divides the rows");
}

/// Returns the inputs of the job that have these names.
std::vector<plan::TensorId> tensors_named(const plan::Job& job,
                                          const std::vector<std::string>& names) {
  std::vector<plan::TensorId> tensors;
  for (const plan::Input& input : job.inputs)
    if (std::ranges::find(names, job[input.tensor].name) != names.end())
      tensors.push_back(input.tensor);
  return tensors;
}

/// Returns the `--input` flags for the job itself. This includes names that no job has, so that the
/// job rejects them.
std::vector<std::pair<std::string, std::string>> inputs_of(const RunRequest& request) {
  const std::vector<const plan::Job*> others = plan::sub_jobs_of(request.plan, request.job);
  std::vector<std::pair<std::string, std::string>> given;
  for (const auto& input : request.inputs) {
    const bool elsewhere = std::ranges::any_of(
        others, [&](const plan::Job* job) { return wants_input(*job, input.first); });
    if (!elsewhere || has_input(request.job, input.first)) given.push_back(input);
  }
  return given;
}

/// Checks that the environment variables that commands need are set.
void require_environment(const RunRequest& request) {
  for (const auto& [sink, where] : plan::commands_of(request.plan, request.job))
    for (const auto& [name, text] : sink.env)
      if (const auto missing = plan::missing_variable(text))
        throw RequestError(
            fmt::format("{}: `{}` in the `env` of a command is `{}`, but `{}` is not set", where,
                        name, shortened(text), *missing),
            fmt::format("set {0}, write a default in the job file: `$env({0}:-default)`, or use "
                        "--no-commands",
                        *missing));
}

/// Returns the part of a job's batches that this rank reads.
BatchShare share_of(const RunRequest& request, const plan::Job& job) {
  if (!request.ranks || !job.sharding) return {};
  const Ranks& ranks = *request.ranks;
  const bool streams = !ranks.leads() && &job == &request.job;  // called jobs read no streams
  return {ranks.rank(), ranks.size(), streams ? request.streamed : std::vector<std::string>(),
          ranks.is_first_of_host()};
}

}  // namespace

PreparedJob::PreparedJob(const plan::Job& planned, const RunRequest& request,
                         const std::vector<std::pair<std::string, std::string>>& given,
                         const data::Learned& learned, std::string draws, Misreading misread)
    : job(planned),
      whole(planned),
      input_pipeline(std::make_unique<InputPipeline>(*whole, request.root, given, std::move(draws),
                                                     share_of(request, planned), misread,
                                                     learned)) {}

SinkOptions sink_options(const RunRequest& request, const plan::Job& job, const fs::path& directory,
                         int64_t first, MetricsLog* metrics, TensorBoard* tensorboard) {
  SinkOptions options;
  options.directory = directory;
  options.resume_from = first;
  options.out = request.out;
  options.json = request.json;
  options.print_steps = request.print_steps;
  options.run_commands = request.commands;
  options.commands = {.job = job.name,
                      .plan_hash = plan::hash(request.plan),
                      .directory = fs::absolute(request.root),
                      .run_directory = fs::absolute(request.directory),
                      .output_to_stderr = request.json,
                      .say = request.say,
                      .stopping = [asked = request.stop_signal] { return asked && asked() != 0; },
                      .watchdog = request.watchdog,
                      .hides_launcher = request.ranks != nullptr};
  options.digests = request.job.train;  // a train job leaves checkpoints
  if (request.resume) options.commands.resumed_from = first;
  if (metrics) options.keep_reduced = [metrics](const auto& reduced) { metrics->append(reduced); };
  if (tensorboard)
    options.keep_histogram = [tensorboard, name = job.name](const auto& found) {
      tensorboard->add(name, found);
    };
  return options;
}

int64_t end_of_run(const plan::Job& job, const InputPipeline& input_pipeline,
                   std::optional<int64_t> steps) {
  const StepIndex& step_index = input_pipeline.step_index();
  int64_t end = std::numeric_limits<int64_t>::max();
  if (job.run.epochs && !step_index.has_rows())
    throw RequestError(fmt::format("{}: job `{}` runs {} epochs, but reads no dataset", job.where,
                                   job.name, *job.run.epochs),
                       "use `steps` instead");
  if (job.run.epochs) end = steps_of_epochs(*job.run.epochs, step_index.steps_per_epoch());
  if (const std::optional<int64_t> limit = steps ? steps : job.run.steps)
    end = std::min(end, *limit);
  // If a dataset is read, the array has one slice for each step of an epoch.
  const bool ends_with_slices = input_pipeline.slices() && !step_index.has_rows();
  if (ends_with_slices) end = std::min(end, *input_pipeline.slices());
  if (job.run.epochs || job.run.steps) return end;
  if (step_index.has_rows()) return std::min(end, step_index.steps_per_epoch());
  return steps || ends_with_slices || input_pipeline.is_seen_reading() ? end : 1;
}

std::vector<std::string> streamed_inputs(const RunRequest& request) {
  if (request.ranks && !request.ranks->leads()) return request.streamed;
  std::vector<std::string> names;
  for (const plan::Input& input : request.job.inputs) {
    const std::string& name = request.job[input.tensor].name;
    const auto given =
        std::ranges::find(request.inputs, name, &std::pair<std::string, std::string>::first);
    const bool is_given = given != request.inputs.end();
    const plan::InputSource source =
        is_given ? parse_input_source(name, given->second) : input.source;
    const auto* npy = std::get_if<plan::FromNpy>(&source);
    if (npy && is_stream(is_given ? fs::path(npy->path) : request.root / npy->path))
      names.push_back(name);
  }
  return names;
}

void prepare_program(Backend& backend, const RunRequest& request, PreparedJob& prepared,
                     int64_t first, int64_t end,
                     const std::vector<VariableSource>& variable_sources) {
  const plan::Job& job = prepared.job;
  if (job.loop) refuse_for_loop(request, job);
  require_shards(backend, job);
  require_rank_of_shard(job, request.ranks ? request.ranks->size() : 1);
  PrepareOptions options;
  if (request.ranks && job.sharding) {
    require_ranks(backend, job);
    options.ranks = &request.ranks->collectives();
    if (&job == &request.job) options.streamed = tensors_named(job, streamed_inputs(request));
  }
  options.threads = request.threads;
  options.input_slots = input_slots(job);
  options.output_slots = prepared.output_slots = output_slots(job, backend);
  prepared.launches_ahead = backend.asynchronous();
  options.deliverables = list_deliverables(job, prepared.deliveries);
  options.always =
      list_those(options.deliverables, prepared.deliveries,
                 [&](const Delivery& delivery) { return delivery.fires_always(first, end); });
  std::fill_n(options.always.begin(), read_in_each_call(job).size(), 1);
  if (job.sharding)
    options.in_parts = list_those(
        options.deliverables, prepared.deliveries,
        [&](const Delivery& delivery) { return delivery.is_part_of(job[delivery.tensor]); });
  options.eager = request.eager;
  options.profile = request.profile;
  options.fuse = request.fuse;
  const bool keep = request.keep_choices || request.resume;
  const Tuning tuning{keep ? request.directory / kAlgorithmsFolder : fs::path(), request.say};
  if (request.tune) options.tuning = &tuning;
  options.variable_sources = variable_sources;
  options.fingerprints = &job == &request.job && request.fingerprints;
  // For less than an epoch, copying a whole dataset to the device takes longer than it saves.
  const StepIndex& step_index = prepared.input_pipeline->step_index();
  if (request.permute_rows)
    require_permutable(request, step_index);
  else if (step_index.has_rows() && end - first >= step_index.steps_per_epoch())
    options.columns = prepared.input_pipeline->columns();
  if (job.loop) options.segments = segments_of(job);
  std::unique_ptr<Program>& program = prepared.program;
  program = backend.prepare(job, options);
  if (job.loop) program = make_loop(job, std::move(program));
  if (request.permute_rows)
    program = permute_rows(job, options, static_cast<uint64_t>(*request.permute_rows),
                           std::move(program));
}

namespace {

/// Adds the values of columns that `known` lacks.
data::Learned joined(data::Learned known, data::Learned learned) {
  known.merge(learned);
  return known;
}

}  // namespace

PreparedRun::PreparedRun(const RunRequest& request)
    : PreparedRun(request, learned_before(request)) {}

PreparedRun::PreparedRun(const RunRequest& request, data::Learned known)
    : PreparedJob(request.job, request, inputs_of(request), known, "", request.misread),
      learned(joined(std::move(known), input_pipeline->learned())),
      called(request, input_pipeline->step_index(), learned) {}

void PreparedRun::capture() {
  start.state.capture(job, *program);
  for (const auto& sub_job : called.jobs()) sub_job->capture(start.state);
}

namespace {

/// Lists the deliveries of a run. The captured tensors come before the return, which must be last.
std::vector<Delivery> deliveries_of(const RunRequest& request, const PreparedRun& run) {
  std::vector<Delivery> deliveries = list_deliveries(*run.whole, run.input_pipeline->step_index(),
                                                     followed_keys(request.job, request.job));
  if (!request.capture) return deliveries;
  require_one_rank(request, "--capture");
  const std::vector<Delivery> captured =
      list_captured(*run.whole, plan::own_of_shards(request.job), *request.capture);
  deliveries.insert(std::ranges::find(deliveries, true, &Delivery::every_step), captured.begin(),
                    captured.end());
  return deliveries;
}

/// Returns the end of the run, which is after the captured step if the run captures.
int64_t end_of_capture(const RunRequest& request, int64_t first, int64_t end) {
  if (!request.capture) return end;
  const int64_t step = request.capture->step;
  if (step < first || step >= end)
    throw RequestError(fmt::format("--capture: step {} is not run; the run has steps {} to {}",
                                   step, first, end - 1),
                       "name one of these steps, or raise --steps");
  return step + 1;
}

/// Starts to hash the data files in the background. A resumed run already has some hashes and
/// checks the files itself.
std::future<DataFiles> begin_hashing(const RunRequest& request) {
  if (request.resume) return {};
  return std::async(std::launch::async | std::launch::deferred,
                    [&] { return hash_data(request, {}); });
}

/// Checks that a variable's name can be a file name, because checkpoints store each variable in a
/// file.
void require_storable(const plan::Job& job, const std::string& variable) {
  constexpr size_t kLongest = 255 - std::string_view(".npy").size();
  for (const std::string& part : split(variable, '/'))
    if (part.size() > kLongest)
      throw RequestError(
          fmt::format(
              "{}: cannot save the variable `{}`: a name of {} bytes is too long for a file",
              job.where, variable, part.size()),
          fmt::format("use at most {} bytes between two `/`", kLongest));
}

void require_storable(const RunRequest& request) {
  if (!request.job.train) return;
  for (const plan::Job* job : jobs_of(request))
    for (const plan::Variable& variable : job->variables)
      require_storable(*job, (*job)[variable.tensor].name);
}

/// Makes the programs of the job and of the jobs that it calls, which share its variables.
void prepare_programs(Backend& backend, const RunRequest& request, PreparedRun& run) {
  prepare_program(backend, request, run, run.start.first, run.end, {});
  run.start.state.write_to(request.job, *run.program);
  run.called.prepare(backend, *run.program, run.start.state);
}

/// Prepares a rank that does not lead. It receives its variables from rank 0 and writes no files.
PreparedRun prepare_to_follow(Backend& backend, const RunRequest& request) {
  PreparedRun run(request);
  run.end = end_of_run(request.job, *run.input_pipeline, request.steps);
  run.deliveries = deliveries_of(request, run);
  run.start.state = State(jobs_of(request));
  prepare_programs(backend, request, run);
  return run;
}

PreparedRun prepare_to_lead(Backend& backend, const RunRequest& request) {
  std::future<State> drawn = begin_drawing(request);
  PreparedRun run(request);
  if (request.commands) require_environment(request);
  const int64_t planned_end = end_of_run(request.job, *run.input_pipeline, request.steps);
  run.deliveries = deliveries_of(request, run);
  run.save = save_target(request);
  std::future<DataFiles> hashed = begin_hashing(request);
  require_storable(request);
  run.start = request.resume ? start_resumed(request, drawn.get(), run)
                             : start_new(request, std::move(drawn));
  run.end = end_of_capture(request, run.start.first, std::max(run.start.first, planned_end));
  run.start.state.set_learned(run.learned);
  prepare_programs(backend, request, run);
  if (request.fingerprints)
    require_room(*request.fingerprints, run.program->fingerprinted().size());
  if (request.tensorboard) check_events(request, run.start.first);
  if (hashed.valid()) run.start.data = hashed.get();
  if (request.say) say_remarks(request, backend, run);
  return run;
}

/// Connects the devices of all ranks. An error on one rank ends all ranks.
void connect(Ranks& ranks, PreparedRun& prepared) {
  try {
    prepared.program->connect();
    for (const auto& job : prepared.called.jobs()) job->prepared().program->connect();
  } catch (const std::exception& error) {
    ranks.fail(error);
    throw;
  }
}

/// Prepares the run on each rank separately. If all ranks succeed, they use the data and the
/// variables of rank 0.
PreparedRun prepare_on_ranks(Backend& backend, const RunRequest& request) {
  const Ranks& ranks = *request.ranks;
  if (ranks.leads()) {
    for (const plan::Job* job : jobs_of(request))
      if (job == &request.job || job->sharding) require_ranks_divide(ranks.size(), *job);
    announce(request);
  }
  std::optional<PreparedRun> prepared;
  std::exception_ptr error;
  try {
    prepared.emplace(ranks.leads() ? prepare_to_lead(backend, request)
                                   : prepare_to_follow(backend, request));
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const std::vector<std::string> texts = ranks.join(
      error, prepared
                 ? describe_data(backend.device(), request, prepared->input_pipeline->step_index())
                 : "");
  require_same_data(ranks, request, texts, prepared->start.data);
  connect(*request.ranks, *prepared);
  share_variables(ranks, *prepared);
  return std::move(*prepared);
}

}  // namespace

PreparedRun prepare_run(Backend& backend, const RunRequest& request) {
  return request.ranks ? prepare_on_ranks(backend, request) : prepare_to_lead(backend, request);
}

void share_variables(const Ranks& ranks, PreparedRun& prepared) {
  State& state = prepared.start.state;
  for (State::Entry& entry : state.entries()) {
    if (!ranks.leads()) entry.value = Array(entry.tensor->dtype, entry.tensor->shape);
    broadcast(ranks.collectives(), 0, entry.value.bytes());
    if (ranks.leads()) continue;
    state.write_to(prepared.job, *prepared.program);
    for (const auto& job : prepared.called.jobs()) job->restore(state);
    entry.value = {};  // freed one by one, because this host may not have memory for all variables
  }
}

}  // namespace flow::exec
