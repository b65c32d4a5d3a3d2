// Properties that a job must have whatever it computes: the same numbers on every run, with any
// number of threads, after a resume, from a built plan, watched or not. Runs for comparison are
// each in a directory and a process of their own, a fork of this one; defects can be planted in
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/tolerance.h"
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

/// Where two runs part: what was computed first.
struct Difference {
  std::optional<int64_t> step = {};
  std::string tensor;                   // "watch/lenet/conv1/value", "metrics.jsonl: loss"
  std::vector<int64_t> index = {};      // within the value of the step
  std::string first = {}, second = {};  // the two values; or in words, what one side is
  std::string where = {};               // the line of the job file; may be empty
  size_t differing = 0;                 // how many arrays do, and metrics
};

/// "step 11, watch/lenet/conv1/value[3, 0]: 0.25 and 0.5 (lenet.yaml:12:5)"
std::string text_of(const Difference& difference);

struct RunComparison {
  size_t arrays = 0;  // compared
  std::optional<Difference> difference = {};
};

struct RunRules {
  bool watches = true;  // hooks of both runs are the same, so that their arrays are compared
  /// Floats may differ so far, and metrics are left out; nothing: bit for bit.
  std::optional<compare::ToleranceRules> tolerance = {};
};

/// Compares two run directories. NaNs with other bits differ, and so do zeros with other signs.
/// RunError where a file cannot be read.
RunComparison compare_runs(const fs::path& first, const fs::path& second,
                           const RunRules& rules = {});

/// The verdict on two arrays bit for bit: equal, differs with its first element, or another dtype
/// or shape.
compare::ArrayDifference compare_bits(const std::string& name, const ArrayView& first,
                                      const ArrayView& second);

/// The job file compiled again with more overrides.
struct Variant {
  std::vector<std::string> sets = {}, watches = {}, watch_diffs = {};
};
struct Compiled {
  std::optional<plan::Plan> plan = {};
  std::string problem = {};  // the first error, without a plan
};

struct Request {
  TrialOptions trials;
  plan::Plan plan;  // of FILE
  /// Empty where FILE is a plan.
  std::function<Compiled(const Variant&)> compile = {};
  /// By full name: the ops of entries as the author wrote them.
  std::function<std::string(const std::string& entry)> written_op = {};
  int64_t steps = 20;
  std::optional<int64_t> at = {};  // nothing: in the middle
  std::string file = {};           // as the user names it
  std::string flowrun = {};        // the program, for ranks of other processes
};

enum class Verdict { kHolds, kDiffers, kMeasured, kNotApplicable, kError };
/// "holds", "differs", "measured", "n/a", "error"
const char* name_of(Verdict verdict);

struct Result {
  std::string property = {};
  Verdict verdict = Verdict::kHolds;
  std::string detail = {};                    // what was compared; why not; the error
  std::optional<Difference> difference = {};  // kDiffers
  std::vector<std::string> notes = {};        // lines below it
};

class Bench;

struct Property {
  const char* name;  // "resume"
  const char* doc;   // one line for help and documents
  Result (*check)(Bench& bench);
  bool exact = true;  // it compares runs bit for bit
};
/// In the order in which they are checked.
std::span<const Property> all_properties();

/// What damage did, and which properties noticed.
struct Proof {
  DamageKind kind = DamageKind::kBit;
  std::string name = {};  // "slot"
  std::string done = {};  // "`hidden/weight/m` is back at ..."; empty: there is nothing to damage
  std::vector<std::string> caught = {};       // properties that differ with it
  std::vector<std::string> unproved = {};     // those that do not
  std::vector<std::string> failing = {};      // those that do not hold without damage: no proof
  std::optional<Difference> difference = {};  // of the first that differs
  bool is_caught() const { return !caught.empty() && unproved.empty() && failing.empty(); }
};

/// Is one of the properties meant to notice that kind of damage?
bool can_notice(std::span<const Property* const> properties, DamageKind kind);

/// Checks the properties of one job, one after another.
class Verifier {
 public:
  /// RequestError where the job reads a pipe, or `at` leaves no step.
  explicit Verifier(Request request);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// RunError where the job itself does not run; Interrupted.
  Result check(const Property& property);
  /// Plants the damage in the runs of these properties: state that a run carries from step to step
  /// in `resume`, one bit in all that compare runs bit for bit.
  Proof prove(DamageKind kind, std::span<const Property* const> properties);

 private:
  bool holds_undamaged(const Property& property);
  Result check_once(const Property& property);

  std::unique_ptr<Bench> bench_;
  std::map<std::string, Verdict> undamaged_;  // by property, of those that were checked
};

}  // namespace flow::verify
