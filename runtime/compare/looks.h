// What a difference looks like: the one known fault that explains most of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/compare/tolerance.h"

namespace flow::compare {

/// In the order of preference: of two that explain the error equally well, the first is reported.
enum class LookKind {
  kElement,     // one element
  kSign,        // -golden
  kRounding,    // one side is the other in fewer bits
  kStale,       // values of an earlier step
  kTailRows,    // only the last rows
  kChannel,     // only one index of an axis
  kOffset,      // golden + a
  kGain,        // golden * a
  kTransposed,  // golden with its axes in another order
  kShifted,     // along an axis
  kReversed,    // an axis
  kExchanged,   // two indices of an axis
  kPermuted,    // rows in another order
  kReordered,   // the indices of another axis in another order
  kNoise,       // white, where nothing else is found
  kFromStep     // equal before a step, and nothing else is found
};
/// "one element", "sign", "rounding", ... in JSON.
const char* name_of(LookKind kind);
/// The kind of that name; nothing where there is none.
std::optional<LookKind> look_named(const std::string& name);

struct Look {
  LookKind kind = LookKind::kElement;
  std::string text;  // "constant offset of 0.25"
  double share = 0;  // of the sum of squared errors, that it explains
};

/// An array of golden of an earlier step, of one delivery.
struct EarlierStep {
  int64_t step = 0;
  fs::path path;
};

struct LookContext {
  Tolerance tolerance;
  bool steps_first = false;               // the first axis has a slice for each step
  std::vector<int64_t> steps = {};        // of each of them, where known
  std::vector<EarlierStep> earlier = {};  // the newest first
};

/// Nothing where no look explains at least three quarters of the error, no two finite values
/// differ, or the arrays have more than 4 Mi elements. REQUIRES: the dtypes agree, and the shapes
/// do or have the same extents in another order.
std::optional<Look> best_look(const ArrayView& golden, const ArrayView& out,
                              const LookContext& context);

}  // namespace flow::compare
