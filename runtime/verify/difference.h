// Two runs of a job compared bit for bit: arrays, the newest checkpoint, metrics.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/compare/compare.h"
#include "runtime/compare/tolerance.h"

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

}  // namespace flow::verify
