// The sections of a report, from top to bottom. One that has nothing to show is empty.
#pragma once

#include <string>
#include <vector>

#include "cli/flowdiff/report.h"
#include "cli/report/html.h"
#include "cli/report/run_data.h"

namespace flow::cli::report {

struct Report {
  std::vector<RunData> runs;
  std::vector<Arrays> arrays;  // by run
  std::vector<DiffReport> comparisons;
};

/// What `flowdiff --json` wrote to the file. RequestError where it has something else.
DiffReport read_comparison(const fs::path& path);

/// The files of that kind among the JSON files of a run directory.
std::vector<DiffReport> find_comparisons(RunData& run);

/// What ran, how, where, and how it ended; of several runs a table, with settings that differ.
Html runs_section(const Report& report);
/// Each metric over the steps, of all runs.
Html curves_section(const Report& report);
/// The network as `flowc show` draws it.
Html network_section(const Report& report);
/// Memory over the steps of a call.
Html memory_section(const Report& report);
/// Histograms of watched values and gradients.
Html distributions_section(const Report& report);
/// What the jobs returned.
Html samples_section(const Report& report);
/// The verdicts of flowdiff.
Html comparisons_section(const Report& report);
/// What could not be read or was left out.
Html notes_section(const Report& report);

}  // namespace flow::cli::report
