// What stands in a run directory.
#pragma once

#include <array>

#include "runtime/base/file.h"

namespace flow::exec {

/// All that a run writes into its directory.
inline constexpr std::array kWritten = {"plan.json", "run.json", "metrics.jsonl", "profile.json",
                                        "returns",   "watch",    "also",          "checkpoints"};

/// Is `path` among what a run writes into `directory`, or does it hold some of that?
bool is_written(const fs::path& path, const fs::path& directory);

}  // namespace flow::exec
