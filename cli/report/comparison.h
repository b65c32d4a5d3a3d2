// What `flowdiff --json` wrote.
#pragma once

#include <vector>

#include "cli/flowdiff/report.h"
#include "cli/report/run_data.h"

namespace flow::cli::report {

/// RequestError where the file has something else.
DiffReport read_comparison(const fs::path& path);

/// Those among the JSON files of a run directory.
std::vector<DiffReport> find_comparisons(RunData& run);

}  // namespace flow::cli::report
