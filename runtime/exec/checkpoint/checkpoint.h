// Checkpoints: directories of .npy files, whole once their checkpoint.json is there. Where
// variables start from: what `load` names, or the run that `--resume` goes on, and what must be the
// same then: its job, inputs, data and outputs.
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

/// Writes every variable and a record with their checksums to a temporary directory beside
/// `path`, `files` too where they are given, syncs it and moves it there: at any moment `path` is
/// the old checkpoint or the new one (where the file system cannot exchange two folders, for a
/// moment neither). RunError when that fails, or when `path` is there and no checkpoint.
void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record,
                      const std::optional<plan::FilesRecord>& files = {});

/// A checkpoint that can be read.
class Checkpoint : public StoredVariables {
 public:
  /// RequestError when `path` is no checkpoint.
  explicit Checkpoint(const fs::path& path);

  const fs::path& path() const override { return path_; }
  const plan::CheckpointRecord& record() const { return record_; }
  /// Its files.json; nothing where it has none. RequestError when that is damaged.
  std::optional<plan::FilesRecord> files() const;
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override { return true; }

 private:
  fs::path path_;
  std::string text_;  // of the record
  plan::CheckpointRecord record_;
};

/// A checkpoint, an .npz file, a .safetensors file or a set of them, a folder with one, or a run
/// directory: then its newest whole checkpoint. RequestError, which begins with `where`, when
/// `path` is none of them.
std::unique_ptr<StoredVariables> open_variables(const fs::path& path, const std::string& where);

struct Loaded {
  std::string from;                    // the checkpoint that was taken, or the files
  std::vector<State::Entry*> missing;  // of the optional variables
  /// How many arrays became elements of a float that lacks some of their numbers, by both dtypes.
  std::map<std::pair<DType, DType>, size_t> rounded;
  std::vector<std::string> unused;  // arrays of other programs that no variable is called like
};

/// Reads them; floats become each other, rounded once. RequestError with both lists when variables
/// are missing or misshapen, but for those that a glob of `optional` matches. RequestError, too,
/// for a glob that matches none.
Loaded load(const StoredVariables& stored, const plan::Job& job, State& state,
            const std::vector<std::string>& optional = {});

/// Reads everything, slots too, exactly.
void resume(const Checkpoint& checkpoint, const plan::Job& job, State& state);

/// What several files hold. Of a name that several have, the last one counts.
class JoinedVariables : public StoredVariables {
 public:
  /// REQUIRES: there is one.
  explicit JoinedVariables(std::vector<std::unique_ptr<StoredVariables>> parts);

  const fs::path& path() const override { return path_; }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override;

 private:
  /// A variable, and the part that has it.
  struct Found {
    const StoredVariables* part;
    Item item;
  };
  std::vector<std::unique_ptr<StoredVariables>> parts_;
  std::map<std::string, Found> found_;
  fs::path path_;  // all of them, for messages
};

/// What variables are read from.
struct LoadedPath {
  fs::path path;
  std::string where;  // who names it: a place in the job file, "--load"
};

/// Those of `flags`, the values of --load; without them the job's own, below `root`. Nothing where
/// "none" is the only one; RequestError where it is one of several.
std::vector<LoadedPath> loaded_paths(const plan::Job& job, const fs::path& root,
                                     const std::vector<std::string>& flags);

/// Opens each path (see open_variables). Averages in the place of the variables that have one,
/// where they are asked for: RequestError where there are several paths. REQUIRES: there is one.
std::unique_ptr<StoredVariables> open_joined(const std::vector<LoadedPath>& paths, bool ema);

/// The same by the names of the job's variables: files of other programs by its rules for names.
/// RequestError as MappedVariables; of several files, each may lack variables.
std::unique_ptr<StoredVariables> open_by_rules(const std::vector<LoadedPath>& paths, bool ema,
                                               const plan::Job& job,
                                               const std::vector<WantedVariable>& wanted,
                                               const std::vector<std::string>& optional);

/// "\n  seed: 1 in the run, 2 now", a line for each difference between the run in `directory` and
/// the request, at most ten. Empty where the plan of the run cannot be read.
std::string differences_from_run(const fs::path& directory, const RunRequest& request);

/// RequestError that lists differences when the checkpoint is of another job.
void require_same_job(const Checkpoint& checkpoint, const RunRequest& request);

/// What `--input` gives, as checkpoints keep it: of a file `@` alone, for it may have moved.
std::map<std::string, std::string> given_inputs(const RunRequest& request);

/// RequestError when the run was given another `--input`.
void require_same_inputs(const Checkpoint& checkpoint, const RunRequest& request);

/// Hashes the data. RequestError when they are not what the checkpoint says.
DataFiles require_same_data(const Checkpoint& checkpoint, const RunRequest& request);

/// RunError when an output is missing, shortened or changed. `continued`: the outputs to which the
/// run appends, below its directory; others are not looked at.
void require_same_outputs(const Checkpoint& checkpoint, const fs::path& directory,
                          const std::vector<std::string>& continued);

/// What `--resume` finds in a directory.
enum class Resumable {
  kNothing,     // it is absent or empty
  kUnsaved,     // a run of this plan that left no checkpoint
  kCheckpoint,  // a whole checkpoint
};

/// Of the request's directory, for its job. RequestError for any other directory. Writes nothing.
Resumable find_resumable(const RunRequest& request);

}  // namespace flow::exec
