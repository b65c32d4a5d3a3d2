// What the memory of a job is for, as people read it.
#pragma once

#include <string>

#include "runtime/exec/run/run.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// In plain sizes: what each step of a call holds, and at the fullest one who holds it from when to
/// when. A backend adds its workspaces and what its layouts take.
std::string show_memory(const plan::Job& job);

/// The bytes at that step, with variables and inputs.
size_t peak_memory(const plan::Job& job);

/// What a device takes, exactly.
std::string memory_text(const exec::JobMemory& job);
/// Its sums as an object on a line, in bytes.
std::string memory_json(const exec::JobMemory& job);

}  // namespace flow::cli
