// Runs of a job for comparison: each in a directory and a process of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"
#include "runtime/verify/damage.h"

namespace flow::verify {

/// A job on the device that it is compiled for.
using OpenDevice =
    std::function<std::unique_ptr<exec::Backend>(const plan::Plan&, const plan::Job&)>;

/// What all trials of a job have in common, as `flowrun` is asked for it.
struct TrialOptions {
  std::string job;
  fs::path root;       // what paths of the plan are relative to
  fs::path directory;  // in which each trial gets a folder; exists
  std::vector<std::pair<std::string, std::string>> inputs = {};
  std::vector<std::string> load = {};
  std::vector<std::string> load_partial = {};
  bool commands = false;  // command sinks start
  OpenDevice open = {};   // called in the process of a trial
  std::function<bool()> stopping = {};
};

/// One run.
struct Trial {
  std::string folder;                     // below the directory
  const plan::Plan& plan;                 // that has the job
  int64_t steps = 0;                      // the global step at which it stops
  bool resume = false;                    // goes on in its folder
  std::optional<int64_t> killed_at = {};  // steps after which its process is killed
  int threads = 0;                        // 0: as many as pay
  bool eager = false;
  std::optional<DamageKind> damage = {};  // from step `damaged_from` on
  int64_t damaged_from = 0;
};

struct TrialEnd {
  int status = 0;
  std::string error = {}, hint = {};
  fs::path directory = {};
  int64_t steps = 0;         // the global step that it reached
  bool killed = false;       // where that was asked for
  std::string damaged = {};  // what the damage did; empty: nothing
  bool good() const { return status == 0; }
};

/// Runs it in a child process, and waits. Interrupted once the options say so.
TrialEnd run_trial(const TrialOptions& options, const Trial& trial);

/// Calls `work` with the job's device in a child process; returns what it returned. RunError with
/// what it threw.
std::string on_device(const TrialOptions& options, const plan::Plan& plan,
                      const std::function<std::string(exec::Backend&, const plan::Job&)>& work);

/// The job of that name. REQUIRES: the plan has it.
const plan::Job& job_of(const plan::Plan& plan, const std::string& name);
plan::Job& job_of(plan::Plan& plan, const std::string& name);

}  // namespace flow::verify
