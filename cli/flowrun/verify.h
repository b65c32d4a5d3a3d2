// `flowrun verify JOB FILE`: its command line and its results.
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
  RunOptions run;  // the job, and the options that influence its runs
  int64_t steps = 20;
  std::optional<int64_t> at;
  std::vector<std::string> only, damages;  // names; empty for all
  bool commands = false, prove = false, strict = false, json = false;
  std::optional<std::string> junit;
};

/// Returns true if the arguments request the command. `flowrun verify FILE` runs the job `verify`
/// if the file exists.
bool asks_to_verify(const CLI::App& app, int argc, char** argv);

/// Adds the command to the program.
CLI::App* declare_verify(CLI::App& app, VerifyOptions& options);

/// Checks the job, prints the results and returns the exit status. REQUIRES: this process has only
/// one thread.
int run_verify(const VerifyOptions& options);

/// The results of the command.
struct VerifyReport {
  std::string job, file;
  std::vector<verify::Result> results = {};
  std::vector<verify::Proof> proofs = {};
};

/// Return the title of the table, the lines of a property or a proof, and the summary line.
std::string title_of_results();
std::string lines_of(const verify::Result& result);
std::string title_of_proofs();
std::string lines_of(const verify::Proof& proof);
/// Returns a text such as "10 properties: 7 hold, 1 measured, 2 n/a; damage: 7 of 8 noticed".
std::string summary_of(const VerifyReport& report);

/// Returns one JSON object.
std::string verify_json(const VerifyReport& report);

/// Returns a JUnit test suite with one case for each property and each kind of damage. With
/// `strict`, unproved damage fails.
std::string verify_junit(const VerifyReport& report, bool strict);

/// Returns 1 if a property differs or, with `strict`, damage is unproved; otherwise 3 if a run
/// failed.
int exit_status_of(const VerifyReport& report, bool strict);

}  // namespace flow::cli
