// How far apart two arrays may be: defaults by dtype, and rules of the user by name and step. Also
// the reasons why a comparison that passes may prove little, tolerances derived from runs that are
// equally right, and known faults that a tolerance should not accept.
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
  double relative = 0, absolute = 0;  // |a - b| <= absolute + relative * |b|; b is the golden value
  bool operator==(const Tolerance&) const = default;

  /// Returns the allowed error at a golden value.
  double at(double golden) const { return absolute + relative * (golden < 0 ? -golden : golden); }
};

/// Returns (relative, absolute): float32 (1.3e-6, 1e-5), float64 (1e-7, 1e-7), bfloat16 (1.6e-2,
/// 1e-5), float16 (1e-3, 1e-5). Integers and bools must be equal.
Tolerance default_tolerance(DType dtype);

/// A different tolerance for the steps [first, end).
struct StepTolerance {
  int64_t first = 0, end = 0;
  Tolerance tolerance;
};

/// The rule for arrays that match a glob.
struct ToleranceRule {
  std::string glob;
  Tolerance tolerance;
  std::vector<StepTolerance> steps = {};  // if several ranges contain a step, the last one applies
  /// Later steps are not judged, because two runs that differ by rounding have diverged before
  /// that.
  int64_t last_step = std::numeric_limits<int64_t>::max();
  std::optional<double> spread = {};  // the largest error between runs that are equally right
  std::string where = {};             // "golden/tolerances.yaml:3:3", for messages

  bool needs_steps() const {
    return !steps.empty() || last_step != std::numeric_limits<int64_t>::max();
  }
  Tolerance at_step(int64_t step) const;
  /// Returns the largest relative tolerance of the rule.
  double widest_relative() const;
};

/// The tolerances that `--rtol` and `--atol` give for floats, and rules for all arrays that match.
/// The last rule whose glob matches applies. Missing values are the defaults of the dtype.
struct ToleranceRules {
  std::optional<double> relative, absolute;
  std::vector<ToleranceRule> rules;
};

/// Returns the rule for an array. If no glob matches, the rule has an empty glob and the tolerance
/// of the dtype.
ToleranceRule rule_of(const std::string& name, DType dtype, const ToleranceRules& rules);

/// Statistics of a golden array of two or more elements.
struct Spread {
  int64_t finite = 0;
  double deviation = 0;       // the standard deviation of its finite elements
  double mean_magnitude = 0;  // the mean of their absolute values
  bool constant = false;      // all elements are equal
};
Spread spread_of(const ArrayView& golden);

/// Returns doubts about an array of floats that are all equal, in which a wrong index or a lost
/// update would not show. `first` is an element, as text.
std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first);

/// Returns true if the tolerance is as wide as golden's standard deviation, or as golden itself, so
/// that an array of zeros passes.
bool is_too_wide(const Tolerance& tolerance, const Spread& spread);

/// A run of the job with one changed setting: threads, instruction sets, shards, order of rows, or
/// precision.
struct Setting {
  std::string name;  // "float64"
  Side run;
};

/// The distance of the settings from the reference run, and the tolerance that follows from it.
struct ArraySpread {
  std::string name;
  double spread = 0;     // the largest error in the steps that are judged
  double relative = 0;   // relative to the root mean square of the reference, at the worst step
  std::string worst;     // the setting with the largest error; empty if all results are equal
  double tolerance = 0;  // the absolute tolerance
  /// Only set for a chaotic array, which differs by more than 1e-3 in later steps. It is the last
  /// step before the array differs by that much, or -1 if there is none.
  std::optional<int64_t> last_step;
};

/// Measures each array that all runs have in the same shape; dtypes may differ. The result is
/// sorted by name. Arrays of integers with equal results are left out, because they must be equal
/// by default.
std::vector<ArraySpread> measure_spreads(const Side& reference,
                                         const std::vector<Setting>& settings);

/// Returns true if the setting changes what the job computes, and not only how numbers are rounded.
/// In that case an array is far away in its first step, while the arrays of the other settings are
/// near.
bool computes_otherwise(const Side& reference, const std::vector<ArraySpread>& others,
                        const Setting& setting);

/// Returns the text of a tolerances.yaml with its evidence. `title` is the command, for a comment.
std::string tolerances_text(const std::vector<ArraySpread>& spreads,
                            const std::vector<std::string>& settings, const std::string& title);

struct Fault {
  std::string name;  // "constant offset"
  std::string size;  // "1 % of the standard deviation"; empty if the fault has no size
  std::function<Doubles(const Doubles&)> apply;
};

/// Returns all faults that apply to an array. `deviation` is its standard deviation; `steps_first`
/// is true if its first axis has a slice for each step.
std::vector<Fault> faults_of(const ArrayView& golden, double deviation, bool steps_first);

/// Converts values to elements of a dtype. Each value is rounded once.
Array array_of(DType dtype, const Shape& shape, const Doubles& values);

/// Faults with the same name that the tolerance of one array does not detect.
struct MissedFault {
  std::string array, fault;
  std::vector<std::string> sizes;  // that pass, the largest first; empty for a fault without sizes
};

struct SelfTest {
  struct Array {
    std::string name;
    int64_t injected = 0, found = 0;
  };
  std::vector<Array> arrays;  // the arrays that were tested, in order
  int64_t injected = 0, found = 0;
  std::vector<MissedFault> missed;
  /// Arrays that most faults leave unchanged, and arrays that cannot be read, each with the reason.
  std::vector<std::string> skipped;
};

/// Puts each known fault into each array of `golden` and compares the result with `golden`. Faults
/// that change no element are left out.
SelfTest test_tolerances(const Side& golden, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore);

}  // namespace flow::compare
