// The entries of a job file that a plan was made from, as far as the plan shows them.
#pragma once

#include <vector>

#include "compiler/ir/written_entry.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// "lenet/conv1" and "lenet" of the steps "lenet/conv1/conv" and so on. The networks that entries
/// call have no names in a plan; layers are recognized by their steps.
std::vector<WrittenEntry> entries_of_plan(const plan::Job& job);

}  // namespace flow::cli
