// Where variables start from: what `load` names, or the run that `--resume` goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/checkpoint/state.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// A checkpoint, an .npz file, or a run directory: then its newest whole checkpoint. RequestError,
/// which begins with `where`, when `path` is none of them.
std::unique_ptr<StoredVariables> open_variables(const fs::path& path, const std::string& where);

/// Reads what `load` reads: parameters and moving statistics, not slots; float32 and float64 become
/// each other. RequestError with both lists when variables are missing or misshapen, but for those
/// that a glob of `optional` matches: they are returned. RequestError, too, for a glob that matches
/// none.
std::vector<State::Entry*> load(const StoredVariables& stored, const plan::Job& job, State& state,
                                const std::vector<std::string>& optional = {});

/// Reads everything, slots too, exactly.
void resume(const Checkpoint& checkpoint, const plan::Job& job, State& state);

}  // namespace flow::exec
