// Tolerances from how far apart runs are that are equally right.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/arrays.h"

namespace flow::compare {

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

}  // namespace flow::compare
