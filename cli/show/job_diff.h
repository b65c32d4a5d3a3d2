// How two jobs differ, as people read it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compiler/ir/written_entry.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/model/plan.h"

namespace flow::cli {

struct WrittenJob {
  const plan::Job& job;
  std::vector<WrittenEntry> entries;
};

/// Entries that are added, removed or changed, and what changed of the job as a whole, a line each.
/// `found`: all values of it that differ, with paths from the job on: "run.epochs".
std::string diff_text(const WrittenJob& a, const WrittenJob& b,
                      std::span<const plan::Difference> found);

/// A line for each value of a plan that differs.
std::string list_values(std::span<const plan::Difference> found);

}  // namespace flow::cli
