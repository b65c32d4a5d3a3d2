// `flowrun verify JOB FILE`: its command line, and what it found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flowrun/flowrun.h"
#include "runtime/verify/verify.h"

namespace flow::cli {

inline constexpr std::string_view kVerifyCommand = "verify";

struct VerifyOptions {
  RunOptions run;  // the job, and what shapes its runs
  int64_t steps = 20;
  std::optional<int64_t> at;
  std::vector<std::string> only, damages;  // names; empty: all
  bool commands = false, prove = false, strict = false, json = false;
  std::optional<std::string> junit;
};

/// Do these words ask for the command? `flowrun verify FILE` runs the job `verify` of a file that
/// is there.
bool asks_to_verify(const CLI::App& app, int argc, char** argv);

/// Adds the command to the program.
CLI::App* declare_verify(CLI::App& app, VerifyOptions& options);

/// Checks the job, prints what it found and returns the exit status. REQUIRES: this process has one
/// thread.
int run_verify(const VerifyOptions& options);

/// What the command found.
struct VerifyReport {
  std::string job, file;
  std::vector<verify::Result> results = {};
  std::vector<verify::Proof> proofs = {};
};

/// The title of the table, the lines of a property or a proof, and the last line, which sums up.
std::string title_of_results();
std::string lines_of(const verify::Result& result);
std::string title_of_proofs();
std::string lines_of(const verify::Proof& proof);
/// "10 properties: 7 hold, 1 measured, 2 n/a; damage: 7 of 8 noticed"
std::string summary_of(const VerifyReport& report);

/// One JSON object.
std::string verify_json(const VerifyReport& report);

/// A JUnit test suite, a case a property and a kind of damage. `strict`: unproved damage fails.
std::string verify_junit(const VerifyReport& report, bool strict);

/// 1 where a property differs or, with `strict`, damage is unproved; else 3 where a run failed.
int exit_status_of(const VerifyReport& report, bool strict);

}  // namespace flow::cli
