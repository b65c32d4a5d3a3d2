// The command line of flowrun, and what it asks of the compiler and of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/fingerprints.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/plan/model/plan.h"

namespace CLI {
class App;
}

namespace flow::cli {

constexpr int64_t kFingerprintEvery = 10, kFingerprintSize = 64;

struct RunOptions : exec::RunFlags {
  std::string job, file;
  std::optional<std::string> directory, root;
  std::vector<std::string> sets, inputs, watches, watch_diffs, watch_scopes;
  std::string device = "auto";
  bool quiet = false, dry_run = false, no_commands = false, no_fusion = false;
  bool distributed = false;
  std::optional<std::string> mpi;
  int64_t rank_timeout = 120;  // seconds
  std::optional<std::string> capture;
  std::string fingerprint;                  // "true", or a number of steps; empty: none
  std::optional<int64_t> fingerprint_size;  // MiB
};

/// Fills `options`, which outlives the parsing.
void add_options(CLI::App& app, RunOptions& options);

/// What shapes the run, for its record: "--set vars.lr=0.1".
std::vector<std::string> overrides_of(const RunOptions& options);

/// What `--fingerprint` asks for; nothing without it.
std::optional<exec::FingerprintOptions> fingerprints_of(const RunOptions& options);

/// "flowrun train lenet.yaml -o DIR --resume", with all that shaped the run; of a predict job,
/// which keeps no state, with --force. `launcher`: what starts the ranks of a distributed run.
std::string next_command(const RunOptions& options, const plan::Job& job, const fs::path& directory,
                         const std::vector<std::string>& launcher = {});

/// `gpu`: is one usable?
CompileRequest compile_request(const RunOptions& options, bool gpu);

/// NAME and SPEC of each `--input NAME=SPEC`. RequestError where one has no `=`.
std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options);

}  // namespace flow::cli
