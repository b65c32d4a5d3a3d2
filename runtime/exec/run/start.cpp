// Finds the paths that a request reads and saves to. Draws, loads or resumes the initial state of a
// run.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <set>
#include <span>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/base/text.h"
#include "runtime/data/dataset/learning.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/input/source.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/exec/run/sub_jobs.h"
#include "runtime/io/checkpoint_folder.h"

namespace flow::exec {
namespace {

constexpr const char* kNone = "none";

/// Returns the nearest existing folder above `path`; missing folders will be created in it.
fs::path existing_ancestor(const fs::path& path) {
  std::error_code ignored;
  fs::path at = fs::absolute(path).lexically_normal().parent_path();
  while (!fs::exists(at, ignored) && at != at.root_path()) at = at.parent_path();
  return at;
}

/// Checks that the request specifies how variables are initialized.
void require_values(const RunRequest& request) {
  const plan::Job& job = request.job;
  if (!request.load_partial.empty() && loaded_from(request).empty())
    throw RequestError("--load-partial requires a checkpoint to load", "add --load CHECKPOINT");
  if (request.ema && loaded_from(request).empty())
    throw RequestError("--ema requires a checkpoint to load", "add --load CHECKPOINT");
  const auto parameters = std::ranges::count(job.variables, false, &plan::Variable::slot);
  if (request.load.empty() && job.run.checkpoint.load.empty() && !job.train && parameters > 0)
    throw RequestError(fmt::format("{}: job `{}` has {} variables, but nothing to load them from",
                                   job.where, job.name, parameters),
                       "add --load CHECKPOINT or --load RUN; --load none initializes them");
}

/// Reads what `open` opens, and repeats this if another run replaced the checkpoint meanwhile.
auto read_unreplaced(const auto& open, const auto& read) {
  constexpr int kMostTimes = 10;
  for (int i = 1;; ++i) {
    const auto stored = open();
    try {
      return read(*stored);
    } catch (const RunError&) {
      if (i == kMostTimes || !stored->is_replaced()) throw;
    }
  }
}

/// Loads what the request names.
Loaded load_unreplaced(const RunRequest& request, State& state) {
  const auto open = [&] {
    return open_by_rules(loaded_from(request), request.ema, request.job,
                         wanted_variables(jobs_of(request)), request.load_partial);
  };
  return read_unreplaced(open, [&](const StoredVariables& stored) {
    return load(stored, request.job, state, request.load_partial);
  });
}

bool learns_columns(const RunRequest& request) {
  const auto learns = [](const plan::Dataset& dataset) {
    return std::ranges::any_of(dataset.columns, data::needs_learning);
  };
  return std::ranges::any_of(jobs_of(request), [&](const plan::Job* job) {
    return std::ranges::any_of(job->datasets, learns);
  });
}

/// Returns a list of names such as "`a`, `b` and 7 more".
std::string first_names(const std::vector<std::string>& names) {
  constexpr size_t kMost = 5;
  std::vector<std::string> shown;
  for (const std::string& name : std::span(names).first(std::min(names.size(), kMost)))
    shown.push_back("`" + name + "`");
  return join(shown, ", ") +
         (names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

/// Loads the variables that the request names, and draws the others.
void load_variables(const RunRequest& request, State& state) {
  state.initialize(request.root, true);
  std::vector<std::string> anew;
  const Loaded loaded = load_unreplaced(request, state);
  for (State::Entry* entry : loaded.missing) {
    entry->value = initial_value(*entry->job, *entry->variable, request.root);
    anew.push_back("`" + entry->tensor->name + "`");
  }
  if (request.say) request.say("loaded " + loaded.from);
  if (request.say)
    for (const auto& [dtypes, arrays] : loaded.rounded)
      request.say(fmt::format("rounded {} to {}",
                              counted(arrays, fmt::format("{} array", name_of(dtypes.first))),
                              name_of(dtypes.second)));
  if (request.say && !loaded.unused.empty())
    request.say(fmt::format("ignored {} without a matching variable: {}",
                            counted(loaded.unused.size(), "array"), first_names(loaded.unused)));
  if (request.say && !anew.empty())
    request.say("not loaded, initialized instead: " + join(anew, ", "));
}

Checkpoint open_newest(const RunRequest& request) {
  if (!request.load.empty() || request.ema || !request.load_partial.empty())
    throw RequestError("--resume conflicts with --load: a resumed run loads its own checkpoint",
                       "omit one of them");
  require_own_files(request.directory);
  if (const auto newest = io::CheckpointFolder(request.directory).newest())
    return Checkpoint(*newest);
  throw RequestError(fmt::format("nothing to resume in {}: no complete checkpoint in checkpoints/",
                                 request.directory.string()),
                     "start a new run without --resume; --force removes the files of the earlier "
                     "one");
}

/// Throws RequestError if the data do not have the same length as before. Sets the steps from which
/// sub-jobs continue.
void resume_data(const Checkpoint& checkpoint, const StepIndex& step_index, SubJobRuns& called) {
  constexpr const char* kRemedy =
      "to train on other data, start a new run with --load and another -o DIR";
  const plan::CheckpointRecord& record = checkpoint.record();
  const Position position = step_index.at(record.step);
  if (position.epoch != record.epoch || position.row != record.row)
    throw RequestError(
        fmt::format("{}: the length of the data changed: step {} was at row {} of epoch {}, and is "
                    "now at row {} of epoch {}",
                    checkpoint.path().string(), record.step, record.row, record.epoch, position.row,
                    position.epoch),
        kRemedy);
  if (const SubJobRun* job = called.resume_from(record.also, record.step))
    throw RequestError(
        fmt::format("{}: the length of the data of job `{}` changed: {} no longer fill whole calls",
                    checkpoint.path().string(), job->job().name,
                    counted(static_cast<uint64_t>(job->steps()), "step")),
        kRemedy);
}

/// Returns the files that a resumed run appends to.
std::vector<std::string> growing_files_of(const RunRequest& request, const PreparedRun& run) {
  std::vector<std::string> files = growing_files(run.deliveries);
  if (request.job.train) files.emplace_back(kMetricsFile);
  for (const auto& job : run.called.jobs())
    for (std::string& file : job->growing_files()) files.push_back(std::move(file));
  return files;
}

/// Returns the outputs that the checkpoint lists, by their paths.
std::optional<io::RecordedFiles> recorded_files(const Checkpoint& checkpoint,
                                                const fs::path& directory) {
  const std::optional<plan::FilesRecord> files = checkpoint.files();
  if (!files) return {};
  io::RecordedFiles recorded;
  for (const auto& [name, output] : files->outputs) recorded[directory / name] = output.bytes;
  return recorded;
}

}  // namespace

namespace {

/// Reads what the files on this rank contain.
data::Learned learned_in_files(const RunRequest& request) {
  if (request.resume) return open_newest(request).learned();
  const std::vector<LoadedPath> paths = loaded_from(request);
  if (paths.empty()) return {};
  const auto open = [&] { return open_joined(paths, false); };
  data::Learned learned =
      read_unreplaced(open, [](const StoredVariables& stored) { return stored.learned(); });
  if (request.say && !learned.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, column] : learned) names.push_back("`" + name + "`");
    request.say("learned values come from the loaded checkpoint: " + join(names, ", "));
  }
  return learned;
}

}  // namespace

data::Learned learned_before(const RunRequest& request) {
  if (!learns_columns(request)) return {};
  if (!request.ranks) return learned_in_files(request);
  // Only rank 0 needs the checkpoint. All ranks use its values.
  std::exception_ptr error;
  std::string mine;
  try {
    if (request.ranks->leads()) mine = data::learned_text(learned_in_files(request));
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  return data::parse_learned(request.ranks->join(error, mine).front(), data::kLearnedFile);
}

std::vector<LoadedPath> loaded_from(const RunRequest& request) {
  return loaded_paths(request.job, request.root, request.load);
}

std::vector<fs::path> paths_read(const RunRequest& request) {
  const std::vector<LoadedPath> loaded = loaded_from(request);
  std::vector<fs::path> paths;
  for (const LoadedPath& one : loaded) paths.push_back(one.path);
  for (const plan::Job* job : jobs_of(request)) {
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns)
        for (const std::string& file : column.files) paths.push_back(request.root / file);
    for (const plan::Input& input : job->inputs)
      if (const auto* npy = std::get_if<plan::FromNpy>(&input.source))
        paths.push_back(request.root / npy->path);
    for (const plan::Variable& variable : job->variables)
      if (const auto* npy = std::get_if<plan::initializers::Npy>(&variable.initializer);
          npy && (loaded.empty() || !request.load_partial.empty()))
        paths.push_back(request.root / npy->path);
  }
  for (const auto& [name, text] : request.inputs) {
    const plan::InputSource source = parse_input_source(name, text);
    if (const auto* npy = std::get_if<plan::FromNpy>(&source)) paths.emplace_back(npy->path);
  }
  return paths;
}

std::optional<fs::path> save_target(const RunRequest& request) {
  const plan::Checkpointing& wanted = request.job.run.checkpoint;
  const std::optional<std::string>& text = request.save ? request.save : wanted.save;
  if (!text || *text == kNone) return std::nullopt;
  const std::string where = request.save ? "--save" : wanted.save_where;
  if (text->empty()) throw RequestError(where + ": empty path", "name a path, or use --save none");
  fs::path path = (request.save ? fs::path(*text) : request.root / *text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // the path ended with a slash
  path = followed(path);
  static const std::set<fs::path> kFileNames = {".npz", ".npy", ".pt", ".pth", ".safetensors"};
  if (kFileNames.contains(path.extension()))
    throw RequestError(
        fmt::format("{}: {} names a file; a checkpoint is a directory with a .npy per variable",
                    where, path.string()),
        fmt::format("write `{}`", fs::path(*text).replace_extension().string()));

  std::error_code ignored;
  const auto refuse = [&](const std::string& what) {
    throw RequestError(fmt::format("{}: {} {}", where, path.string(), what),
                       "name another path, or use --save none");
  };
  if (fs::exists(path, ignored) && !io::is_checkpoint(path))
    refuse("exists and is not a checkpoint");
  if (!request.directory.empty() && is_written(path, request.directory))
    refuse("belongs to the run itself");
  // An older checkpoint is replaced completely, with everything in its folder.
  if (!request.directory.empty() && lies_in(request.directory, path))
    refuse("contains the run directory");
  for (const fs::path& read : paths_read(request))
    if (lies_in(read, path) && !lies_in(path, read))
      refuse(fmt::format("contains {}, which the run reads", read.string()));
  const fs::path parent = existing_ancestor(path);
  for (const fs::path& name : fs::absolute(path).lexically_relative(parent))
    if (name.native().size() > NAME_MAX)
      refuse(fmt::format("cannot be created: a name is longer than {} bytes", NAME_MAX));
  if (!fs::is_directory(parent, ignored) || ::access(parent.c_str(), W_OK | X_OK) != 0)
    refuse(fmt::format("cannot be created: {} is not writable", parent.string()));
  return path;
}

std::future<State> begin_drawing(const RunRequest& request) {
  const bool draws = !request.resume && loaded_from(request).empty();
  const auto draw = [&request, draws, state = std::make_shared<State>(jobs_of(request))] {
    if (draws) state->initialize(request.root);
    return std::move(*state);
  };
  // Copied, not moved: libstdc++ moves the function to a thread and, if no thread starts, uses it
  // again.
  return std::async(draws ? std::launch::async | std::launch::deferred : std::launch::deferred,
                    draw);
}

Start start_new(const RunRequest& request, std::future<State> drawn) {
  require_values(request);
  Start start{drawn.get()};
  if (!loaded_from(request).empty()) load_variables(request, start.state);
  return start;
}

Start start_resumed(const RunRequest& request, State state, PreparedRun& run) {
  const Checkpoint checkpoint = open_newest(request);
  const plan::CheckpointRecord& record = checkpoint.record();
  require_same_job(checkpoint, request);
  require_same_inputs(checkpoint, request);
  resume(checkpoint, request.job, state);
  if (request.say) request.say("resuming from " + checkpoint.path().string());
  resume_data(checkpoint, run.input_pipeline->step_index(), run.called);
  // An older version wrote only losses to the metrics.
  const int64_t losses = ceil_div(record.step, request.job.run.log_every);
  Start start{std::move(state), record.step, record.sums.value_or(Sums()),
              record.metrics_rows.value_or(losses)};
  start.decisions = record.decisions.value_or(plan::DecisionRecords());
  if (request.job.train) start.data = require_same_data(checkpoint, request);
  require_same_outputs(checkpoint, request.directory, growing_files_of(request, run));
  start.recorded = recorded_files(checkpoint, request.directory);
  return start;
}

}  // namespace flow::exec
