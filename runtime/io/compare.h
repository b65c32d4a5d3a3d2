// Comparing the .npy outputs of two runs: what differs, by how much, where.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"

namespace flow::io {

struct Tolerance {
  double relative = 0, absolute = 0;  // |a - b| <= absolute + relative * |b|, b the golden value
};
/// float32 (1.3e-6, 1e-5), float64 (1e-7, 1e-7), bfloat16 (1.6e-2, 1e-5), float16 (1e-3, 1e-5),
/// integers and bools exact.
Tolerance default_tolerance(DType dtype);

/// What `--rtol` and `--atol` ask for of floats, and `--tol` of all arrays that match; the last
/// matching glob wins, absent parts are the dtype's.
struct ToleranceRules {
  std::optional<double> relative, absolute;
  struct Rule {
    std::string glob;
    Tolerance tolerance;
  };
  std::vector<Rule> rules;
};

struct ArrayDifference {
  enum class Verdict { kEqual, kWithin, kDiffers, kMissing, kExtra, kDType, kShape, kUnreadable };
  std::string name;  // the path below the folder, without .npy
  Verdict verdict = Verdict::kEqual;
  std::string detail;  // kDType, kShape, kUnreadable: in words
  DType dtype = DType::kFloat32;
  Shape shape;
  Tolerance tolerance;
  int64_t elements = 0, over = 0;  // compared; beyond the tolerance
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
  bool failed() const { return verdict > Verdict::kWithin; }
};

/// Compares two arrays. NaN equals NaN; an infinity equals the same infinity only.
ArrayDifference compare(const std::string& name, const ArrayView& golden, const ArrayView& out,
                        const ToleranceRules& rules);

struct Comparison {
  std::vector<ArrayDifference> arrays;  // sorted by name
  std::vector<std::string> ignored;     // names that were left out, sorted
  int64_t failed() const;
  int64_t unreadable() const;  // of those that failed
  int64_t pairs() const;       // arrays that both sides have
  /// Of runs: the names of their newest checkpoints, which are their steps; "" where there is none.
  std::string golden_checkpoint, out_checkpoint;
};

/// Files, folders of .npy, or run directories (then returns/, watch/, also/ and, as checkpoint/,
/// the newest checkpoint). A file that cannot be read is a verdict. RequestError when one of the
/// paths does not exist or they are of different kinds. Arrays that match a glob of `ignore` are
/// left out, whichever side has them.
Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore = {});

}  // namespace flow::io
