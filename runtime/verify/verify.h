// Properties that a job must have whatever it computes: the same numbers on every run, with any
// number of threads, after a resume, from a built plan, watched or not.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/tolerance.h"
#include "runtime/plan/model/plan.h"
#include "runtime/verify/trial.h"

namespace flow::verify {

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
