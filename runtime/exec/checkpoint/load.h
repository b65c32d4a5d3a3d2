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

}  // namespace flow::exec
