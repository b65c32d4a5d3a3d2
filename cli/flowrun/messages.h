// What flowrun prints of a run, as text or, with --json, as an object on a line, and of itself.
#pragma once

#include <string>
#include <vector>

#include "cli/flowrun/options.h"
#include "cli/flowrun/progress_bar.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/run/run.h"

namespace flow::cli {

/// "train on cpu (this machine has no NVIDIA driver), writing to runs/lenet-train-001". `ranks`:
/// "4 ranks on 2 hosts", "4 GPUs"; "" where there is one.
void print_start(const RunOptions& options, const exec::RunRequest& request,
                 const exec::Backend& backend, const std::string& why_cpu,
                 const std::string& ranks);

/// The last line: what the run did, and what to do next. `launcher`: what starts the ranks of a
/// distributed run.
void print_end(const RunOptions& options, const plan::Job& job, const fs::path& directory,
               const exec::RunOutcome& outcome, const std::vector<std::string>& launcher);

void print_profile(const RunOptions& options, const plan::Plan& plan,
                   const exec::ProfileReport& profile);
void print_remark(const RunOptions& options, const std::string& text);
/// Prints the memory of the job and of those that it calls.
void print_memory(const RunOptions& options, const std::vector<exec::JobMemory>& jobs);
ProgressBar::Style progress_style(const RunOptions& options);

/// What `flowrun --version --json` prints, an object on a line: version and build, the CPU, the
/// GPUs or why none is usable, the MPI libraries that flow was built for, and where NVIDIA's
/// libraries were found.
std::string version_report();

}  // namespace flow::cli
