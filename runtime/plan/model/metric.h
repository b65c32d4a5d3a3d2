// Metrics, which are computed from all rows of an epoch or a run together and are not means over
// batches; and values that a run follows to end early, to keep its best state, or to reduce its
// learning rate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/plan/model/record.h"

namespace flow::plan {

/// Whether smaller or larger values are better.
enum class Mode { kMin, kMax };
template <>
struct EnumNames<Mode> {
  static constexpr std::array<std::string_view, 2> words = {"min", "max"};
};

/// A metric, or the mean over all elements of a tensor. A value of a called job covers one call; a
/// value of the job itself covers a span of steps or epochs. A hook of the job that computes the
/// value has a MeanSink for it.
struct FollowedValue {
  std::string text;  // the name in the job file: "eval.loss"
  std::string job;   // the called job; empty for the job itself
  std::string tensor;
  Mode mode = Mode::kMin;
  int64_t every_steps = 0, every_epochs = 0;  // both 0 for a called job, else one is set
  std::string where;

  /// Returns a key that is equal for two followed values if they are the same number.
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

enum class MetricType {
  kAccuracy,
  kTopKAccuracy,
  kPrecision,
  kRecall,
  kF1,
  kMeanIou,
  kConfusionMatrix,
  kAuc,
  kPerplexity
};
template <>
struct EnumNames<MetricType> {
  static constexpr std::array<std::string_view, 9> words = {
      "accuracy", "top_k_accuracy",   "precision", "recall",    "f1",
      "mean_iou", "confusion_matrix", "auc",       "perplexity"};
};

/// How the scores of the classes are combined into one.
enum class Average {
  kMacro,     // the mean over classes that occur in labels or predictions
  kMicro,     // the score of the counts of all classes, added up
  kWeighted,  // the mean, weighted by the number of labels of each class
  kBinary     // the score of class 1
};
template <>
struct EnumNames<Average> {
  static constexpr std::array<std::string_view, 4> words = {"macro", "micro", "weighted", "binary"};
};

/// A metric of a tensor with one row per example. Perplexity takes losses in any shape. The other
/// metrics take pairs along the last axis: a label and a predicted class as int64; for
/// top_k_accuracy, a label and whether it is among the top k; for auc, a label (0 or 1) and a
/// score, as floats.
struct Metric {
  MetricType type = MetricType::kAccuracy;
  Average average = Average::kMacro;
  int64_t classes = 0;                  // labels and predictions are below this; 0 if unlimited
  std::optional<int64_t> ignored = {};  // rows with this label do not count

  friend bool operator==(const Metric&, const Metric&) = default;
};

/// The largest number of classes of a metric, and of a metric with a number for each pair of
/// classes.
inline constexpr int64_t kMostClasses = int64_t{1} << 20, kMostMatrixClasses = 4096;

inline bool is_number(const Metric& metric) { return metric.type != MetricType::kConfusionMatrix; }

/// Returns whether smaller or larger values are better for a metric that is one number.
inline Mode better_of(MetricType type) {
  return type == MetricType::kPerplexity ? Mode::kMin : Mode::kMax;
}

}  // namespace flow::plan
