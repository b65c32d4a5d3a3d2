// Properties that every job must have, regardless of what it computes: the same numbers in every
// run, with any number of threads, after a resume, from a built plan, watched or not. Each run that
// is compared has a directory and a process of its own, a fork of this one. Defects can be planted
// in the runs.
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

/// Defects that are planted in a run, only in this process, to check that a comparison finds them.
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
  const char* doc;   // a description of the defect
};
/// Returns the kinds that properties detect, in the order of the enum. These are all except
/// kWritten, which fingerprints show.
std::span<const DamageInfo> all_damages();

struct Damage {
  DamageKind kind = DamageKind::kBit;
  std::string job;   // the job that is damaged
  int64_t step = 0;  // the first call with the damage
  fs::path root;     // the directory for paths in the plan, such as files of initial values
  // Only for kWritten: a tensor that has a fingerprint. One of its bits is flipped in that step,
  // after the tensor was written and before any step reads it.
  std::string tensor = {};
  uint64_t bit = 0;  // modulo the number of bits of the tensor
};

/// Returns a backend whose programs of the damaged job have the defect. All other programs are
/// those of `backend`. A description of what a program did is appended to `done`: "hidden/weight/m
/// is back at its initial value". The data position, and the seed of inputs and shuffles, belong to
/// the input pipeline and are changed by exec::Misreading.
std::unique_ptr<exec::Backend> damaged(std::unique_ptr<exec::Backend> backend, const Damage& damage,
                                       std::string& done);

/// How a child process ended.
struct ChildEnd {
  int status = 0;           // the exit status of a program that ends in this way
  std::string error, hint;  // only if `work` threw
  std::string result;       // the value that `work` returned
  bool killed = false;      // true if it ended by SIGKILL
};

/// Thrown if this process has been asked to end.
class Interrupted : public std::runtime_error {
 public:
  Interrupted() : std::runtime_error("interrupted") {}
};

/// Runs `work` in a child process, which has separate memory, threads and devices, and waits for
/// it. If this process is killed, the child is killed, too. REQUIRES: this process has one thread,
/// and no device in use. Throws RunError if the system cannot create the process, and Interrupted
/// when `stopping` returns true.
ChildEnd run_in_child(const std::function<std::string()>& work,
                      const std::function<bool()>& stopping);

/// Opens the device that a job is compiled for.
using OpenDevice =
    std::function<std::unique_ptr<exec::Backend>(const plan::Plan&, const plan::Job&)>;

/// The options that all trials of a job share, as they are given to `flowrun`.
struct TrialOptions {
  std::string job;
  fs::path root;       // the directory to which paths of the plan are relative
  fs::path directory;  // an existing directory, in which each trial gets a folder
  std::vector<std::pair<std::string, std::string>> inputs = {};
  std::vector<std::string> load = {};
  std::vector<std::string> load_partial = {};
  bool commands = false;  // whether command sinks start
  OpenDevice open = {};   // called in the process of a trial
  std::function<bool()> stopping = {};
};

/// One run of a job.
struct Trial {
  std::string folder;                     // relative to the directory of the options
  const plan::Plan& plan;                 // a plan that contains the job
  int64_t steps = 0;                      // the global step at which the run stops
  bool resume = false;                    // true if it continues the run in its folder
  std::optional<int64_t> killed_at = {};  // the number of steps after which its process is killed
  int threads = 0;                        // 0 for as many as are worthwhile
  bool eager = false;
  std::optional<DamageKind> damage = {};  // applied from step `damaged_from` on
  int64_t damaged_from = 0;
};

struct TrialEnd {
  int status = 0;
  std::string error = {}, hint = {};
  fs::path directory = {};
  int64_t steps = 0;         // the global step that the run reached
  bool killed = false;       // true if the trial requested it and it happened
  std::string damaged = {};  // what the damage did; empty if it did nothing
  bool good() const { return status == 0; }
};

/// Runs the trial in a child process and waits for it. Throws Interrupted when the options'
/// `stopping` returns true.
TrialEnd run_trial(const TrialOptions& options, const Trial& trial);

/// Calls `work` with the job's device in a child process, and returns its result. If `work` throws,
/// throws RunError with its error.
std::string on_device(const TrialOptions& options, const plan::Plan& plan,
                      const std::function<std::string(exec::Backend&, const plan::Job&)>& work);

/// Returns the job of that name. REQUIRES: the plan has it.
const plan::Job& job_of(const plan::Plan& plan, const std::string& name);
plan::Job& job_of(plan::Plan& plan, const std::string& name);

