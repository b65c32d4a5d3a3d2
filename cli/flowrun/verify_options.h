// The command line of `flowrun verify`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flowrun/options.h"
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

/// The properties that `--only` names, or all. RequestError for an unknown name.
std::vector<const verify::Property*> chosen_properties(const VerifyOptions& options);

/// The kinds of damage that `--damage` names, or all. RequestError for an unknown name.
std::vector<const verify::DamageInfo*> chosen_damages(const VerifyOptions& options);

}  // namespace flow::cli
