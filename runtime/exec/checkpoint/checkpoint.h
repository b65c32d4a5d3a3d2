// Checkpoints: directories of .npy files that are complete when they contain checkpoint.json. Also
// the sources of variables: the paths that `load` names, or the run that `--resume` continues, with
// checks that its job, inputs, data and outputs are the same.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/weights/name_map.h"
#include "runtime/exec/weights/stored_variables.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Writes every variable and a record with their checksums to a temporary directory next to `path`,
/// syncs it and moves it to `path`. Also writes `files` if given. At any moment, `path` is either
/// the old or the new checkpoint; if the file system cannot exchange two folders, `path` is missing
/// for a moment. Throws RunError on failure, or if `path` exists and is not a checkpoint.
void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record,
                      const std::optional<plan::FilesRecord>& files = {});

/// A readable checkpoint.
class Checkpoint : public StoredVariables {
 public:
  /// Throws RequestError if `path` is not a checkpoint.
  explicit Checkpoint(const fs::path& path);

  const fs::path& path() const override { return path_; }
  const plan::CheckpointRecord& record() const { return record_; }
  /// Reads its files.json, or returns nothing if it has none. Throws RequestError if the file is
  /// damaged.
  std::optional<plan::FilesRecord> files() const;
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  data::Learned learned() const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override { return true; }

 private:
  fs::path path_;
  std::string text_;  // the text of the record
  plan::CheckpointRecord record_;
};

/// Opens a checkpoint, an .npz file, a .safetensors file or a set of them, a folder with one of
/// these, or a run directory, of which the newest complete checkpoint is opened. Throws
/// RequestError, with a message that begins with `where`, if `path` is none of these.
std::unique_ptr<StoredVariables> open_variables(const fs::path& path, const std::string& where);

struct Loaded {
  std::string from;                    // the checkpoint that was read, or the files
  std::vector<State::Entry*> missing;  // optional variables that are missing
  /// The number of arrays whose floats were rounded to a dtype that lacks some of their values, by
  /// the dtypes of the array and the variable.
  std::map<std::pair<DType, DType>, size_t> rounded;
  std::vector<std::string> unused;  // arrays of other programs that match no variable
};

/// Reads the variables. Floats are converted to other float dtypes, with one rounding. Throws
/// RequestError that lists the arrays and the variables if variables are missing or have another
/// shape, except for variables that a glob of `optional` matches. Also throws RequestError for a
/// glob that matches no variable.
Loaded load(const StoredVariables& stored, const plan::Job& job, State& state,
            const std::vector<std::string>& optional = {});

/// Reads all variables, including slots, without conversion.
void resume(const Checkpoint& checkpoint, const plan::Job& job, State& state);

/// The variables of several files. If several files contain a name, the last one is used.
class JoinedVariables : public StoredVariables {
 public:
  /// REQUIRES: `parts` is not empty.
  explicit JoinedVariables(std::vector<std::unique_ptr<StoredVariables>> parts);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  data::Learned learned() const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override;

 private:
  /// A variable and the part that contains it.
  struct Found {
    const StoredVariables* part;
    Item item;
  };
  std::vector<std::unique_ptr<StoredVariables>> parts_;
  std::map<std::string, Found> found_;
  fs::path path_;  // all paths, for messages
};

/// A path from which variables are read.
struct LoadedPath {
  fs::path path;
  std::string where;  // the origin of the path: a place in the job file, or "--load"
};

/// Returns the paths in `flags`, the values of --load; without flags, the job's own paths, which
/// are relative to `root`. Returns nothing if the only path is "none"; throws RequestError if
/// "none" is one of several.
std::vector<LoadedPath> loaded_paths(const plan::Job& job, const fs::path& root,
                                     const std::vector<std::string>& flags);

/// Opens each path (see open_variables). If `ema`, averages replace the variables that have one;
/// RequestError is thrown if there are several paths. REQUIRES: `paths` is not empty.
std::unique_ptr<StoredVariables> open_joined(const std::vector<LoadedPath>& paths, bool ema);

/// Opens each path and returns arrays by the names of the job's variables: the job's rules for
/// names map the arrays of files from other programs. Throws RequestError like MappedVariables; if
/// there are several files, each may lack variables.
std::unique_ptr<StoredVariables> open_by_rules(const std::vector<LoadedPath>& paths, bool ema,
                                               const plan::Job& job,
                                               const std::vector<WantedVariable>& wanted,
                                               const std::vector<std::string>& optional);

/// Returns a line such as "\n  seed: 1 in the run, 2 now" for each difference between the run in
/// `directory` and the request, at most ten. Returns "" if the run's plan cannot be read.
std::string differences_from_run(const fs::path& directory, const RunRequest& request);

/// Throws RequestError that lists the differences if the checkpoint belongs to another job.
void require_same_job(const Checkpoint& checkpoint, const RunRequest& request);

/// Returns the `--input` flags as checkpoints store them: only `@` for a file, because it may have
/// moved.
std::map<std::string, std::string> given_inputs(const RunRequest& request);

/// Throws RequestError if the run had other `--input` flags.
void require_same_inputs(const Checkpoint& checkpoint, const RunRequest& request);

/// Hashes the data. Throws RequestError if they differ from those that the checkpoint lists.
DataFiles require_same_data(const Checkpoint& checkpoint, const RunRequest& request);

/// Throws RunError if an output is missing, truncated or modified. `continued` contains the outputs
/// to which the run appends, relative to its directory; other outputs are not checked.
void require_same_outputs(const Checkpoint& checkpoint, const fs::path& directory,
                          const std::vector<std::string>& continued);

/// What `--resume` finds in a directory.
enum class Resumable {
  kNothing,     // the directory is absent or empty
  kUnsaved,     // a run of this plan without a checkpoint
  kCheckpoint,  // a complete checkpoint
};

/// Checks the request's directory for a run of its job. Throws RequestError for any other
/// directory. Writes nothing.
Resumable find_resumable(const RunRequest& request);

}  // namespace flow::exec
