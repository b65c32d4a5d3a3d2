// The commands of flowdiff: their options, the parts that they share, and their functions.
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

/// The options of `flowdiff GOLDEN OUT`, also with --first or --self-test.
struct CompareOptions {
  std::string golden, out;
  std::optional<std::string> relative, absolute;
  std::vector<std::string> tolerances, ignored;
  std::optional<std::string> json, junit, markdown;
  bool brief = false, append = false, strict = false, self_test = false;
  bool first = false, no_rerun = false;
  std::optional<std::string> output;  // for --first
};

/// Adds the arguments and flags of this command to the program.
void declare_compare(CLI::App& app, CompareOptions& options);

/// Compares, prints and writes reports. Returns the exit status.
int run_compare(const CompareOptions& options);

/// Finds the step and the tensor at which two runs diverge: compares fingerprints, repeats both
/// runs up to that step, prints and writes reports. Returns the exit status.
int run_first(const CompareOptions& options);

/// Prints which faults the tolerances of GOLDEN let through. Returns the exit status.
int run_self_test(const CompareOptions& options);

/// The options of `flowdiff calibrate JOB FILE -o tolerances.yaml`.
struct CalibrateOptions {
  std::string job, file, output;
  std::vector<std::string> sets, watches;
  std::optional<int64_t> steps;
  bool force = false;
};

/// Adds the command to the program.
CLI::App* declare_calibrate(CLI::App& app, CalibrateOptions& options);

int run_calibrate(const CalibrateOptions& options);

/// Starts flowrun for a command that needs runs.
class FlowrunChild {
 public:
  /// `program` is the program that needs the runs. The names of temporary files begin with it.
  explicit FlowrunChild(const std::string& program) : work_(program) {}

  /// Runs `flowrun WORDS...` and waits for it. Returns an empty string on success, else the first
  /// line that flowrun printed.
  std::string run(const std::vector<std::string>& words,
                  const std::map<std::string, std::string>& environment = {}) const;
  /// Returns the directory for the output of runs. The destructor removes it.
  const fs::path& directory() const { return work_.path(); }

 private:
  const io::Watchdog watchdog_;
  const WorkDirectory work_;
};

/// Repeats a run up to one of its steps on this machine.
class Rerun {
 public:
  /// Plans a run of the steps up to and including `step` in the directory. It starts from the run's
  /// newest checkpoint at or before step `from`, or from step 0 if there is none. Writes nothing.
  Rerun(const compare::FingerprintedRun& run, int64_t from, int64_t step, fs::path directory);

  /// Returns the reason why the run cannot be repeated on this machine (another machine, a pipe, a
  /// loop), or an empty string if it can.
  const std::string& obstacle() const { return obstacle_; }
  /// Returns true if the run can be repeated, on this machine or on another one.
  bool is_repeatable() const { return is_repeatable_; }
  /// Returns the command, extended by `more`, as a user types it.
  std::string command(const std::vector<std::string>& more) const;
  /// Repeats the run. Returns an empty string on success, else the message of flowrun. REQUIRES:
  /// obstacle() is empty.
  std::string run(const FlowrunChild& flowrun, const std::vector<std::string>& more) const;

 private:
  std::vector<std::string> words(const std::vector<std::string>& more) const;
  void copy_checkpoint() const;

  const compare::FingerprintedRun& run_;
  const compare::RunFacts record_;
  const int64_t step_;
  const fs::path directory_;
  fs::path checkpoint_;  // empty if the run starts from step 0
  std::string obstacle_;
  bool is_repeatable_ = true;
};

}  // namespace flow::cli
