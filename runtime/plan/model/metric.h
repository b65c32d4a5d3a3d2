// Metrics: values of all rows of an epoch or a run together, not the means of those of batches.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/plan/model/followed_value.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

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
struct Spelling<MetricType> {
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
struct Spelling<Average> {
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
