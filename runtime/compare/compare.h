// Compares the .npy outputs of two runs: which arrays differ, by how much, where, and what the
// error looks like.
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

/// Verdicts that pass come first. kMistrusted means within a tolerance that would also accept badly
/// wrong values.
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
  std::string detail;  // an explanation for kDType, kShape and kUnreadable
  DType dtype = DType::kFloat32;
  Shape shape;
  Tolerance tolerance;              // for the first mismatch; without one, for most steps
  std::vector<std::string> doubts;  // reasons why a comparison that passes proves little
  int64_t elements = 0, over = 0;   // the elements that were compared; those beyond the tolerance
  int64_t not_judged = 0;           // the elements of steps after the rule's last one
  int64_t nan_mismatches = 0, inf_mismatches = 0;
  struct Worst {
    double error = 0;
    std::vector<int64_t> index;
    std::string golden, out;  // the two values, as the shortest text
  };
  // The largest errors between finite values. The relative error leaves out elements that are zero
  // in golden.
  Worst absolute, relative;
  std::vector<int64_t> first_mismatch;  // the index of the first element over tolerance
  std::string first_golden, first_out;  // the values of that element
  std::optional<ErrorProfile> profile;  // only for kDiffers
  std::optional<Look> look;             // only for kDiffers and kShape, if a look fits well
  bool failed() const { return verdict > Verdict::kMistrusted; }
  /// Returns false if all elements belong to steps after the rule's last one.
  bool is_judged() const { return elements == 0 || not_judged < elements; }
};

/// What compare_arrays knows about an array besides its elements.
struct ArrayContext {
  std::vector<int64_t> steps = {};        // the result of steps_of
  std::vector<EarlierStep> earlier = {};  // earlier steps of golden, the newest first
};

/// Compares two arrays. NaN equals NaN; an infinity equals only the same infinity. Throws
/// RequestError if a rule needs steps and the array has none, or if its tolerance is tighter than
/// its spread.
ArrayDifference compare_arrays(const std::string& name, const ArrayView& golden,
                               const ArrayView& out, const ToleranceRules& rules,
                               const ArrayContext& context = {});

/// Compares two arrays without computing profile and look, which take longer than the verdict.
ArrayDifference judge_arrays(const std::string& name, const ArrayView& golden, const ArrayView& out,
                             const ToleranceRules& rules, const ArrayContext& context = {});

struct Comparison {
  std::vector<ArrayDifference> arrays;  // sorted by name
  std::vector<std::string> ignored;     // the names that were left out, sorted
  int64_t count(Verdict verdict) const;
  int64_t failed() const;
  int64_t unreadable() const { return count(Verdict::kUnreadable); }  // included in failed()
  int64_t pairs() const;                                              // the arrays on both sides
  /// For runs, the names of their newest checkpoints, which are step numbers; "" if a run has no
  /// checkpoint.
  std::string golden_checkpoint, out_checkpoint;
};

/// Returns true if one of the globs matches the name of an array.
bool is_ignored(const std::vector<std::string>& ignore, const std::string& name);

/// A function that returns the difference between two arrays, given their name and files.
using ComparePair = std::function<ArrayDifference(const std::string& name, const fs::path& golden,
                                                  const fs::path& out)>;

/// Calls `compare` for the arrays that both sides have. The sides are of the same kind. Arrays that
/// match a glob of `ignore` are left out, no matter which side has them.
Comparison compare_pairs(const Side& golden, const Side& out,
                         const std::vector<std::string>& ignore, const ComparePair& compare);

/// Compares two sides of the same kind. A file that cannot be read becomes a verdict.
Comparison compare_sides(const Side& golden, const Side& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore = {});

/// Compares the sides at two paths. Throws RequestError if one of them does not exist, or if they
/// are of different kinds.
Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore = {});

}  // namespace flow::compare
