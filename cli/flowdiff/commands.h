// The commands of flowdiff: their options, what they share, and what each does.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/shared/console.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/divergence.h"
#include "runtime/compare/tolerance.h"
#include "runtime/io/process.h"

namespace CLI {
class App;
}

namespace flow::cli {

/// `flowdiff GOLDEN OUT`, with --first and with --self-test.
struct CompareOptions {
  std::string golden, out;
  std::optional<std::string> relative, absolute;
  std::vector<std::string> tolerances, ignored;
  std::optional<std::string> json, junit, markdown;
  bool brief = false, append = false, strict = false, self_test = false;
  bool first = false, no_rerun = false;
  std::optional<std::string> output;  // of --first
};

/// Adds the arguments and flags of that command to the program.
void declare_compare(CLI::App& app, CompareOptions& options);

/// Compares, prints and writes reports; the exit status.
int run_compare(const CompareOptions& options);

/// Finds the step and the tensor in which two runs part: compares fingerprints, makes both runs
/// again up to that step, prints and writes reports; the exit status.
int run_first(const CompareOptions& options);

/// Prints which faults the tolerances of GOLDEN let through; the exit status.
int run_self_test(const CompareOptions& options);

/// `flowdiff calibrate JOB FILE -o tolerances.yaml`.
struct CalibrateOptions {
  std::string job, file, output;
  std::vector<std::string> sets, watches;
  std::optional<int64_t> steps;
  bool force = false;
};

/// Adds the command to the program.
CLI::App* declare_calibrate(CLI::App& app, CalibrateOptions& options);

int run_calibrate(const CalibrateOptions& options);

/// Starts runs for a command that needs them.
class FlowrunChild {
 public:
  /// `program`: the one that needs the runs, for the names of its temporary files.
  explicit FlowrunChild(const std::string& program) : work_(program) {}

  /// Runs `flowrun WORDS...` and waits; empty where it succeeded, else the first line that it
  /// printed.
  std::string run(const std::vector<std::string>& words,
                  const std::map<std::string, std::string>& environment = {}) const;
  /// The directory for what runs write, which is removed in the end.
  const fs::path& directory() const { return work_.path(); }

 private:
  const io::Watchdog watchdog_;
  const WorkDirectory work_;
};

/// A run made again up to one of its steps, on this machine.
class Rerun {
 public:
  /// Plans a run of the steps up to and including `step`, in the directory, from the run's newest
  /// checkpoint at or before step `from`, else from step 0. Writes nothing.
  Rerun(const compare::FingerprintedRun& run, int64_t from, int64_t step, fs::path directory);

  /// Why it cannot be made here: another machine, a pipe, a loop; empty where it can.
  const std::string& obstacle() const { return obstacle_; }
  /// Can it be made elsewhere, if not here?
  bool is_repeatable() const { return is_repeatable_; }
  /// The command with more words, as a user types it.
  std::string command(const std::vector<std::string>& more) const;
  /// Makes it; empty where it succeeded, else what flowrun said. REQUIRES: no obstacle.
  std::string run(const FlowrunChild& flowrun, const std::vector<std::string>& more) const;

 private:
  std::vector<std::string> words(const std::vector<std::string>& more) const;
  void copy_checkpoint() const;

  const compare::FingerprintedRun& run_;
  const compare::RunFacts record_;
  const int64_t step_;
  const fs::path directory_;
  fs::path checkpoint_;  // empty: from step 0
  std::string obstacle_;
  bool is_repeatable_ = true;
};

}  // namespace flow::cli
