// Where variables start from: what `load` names, or the run that `--resume` goes on.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/weights/name_map.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

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

}  // namespace flow::exec
