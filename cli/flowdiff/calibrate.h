// `flowdiff calibrate JOB FILE -o tolerances.yaml`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace flow::cli {

struct CalibrateOptions {
  std::string job, file, output;
  std::vector<std::string> sets, watches;
  std::optional<int64_t> steps;
  bool force = false;
};

/// Adds the command to the program.
CLI::App* declare_calibrate(CLI::App& app, CalibrateOptions& options);

int run_calibrate(const CalibrateOptions& options);

}  // namespace flow::cli
