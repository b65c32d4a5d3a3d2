// The look of a difference: the one known fault that explains most of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/compare/tolerance.h"

namespace flow::compare {

/// Kinds in the order of preference. If two explain the error equally well, the first one is
/// reported.
enum class LookKind {
  kElement,     // a single element
  kSign,        // -golden
  kRounding,    // one side is the other, rounded to fewer bits
  kStale,       // values of an earlier step
  kTailRows,    // only the last rows differ
  kChannel,     // only one index of an axis differs
  kOffset,      // golden + a
  kGain,        // golden * a
  kTransposed,  // golden with its axes in another order
  kShifted,     // shifted along an axis
  kReversed,    // an axis in reverse order
  kExchanged,   // two indices of an axis exchanged
  kPermuted,    // rows in another order
  kReordered,   // the indices of an axis other than the rows in another order
  kNoise,       // white noise; only if no other look is found
  kFromStep     // equal before a step; only if no other look is found
};
/// Returns the name in JSON: "one_element", "sign", "rounding", ...
const char* name_of(LookKind kind);
/// Returns the kind with that name, or nothing if the name is unknown.
std::optional<LookKind> look_named(const std::string& name);

struct Look {
  LookKind kind = LookKind::kElement;
  std::string text;  // "constant offset of 0.25"
  double share = 0;  // the share of the sum of squared errors that the look explains
};

/// The array of the same delivery in golden at an earlier step.
struct EarlierStep {
  int64_t step = 0;
  fs::path path;
};

struct LookContext {
  Tolerance tolerance;
  bool steps_first = false;               // the first axis has a slice for each step
  std::vector<int64_t> steps = {};        // the step of each slice, if known
  std::vector<EarlierStep> earlier = {};  // the newest first
};

/// Returns nothing if no look explains at least three quarters of the error, if no two finite
/// values differ, or if the arrays have more than 4 Mi elements. REQUIRES: the dtypes agree, and
/// the shapes agree or have the same extents in another order.
std::optional<Look> best_look(const ArrayView& golden, const ArrayView& out,
                              const LookContext& context);

}  // namespace flow::compare
