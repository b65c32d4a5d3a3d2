// What `flowdiff --json` found.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/run_data.h"

namespace flow::cli::report {

struct Comparison {
  struct Row {
    std::string name, verdict;
    std::string absolute, relative, over;  // "1.2e-05", "3 of 500"
    std::string why;
  };
  std::string golden, out, summary;
  bool failed = false;
  std::vector<Row> rows = {};  // that fail or are mistrusted come first
  size_t left_out = 0;         // rows
  std::vector<std::string> notes = {};
};

/// RequestError where the file has something else.
Comparison read_comparison(const fs::path& path);

/// Those among the JSON files of a run directory.
std::vector<Comparison> find_comparisons(RunData& run);

}  // namespace flow::cli::report
