// Metrics (values of all rows of an epoch or a run together, not the means of those of batches),
// and values that a run follows: by them it ends early, keeps its best state, or reduces its
// learning rate.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/plan/model/record.h"

namespace flow::plan {

/// Which values are better.
enum class Mode { kMin, kMax };
template <>
struct EnumNames<Mode> {
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

/// How the scores of classes become one.
enum class Average {
  kMacro,     // the mean over classes that labels or predictions have
  kMicro,     // the score of all classes' counts added up
  kWeighted,  // the mean, weighted by labels of the class
  kBinary     // the score of class 1
};
template <>
struct EnumNames<Average> {
  static constexpr std::array<std::string_view, 4> words = {"macro", "micro", "weighted", "binary"};
};

/// A metric of a tensor with a row for each example. Of perplexity, losses in any shape. Of the
/// others pairs along the last axis: a label and a predicted class as int64; of top_k_accuracy a
/// label and whether it is among the k; of auc a label, 0 or 1, and a score as floats.
struct Metric {
  MetricType type = MetricType::kAccuracy;
  Average average = Average::kMacro;
  int64_t classes = 0;                  // labels and predictions are below; 0: as many as occur
  std::optional<int64_t> ignored = {};  // rows with this label do not count

  friend bool operator==(const Metric&, const Metric&) = default;
};

/// Of a metric, and of one that has a number for each pair of classes.
inline constexpr int64_t kMostClasses = int64_t{1} << 20, kMostMatrixClasses = 4096;

inline bool is_number(const Metric& metric) { return metric.type != MetricType::kConfusionMatrix; }

/// Which values of a metric that is one number are better.
inline Mode better_of(MetricType type) {
  return type == MetricType::kPerplexity ? Mode::kMin : Mode::kMax;
}

}  // namespace flow::plan
