// How far apart two arrays may be: defaults by dtype, and rules of a user by name and step; and why
// a comparison that passes may prove little.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"

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

}  // namespace flow::compare