/// The first difference between two runs, in computation order.
struct Difference {
  std::optional<int64_t> step = {};
  std::string tensor;                   // "watch/lenet/conv1/value", "metrics.jsonl: loss"
  std::vector<int64_t> index = {};      // the index within the value of the step
  std::string first = {}, second = {};  // the two values, or a description of each side
  std::string where = {};               // the line of the job file; may be empty
  size_t differing = 0;                 // the number of arrays and metrics that differ
};

/// Writes the difference as text: "step 11, watch/lenet/conv1/value[3, 0]: 0.25 and 0.5
/// (lenet.yaml:12:5)"
std::string text_of(const Difference& difference);

struct RunComparison {
  size_t arrays = 0;  // the number of arrays that were compared
  std::optional<Difference> difference = {};
};

struct RunRules {
  bool watches = true;  // both runs have the same hooks, so that the hooks' arrays are compared
  /// If set, floats may differ within the tolerance, and metrics are left out. Otherwise, runs must
  /// be bit-identical.
  std::optional<compare::ToleranceRules> tolerance = {};
};

/// Compares two run directories. NaNs with different bits differ, and so do zeros with different
/// signs. Throws RunError if a file cannot be read.
RunComparison compare_runs(const fs::path& first, const fs::path& second,
                           const RunRules& rules = {});

/// Compares two arrays bit for bit. The verdict is that they are equal, differ (with the first
/// element that does), or have different dtypes or shapes.
compare::ArrayDifference compare_bits(const std::string& name, const ArrayView& first,
                                      const ArrayView& second);

/// More overrides, with which the job file is compiled again.
struct Variant {
  std::vector<std::string> sets = {}, watches = {}, watch_diffs = {};
};
struct Compiled {
  std::optional<plan::Plan> plan = {};
  std::string problem = {};  // the first error if there is no plan
};

struct Request {
  TrialOptions trials;
  plan::Plan plan;  // the plan of FILE
  /// Empty if FILE is a plan.
  std::function<Compiled(const Variant&)> compile = {};
  /// Returns the op of an entry as the author wrote it, by the entry's full name.
  std::function<std::string(const std::string& entry)> written_op = {};
  int64_t steps = 20;
  std::optional<int64_t> at = {};  // nothing for the middle of the run
  std::string file = {};           // the name that the user gave
  std::string flowrun = {};        // the path of the program, to start ranks in other processes
};

enum class Verdict { kHolds, kDiffers, kMeasured, kNotApplicable, kError };
/// Returns "holds", "differs", "measured", "n/a" or "error".
const char* name_of(Verdict verdict);

struct Result {
  std::string property = {};
  Verdict verdict = Verdict::kHolds;
  std::string detail = {};                    // what was compared, why nothing was, or the error
  std::optional<Difference> difference = {};  // only for kDiffers
  std::vector<std::string> notes = {};        // lines that follow the result
};

class Bench;

struct Property {
  const char* name;  // "resume"
  const char* doc;   // one line for the help text and the documentation
  Result (*check)(Bench& bench);
  bool exact = true;  // true if it compares runs bit for bit
};
/// Returns all properties in the order in which they are checked.
std::span<const Property> all_properties();

/// What a damage did, and which properties detected it.
struct Proof {
  DamageKind kind = DamageKind::kBit;
  std::string name = {};  // "slot"
  std::string done = {};  // "`hidden/weight/m` is back at ..."; empty if there is nothing to damage
  std::vector<std::string> caught = {};       // properties that differ with the damage
  std::vector<std::string> unproved = {};     // properties that do not differ with the damage
  std::vector<std::string> failing = {};      // properties that fail even without damage
  std::optional<Difference> difference = {};  // the difference of the first property that differs
  bool is_caught() const { return !caught.empty() && unproved.empty() && failing.empty(); }
};

/// Returns true if one of the properties is meant to detect that kind of damage.
bool can_notice(std::span<const Property* const> properties, DamageKind kind);

/// Checks the properties of one job, one after another.
class Verifier {
 public:
  /// Throws RequestError if the job reads a pipe, or if `at` leaves no step.
  explicit Verifier(Request request);
  ~Verifier();
  Verifier(const Verifier&) = delete;
  Verifier& operator=(const Verifier&) = delete;

  /// Throws RunError if the job itself does not run, and Interrupted if this process was asked to
  /// end.
  Result check(const Property& property);
  /// Plants the damage in the runs of these properties. State that a run carries from step to step
  /// is damaged in `resume`, and one bit in all properties that compare runs bit for bit.
  Proof prove(DamageKind kind, std::span<const Property* const> properties);

 private:
  bool holds_undamaged(const Property& property);
  Result check_once(const Property& property);

  std::unique_ptr<Bench> bench_;
  std::map<std::string, Verdict> undamaged_;  // by property; only those that were checked
};

}  // namespace flow::verify
