// How far apart two arrays may be: defaults by dtype, and rules of a user by name and step; why a
// comparison that passes may prove little; tolerances from runs that are equally right, and known
// faults that tolerances would let through.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/compare/arrays.h"

namespace flow::compare {

struct Tolerance {
  double relative = 0, absolute = 0;  // |a - b| <= absolute + relative * |b|, b the golden value
  bool operator==(const Tolerance&) const = default;

  /// At one golden value.
  double at(double golden) const { return absolute + relative * (golden < 0 ? -golden : golden); }
};

/// float32 (1.3e-6, 1e-5), float64 (1e-7, 1e-7), bfloat16 (1.6e-2, 1e-5), float16 (1e-3, 1e-5),
/// integers and bools exact.
Tolerance default_tolerance(DType dtype);

/// Another tolerance in the steps [first, end).
struct StepTolerance {
  int64_t first = 0, end = 0;
  Tolerance tolerance;
};

/// What applies to arrays that match a glob.
struct ToleranceRule {
  std::string glob;
  Tolerance tolerance;
  std::vector<StepTolerance> steps = {};  // the last match wins
  /// Later steps are not judged: two runs that differ by rounding have parted by then.
  int64_t last_step = std::numeric_limits<int64_t>::max();
  std::optional<double> spread = {};  // the largest error between runs that are equally right
  std::string where = {};             // "golden/tolerances.yaml:3:3", for messages

  bool needs_steps() const {
    return !steps.empty() || last_step != std::numeric_limits<int64_t>::max();
  }
  Tolerance at_step(int64_t step) const;
  /// The largest relative tolerance.
  double widest_relative() const;
};

/// What `--rtol` and `--atol` ask for of floats, and rules of all arrays that match; the last
/// matching glob wins, absent parts are the dtype's.
struct ToleranceRules {
  std::optional<double> relative, absolute;
  std::vector<ToleranceRule> rules;
};

/// The rule of an array; of one without a matching glob, with an empty glob and the dtype's
/// tolerance.
ToleranceRule rule_of(const std::string& name, DType dtype, const ToleranceRules& rules);

/// What is known of a golden array of two elements or more.
struct Spread {
  int64_t finite = 0;
  double deviation = 0;       // the standard deviation of its finite elements
  double mean_magnitude = 0;  // the mean of their absolute values
  bool constant = false;      // all elements are equal
};
Spread spread_of(const ArrayView& golden);

/// Of floats that are constant: a wrong index or a lost update would not show. `first`: an element,
/// as text.
std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first);

/// Is the tolerance as wide as golden's own standard deviation, or as golden itself, so that zeros
/// pass?
bool is_too_wide(const Tolerance& tolerance, const Spread& spread);

/// A run of the job with one setting changed: other threads, instruction sets, shards, order of
/// rows, precision.
struct Setting {
  std::string name;  // "float64"
  Side run;
};

/// How far the settings are from the reference run, and the tolerance that follows.
struct ArraySpread {
  std::string name;
  double spread = 0;     // the largest error in the steps that are judged
  double relative = 0;   // to the root mean square of the reference, at the worst step
  std::string worst;     // the setting with the largest error; empty: all results are equal
  double tolerance = 0;  // absolute
  /// Of a chaotic array, which differs by more than 1e-3 in later steps: the last one below that;
  /// -1 where there is none.
  std::optional<int64_t> last_step;
};

/// Of each array that all runs have in the same shape; dtypes may differ. Sorted by name. Arrays
/// of integers with equal results are left out: they are exact by default.
std::vector<ArraySpread> measure_spreads(const Side& reference,
                                         const std::vector<Setting>& settings);

/// Does the setting change what the job computes, not only how numbers are rounded? An array is
/// then far away in its first step, where those of other settings are near.
bool computes_otherwise(const Side& reference, const std::vector<ArraySpread>& others,
                        const Setting& setting);

/// The text of a tolerances.yaml, with the evidence. `title`: the command, for a comment.
std::string tolerances_text(const std::vector<ArraySpread>& spreads,
                            const std::vector<std::string>& settings, const std::string& title);

struct Fault {
  std::string name;  // "constant offset"
  std::string size;  // "1 % of the standard deviation"; empty: it has no size
  std::function<Doubles(const Doubles&)> apply;
};

/// All that apply to an array. `deviation`: its standard deviation; `steps_first`: it has a slice
/// for each step.
std::vector<Fault> faults_of(const ArrayView& golden, double deviation, bool steps_first);

/// Values as elements of a dtype, each rounded once.
Array array_of(DType dtype, const Shape& shape, const Doubles& values);

/// Faults of one name that pass in one array.
struct MissedFault {
  std::string array, fault;
  std::vector<std::string> sizes;  // that pass, the largest first; empty: it has no size
};

struct SelfTest {
  struct Array {
    std::string name;
    int64_t injected = 0, found = 0;
  };
  std::vector<Array> arrays;  // those that were tested, in order
  int64_t injected = 0, found = 0;
  std::vector<MissedFault> missed;
  /// Arrays in which most faults change nothing, and those that cannot be read, with the reason.
  std::vector<std::string> skipped;
};

/// Puts each known fault into each array of `golden` and compares. Faults that change no element
/// are left out.
SelfTest test_tolerances(const Side& golden, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore);

}  // namespace flow::compare
