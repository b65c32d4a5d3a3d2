// Metrics, computed from counts of classes or from all scores of an epoch.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/io/elements.h"
#include "runtime/io/reduction.h"
#include "runtime/io/sink.h"

namespace flow::io {

namespace {

using plan::Average;
using plan::Metric;
using plan::MetricType;

/// Returns part / whole, or 0 if `whole` is 0, as scikit-learn does.
double ratio(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

/// A metric and its name in messages.
struct Named {
  Metric metric;
  std::string what;

  [[noreturn]] void refuse_held(size_t words) const {
    throw RequestError(
        fmt::format("{}: {} numbers in the place of its sums are invalid", what, words));
  }
};

/// A metric whose value is a number.
class NumberMetric : public Accumulator {
 public:
  explicit NumberMetric(Named named = {}) : named_(std::move(named)) {}

  Array result(double scale) const override {
    return scalar_array(DType::kFloat64, value() * scale);
  }

 protected:
  const Named named_;
};

/// Calls count(label, other) with each pair whose label is not the ignored one.
template <typename Count>
void visit_pairs(const ArrayView& array, const Metric& metric, const Count& count) {
  FLOW_CHECK(array.dtype == DType::kInt64);
  const std::span<const int64_t> values(reinterpret_cast<const int64_t*>(array.data),
                                        static_cast<size_t>(array.shape.elements()));
  for (size_t i = 0; i + 1 < values.size(); i += 2)
    if (values[i] != metric.ignored) count(values[i], values[i + 1]);
}

/// Returns the class as an index. Throws RunError if the number is not a class.
size_t class_of(int64_t number, const Named& named, std::string_view kind) {
  const int64_t most = named.metric.type == MetricType::kConfusionMatrix ? plan::kMostMatrixClasses
                                                                         : plan::kMostClasses;
  const int64_t end = named.metric.classes > 0 ? named.metric.classes : most;
  if (number < 0 || number >= end)
    throw RunError(fmt::format("{}: {} {} is not a class; expected {}", named.what, kind, number,
                               number < 0 ? "at least 0" : fmt::format("at most {}", end - 1)));
  return static_cast<size_t>(number);
}

/// The share of pairs that match: the two are equal, or the label is among the top k.
class HitRate : public NumberMetric {
 public:
  using NumberMetric::NumberMetric;

  void add(const ArrayView& array) override {
    visit_pairs(array, named_.metric, [&](int64_t label, int64_t other) {
      const bool places = named_.metric.type == MetricType::kTopKAccuracy;
      class_of(label, named_, "label");
      if (!places) class_of(other, named_, "prediction");
      hits_ += places ? other != 0 : label == other;
      ++rows_;
    });
  }
  bool is_empty() const override { return rows_ == 0; }
  double value() const override { return rows_ > 0 ? ratio(hits_, rows_) : NAN; }
  void clear() override { hits_ = rows_ = 0; }
  std::vector<uint64_t> held() const override { return {hits_, rows_}; }
  void resume(std::span<const uint64_t> held) override {
    if (held.size() != 2 || held[0] > held[1]) named_.refuse_held(held.size());
    hits_ = held[0];
    rows_ = held[1];
  }

 private:
  uint64_t hits_ = 0, rows_ = 0;
};

/// The number of rows that have a class as the label, as the prediction, and as both.
struct ClassCounts {
  uint64_t labels = 0, predictions = 0, both = 0;

  bool occurs() const { return labels > 0 || predictions > 0; }
};

/// Computes scores from how often each class is the label, the prediction, and both.
class ClassScore : public NumberMetric {
 public:
  using NumberMetric::NumberMetric;

  void add(const ArrayView& array) override {
    visit_pairs(array, named_.metric, [&](int64_t label, int64_t prediction) {
      const size_t a = class_of(label, named_, "label");
      const size_t b = class_of(prediction, named_, "prediction");
      if (std::max(a, b) >= classes_.size()) classes_.resize(std::max(a, b) + 1);
      ++classes_[a].labels;
      ++classes_[b].predictions;
      classes_[a].both += a == b;
    });
  }
  bool is_empty() const override { return classes_.empty(); }
  void clear() override { classes_.clear(); }

  double value() const override {
    if (classes_.empty()) return NAN;
    switch (named_.metric.average) {
      case Average::kBinary:
        return classes_.size() > 1 ? score(classes_[1]) : 0;
      case Average::kMicro:
        return score(total());
      case Average::kMacro:
      case Average::kWeighted:
        break;
    }
    double sum = 0, weights = 0;
    for (const ClassCounts& one : classes_) {
      const bool weighted = named_.metric.average == Average::kWeighted;
      const double weight = weighted ? static_cast<double>(one.labels) : one.occurs();
      sum += weight * score(one);
      weights += weight;
    }
    return sum / weights;
  }

  std::vector<uint64_t> held() const override {
    std::vector<uint64_t> words;
    words.reserve(3 * classes_.size());
    for (const ClassCounts& one : classes_)
      words.insert(words.end(), {one.labels, one.predictions, one.both});
    return words;
  }

  void resume(std::span<const uint64_t> held) override {
    if (held.size() % 3 != 0 || held.size() / 3 > plan::kMostClasses)
      named_.refuse_held(held.size());
    classes_.clear();
    for (size_t i = 0; i < held.size(); i += 3)
      classes_.push_back({held[i], held[i + 1], held[i + 2]});
  }

 private:
  ClassCounts total() const {
    ClassCounts sum;
    for (const ClassCounts& one : classes_) {
      sum.labels += one.labels;
      sum.predictions += one.predictions;
      sum.both += one.both;
    }
    return sum;
  }

  double score(const ClassCounts& counts) const {
    switch (named_.metric.type) {
      case MetricType::kPrecision:
        return ratio(counts.both, counts.predictions);
      case MetricType::kRecall:
        return ratio(counts.both, counts.labels);
      case MetricType::kF1:
        return ratio(2 * counts.both, counts.labels + counts.predictions);
      default:  // mean of intersections over unions
        return ratio(counts.both, counts.labels + counts.predictions - counts.both);
    }
  }

  std::vector<ClassCounts> classes_;
};

/// Counts pairs in a matrix, whose rows are labels and whose columns are predictions.
class ConfusionMatrix : public Accumulator {
 public:
  explicit ConfusionMatrix(Named named) : named_(std::move(named)) { clear(); }

  void add(const ArrayView& array) override {
    visit_pairs(array, named_.metric, [&](int64_t label, int64_t prediction) {
      const size_t a = class_of(label, named_, "label");
      const size_t b = class_of(prediction, named_, "prediction");
      grow(std::max(a, b) + 1);
      ++counts_[a * classes_ + b];
      empty_ = false;
    });
  }
  bool is_empty() const override { return empty_; }
  double value() const override { FLOW_CHECK(false, "a matrix is not a number"); }
  Array result(double scale) const override {
    const auto n = static_cast<int64_t>(classes_);
    Array matrix(DType::kInt64, Shape{n, n});
    std::ranges::copy(counts_, matrix.as<int64_t>().begin());
    return scale == 1 ? std::move(matrix) : scaled(matrix.view(), scale);
  }
  void clear() override {
    classes_ = static_cast<size_t>(std::max<int64_t>(named_.metric.classes, 1));
    counts_.assign(classes_ * classes_, 0);
    empty_ = true;
  }
  std::vector<uint64_t> held() const override { return {counts_.begin(), counts_.end()}; }
  void resume(std::span<const uint64_t> held) override {
    const auto n = static_cast<size_t>(std::sqrt(static_cast<double>(held.size())));
    const bool fits = n >= 1 && n <= plan::kMostMatrixClasses && n * n == held.size() &&
                      (named_.metric.classes == 0 || std::cmp_equal(n, named_.metric.classes));
    if (!fits) named_.refuse_held(held.size());
    classes_ = n;
    counts_.assign(held.begin(), held.end());
    empty_ = std::ranges::all_of(counts_, [](int64_t count) { return count == 0; });
  }

 private:
  void grow(size_t classes) {
    if (classes <= classes_) return;
    std::vector<int64_t> counts(classes * classes, 0);
    for (size_t row = 0; row < classes_; ++row)
      std::copy_n(counts_.begin() + static_cast<std::ptrdiff_t>(row * classes_), classes_,
                  counts.begin() + static_cast<std::ptrdiff_t>(row * classes));
    counts_ = std::move(counts);
    classes_ = classes;
  }

  const Named named_;
  size_t classes_ = 0;
  std::vector<int64_t> counts_;
  bool empty_ = true;
};

/// The area under the ROC curve. It considers all pairs of a row with label 1 and a row with label
/// 0: the area is the share in which the former has the higher score, where ties count half (Mann
/// and Whitney, 1947). It keeps all scores.
class RocArea : public NumberMetric {
 public:
  using NumberMetric::NumberMetric;

  void add(const ArrayView& array) override {
    visit_elements(array, [&](auto values) {
      for (size_t i = 0; i + 1 < values.size(); i += 2) {
        const auto label = static_cast<double>(values[i]);
        if (named_.metric.ignored && label == static_cast<double>(*named_.metric.ignored)) continue;
        if (label != 0 && label != 1)
          throw RunError(fmt::format("{}: label {} is neither 0 nor 1", named_.what, label));
        scores_[label == 1].push_back(static_cast<double>(values[i + 1]));
      }
    });
  }
  bool is_empty() const override { return scores_[0].empty() && scores_[1].empty(); }
  void clear() override {
    for (std::vector<double>& scores : scores_) scores.clear();
  }

  /// Returns NaN if one of the two labels is missing, or if a score is NaN.
  double value() const override {
    std::vector<double> zeros = scores_[0], ones = scores_[1];
    const auto is_nan = [](double score) { return std::isnan(score); };
    if (zeros.empty() || ones.empty() || std::ranges::any_of(zeros, is_nan) ||
        std::ranges::any_of(ones, is_nan))
      return NAN;
    std::ranges::sort(zeros);
    std::ranges::sort(ones);
    uint64_t halves = 0;  // counts halves of pairs, so that ties are whole numbers
    size_t below = 0, up_to = 0;
    for (const double score : ones) {
      while (below < zeros.size() && zeros[below] < score) ++below;
      while (up_to < zeros.size() && zeros[up_to] <= score) ++up_to;
      halves += below + up_to;
    }
    return static_cast<double>(halves) / 2 /
           (static_cast<double>(zeros.size()) * static_cast<double>(ones.size()));
  }

  /// Returns the number of scores of label 0, those scores, then the scores of label 1.
  std::vector<uint64_t> held() const override {
    std::vector<uint64_t> words = {scores_[0].size()};
    for (const std::vector<double>& scores : scores_)
      for (const double score : scores) words.push_back(std::bit_cast<uint64_t>(score));
    return words;
  }
  void resume(std::span<const uint64_t> held) override {
    if (held.empty() || held[0] > held.size() - 1) named_.refuse_held(held.size());
    clear();
    for (size_t i = 1; i < held.size(); ++i)
      scores_[i > held[0]].push_back(std::bit_cast<double>(held[i]));
  }

 private:
  std::array<std::vector<double>, 2> scores_;  // indexed by label
};

/// The exponential of the mean loss.
class Perplexity : public NumberMetric {
 public:
  explicit Perplexity(DType dtype) : mean_(plan::Reduce::kMean, dtype) {}

  void add(const ArrayView& array) override { mean_.add(array); }
  bool is_empty() const override { return mean_.is_empty(); }
  double value() const override { return std::exp(mean_.value()); }
  void clear() override { mean_.clear(); }
  std::vector<uint64_t> held() const override { return mean_.held(); }
  void resume(std::span<const uint64_t> held) override { mean_.resume(held); }

 private:
  Reduction mean_;
};

}  // namespace

std::unique_ptr<Accumulator> make_metric(const Metric& metric, DType dtype, std::string what) {
  Named named{metric, std::move(what)};
  switch (metric.type) {
    case MetricType::kAccuracy:
    case MetricType::kTopKAccuracy:
      return std::make_unique<HitRate>(std::move(named));
    case MetricType::kPrecision:
    case MetricType::kRecall:
    case MetricType::kF1:
    case MetricType::kMeanIou:
      return std::make_unique<ClassScore>(std::move(named));
    case MetricType::kConfusionMatrix:
      return std::make_unique<ConfusionMatrix>(std::move(named));
    case MetricType::kAuc:
      return std::make_unique<RocArea>(std::move(named));
    case MetricType::kPerplexity:
      return std::make_unique<Perplexity>(dtype);
  }
  FLOW_CHECK(false);
}

std::unique_ptr<Accumulator> make_sums(const std::optional<Metric>& metric, plan::Reduce reduce,
                                       const SinkContext& context) {
  if (metric)
    return make_metric(*metric, context.dtype,
                       fmt::format("{}: metric `{}`", context.where, context.name));
  if (reduce == plan::Reduce::kNone) return nullptr;
  return std::make_unique<Reduction>(reduce, context.dtype);
}

}  // namespace flow::io
