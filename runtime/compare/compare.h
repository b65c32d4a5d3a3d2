// Comparing the .npy outputs of two runs: what differs, by how much, where, and what it looks like.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/looks.h"
#include "runtime/compare/tolerance.h"

namespace flow::compare {

/// Passing ones first. kMistrusted: within tolerance, but so would much be that is wrong.
enum class Verdict {
  kEqual,
  kWithin,
  kMistrusted,
  kDiffers,
  kMissing,
  kExtra,
  kDType,
  kShape,
  kUnreadable
};

struct ArrayDifference {
  std::string name;  // the path below the folder, without .npy
  Verdict verdict = Verdict::kEqual;
  std::string detail;  // kDType, kShape, kUnreadable: in words
  DType dtype = DType::kFloat32;
  Shape shape;
  Tolerance tolerance;  // of most steps, where steps have their own; of the first mismatch
  std::vector<std::string> doubts;  // why a comparison that passes proves little
  int64_t elements = 0, over = 0;   // compared; beyond the tolerance
  int64_t not_judged = 0;           // of steps after the rule's last one
  int64_t nan_mismatches = 0, inf_mismatches = 0;
  struct Worst {
    double error = 0;
    std::vector<int64_t> index;
    std::string golden, out;  // the two values, shortest text
  };
  // The largest errors between finite values; the relative one leaves golden zeros out.
  Worst absolute, relative;
  std::vector<int64_t> first_mismatch;  // index of the first element over tolerance,
  std::string first_golden, first_out;  // and its values
  std::optional<ErrorProfile> profile;  // kDiffers
  std::optional<Look> look;             // kDiffers, kShape: where there is a good one
  bool failed() const { return verdict > Verdict::kMistrusted; }
  /// False where all elements are of steps after the rule's last one.
  bool is_judged() const { return elements == 0 || not_judged < elements; }
};

/// What compare_arrays knows of an array besides its elements.
struct ArrayContext {
  std::vector<int64_t> steps = {};        // as steps_of has them
  std::vector<EarlierStep> earlier = {};  // of golden, the newest first
};

/// Compares two arrays. NaN equals NaN; an infinity equals the same infinity only. RequestError
/// where a rule needs steps and the array has none, or its tolerance is tighter than its spread.
ArrayDifference compare_arrays(const std::string& name, const ArrayView& golden,
                               const ArrayView& out, const ToleranceRules& rules,
                               const ArrayContext& context = {});

/// The same without profile and look, which take longer than the verdict.
ArrayDifference judge_arrays(const std::string& name, const ArrayView& golden, const ArrayView& out,
                             const ToleranceRules& rules, const ArrayContext& context = {});

struct Comparison {
  std::vector<ArrayDifference> arrays;  // sorted by name
  std::vector<std::string> ignored;     // names that were left out, sorted
  int64_t count(Verdict verdict) const;
  int64_t failed() const;
  int64_t unreadable() const { return count(Verdict::kUnreadable); }  // of those that failed
  int64_t pairs() const;                                              // arrays that both sides have
  /// Of runs: the names of their newest checkpoints, which are their steps; "" where there is none.
  std::string golden_checkpoint, out_checkpoint;
};

/// Does one of the globs match the name of an array?
bool is_ignored(const std::vector<std::string>& ignore, const std::string& name);

/// The difference between two arrays, by their name and files.
using ComparePair = std::function<ArrayDifference(const std::string& name, const fs::path& golden,
                                                  const fs::path& out)>;

/// Calls `compare` for the arrays that both sides have, which are of one kind. Arrays that match a
/// glob of `ignore` are left out, whichever side has them.
Comparison compare_pairs(const Side& golden, const Side& out,
                         const std::vector<std::string>& ignore, const ComparePair& compare);

/// Both sides, of one kind. A file that cannot be read is a verdict.
Comparison compare_sides(const Side& golden, const Side& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore = {});

/// The same of two paths. RequestError when one of them does not exist or they are of different
/// kinds.
Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore = {});

}  // namespace flow::compare
