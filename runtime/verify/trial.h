// Runs of a job for comparison: each in a directory and a process of its own, a fork of this one.
// Defects can be planted in them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::verify {

/// Defects that are planted in a run, in this process alone, to see that a comparison finds them.
enum class DamageKind {
  kSlot,
  kStep,
  kDataPosition,
  kSeed,
  kMovingMean,
  kLossScale,
  kBit,
  kGradient,
  kWritten
};

struct DamageInfo {
  DamageKind kind;
  const char* name;  // "slot"
  const char* doc;   // what is done
};
/// The kinds that properties notice, in the order of the enum: all but kWritten, which fingerprints
/// show.
std::span<const DamageInfo> all_damages();

struct Damage {
  DamageKind kind = DamageKind::kBit;
  std::string job;   // that is damaged
  int64_t step = 0;  // the first call that it is in
  fs::path root;     // of the plan's paths: initial values may come from files
  // Of kWritten: a tensor that has a fingerprint, of which one bit is flipped in that step, after
  // it was written and before anything reads it.
  std::string tensor = {};
  uint64_t bit = 0;  // modulo those of the tensor
};

/// Programs of the job behave as the damage says; others are the backend's own. What a program did
/// is appended to `done`: "hidden/weight/m is back at its initial value". The data position, and
/// the seed of inputs and shuffles, are the input pipeline's: exec::Misreading.
std::unique_ptr<exec::Backend> damaged(std::unique_ptr<exec::Backend> backend, const Damage& damage,
                                       std::string& done);

/// How the process ended.
struct ChildEnd {
  int status = 0;           // the exit status of a program that ends so
  std::string error, hint;  // where `work` threw
  std::string result;       // what `work` returned
  bool killed = false;      // by SIGKILL
};

/// Somebody asked this process to end.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Runs `work` in a child, which has memory, threads and devices of its own, and waits for it.
/// Whoever kills this process kills the child. REQUIRES: this process has one thread, and no device
/// in use. RunError where the system gives no process; Interrupted once `stopping` says so.
ChildEnd run_in_child(const std::function<std::string()>& work,
                      const std::function<bool()>& stopping);

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
