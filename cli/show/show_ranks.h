// What the ranks of a distributed run would hold and send.
#pragma once

#include <string>

#include "runtime/plan/model/plan.h"

namespace flow::cli {

/// A line for each tensor that ranks combine, and totals. RequestError if this many ranks cannot
/// share the job's shards.
std::string show_ranks(const plan::Job& job, int ranks);

}  // namespace flow::cli
