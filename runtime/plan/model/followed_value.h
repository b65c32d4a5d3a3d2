// Values that a run follows: by them it ends early, keeps its best state, or reduces its learning
// rate.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/plan/model/record.h"

namespace flow::plan {

/// Which values are better.
enum class Mode { kMin, kMax };
template <>
struct Spelling<Mode> {
  static constexpr std::array<std::string_view, 2> words = {"min", "max"};
};

/// A metric, or the mean over all elements of a tensor: of a called job over each call, of the job
/// itself over each span of steps or epochs. A hook of that job has a MeanSink for it.
struct FollowedValue {
  std::string text;  // as the job file names it: "eval.loss"
  std::string job;   // that is called; empty: the job itself
  std::string tensor;
  Mode mode = Mode::kMin;
  int64_t every_steps = 0, every_epochs = 0;  // of the job's own: one of them; of a call neither
  std::string where;

  /// The same for two that are one number.
  std::string key() const {
    std::string key = tensor;
    if (every_steps > 0) key += " every " + std::to_string(every_steps) + " steps";
    if (every_epochs > 0) key += " every " + std::to_string(every_epochs) + " epochs";
    return key;
  }
};

/// The run ends after `patience` values in a row that are not better than the best by more than
/// `min_delta`.
struct EarlyStopping {
  FollowedValue value;
  int64_t patience = 1;
  double min_delta = 0;
};

}  // namespace flow::plan
