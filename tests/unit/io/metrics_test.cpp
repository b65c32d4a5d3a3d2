// Metrics against what scikit-learn 1.9.1 gives for the same labels, predictions and scores.
#include <array>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/io/reduction.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

using plan::Average;
using plan::Metric;
using plan::MetricType;

constexpr int64_t kRows = 300;

/// The high bits of a linear congruential generator.
std::vector<int64_t> draw(int64_t seed) {
  std::vector<int64_t> drawn;
  for (int64_t i = 0; i < kRows; ++i) {
    seed = (seed * 1103515245 + 12345) % (int64_t{1} << 31);
    drawn.push_back(seed >> 16);
  }
  return drawn;
}

/// Labels 0 to 4, and predictions that are wrong in a third of the rows, sometimes 5.
Array class_pairs(int64_t modulus = 6) {
  const auto a = draw(1), b = draw(2), c = draw(3);
  std::vector<int64_t> pairs;
  for (size_t i = 0; i < kRows; ++i) {
    const int64_t label = a[i] % 5;
    const int64_t prediction = b[i] % 3 == 0 ? (label + c[i] % 4) % 6 : label;
    pairs.insert(pairs.end(), {label % modulus, prediction % modulus});
  }
  return array_of<int64_t>({kRows, 2}, pairs);
}

/// Labels 0 and 1 with scores of which many are equal.
Array score_pairs() {
  const auto a = draw(1), b = draw(2);
  std::vector<double> pairs;
  for (size_t i = 0; i < kRows; ++i)
    pairs.insert(pairs.end(),
                 {static_cast<double>(a[i] % 5 % 2), static_cast<double>(b[i] % 37) / 8});
  return array_of<double>({kRows, 2}, pairs);
}

std::unique_ptr<Accumulator> make(const Metric& metric, DType dtype = DType::kInt64) {
  return make_metric(metric, dtype, "job.yaml:1:2: metric `m`");
}

double value_of(const Metric& metric, const Array& pairs) {
  const auto sums = make(metric, pairs.dtype());
  sums->add(pairs.view());
  return sums->value();
}

/// Rows [first, end) of pairs.
ArrayView rows_of(const Array& pairs, int64_t first, int64_t end) {
  ArrayView part = pairs.view();
  part.data += first * 2 * 8;
  part.shape = {end - first, 2};
  return part;
}

TEST_CASE("scores of classes are scikit-learn's", "[io]") {
  const Array pairs = class_pairs();
  const auto check = [&](MetricType type, std::array<double, 3> expected) {
    constexpr std::array kAverages = {Average::kMacro, Average::kMicro, Average::kWeighted};
    for (size_t i = 0; i < 3; ++i)
      CHECK(value_of({type, kAverages[i]}, pairs) == Approx(expected[i]).epsilon(1e-14));
  };
  CHECK(value_of({MetricType::kAccuracy}, pairs) == Approx(0.79).epsilon(1e-14));
  check(MetricType::kPrecision, {0.6963986059163046, 0.79, 0.8375285218569085});
  check(MetricType::kRecall, {0.6565753286878574, 0.79, 0.79});
  check(MetricType::kF1, {0.6754046330317517, 0.79, 0.812508351660894});
  CHECK(value_of({MetricType::kMeanIou}, pairs) == Approx(0.5696705393564155).epsilon(1e-14));
  const Array binary = class_pairs(2);
  CHECK(value_of({MetricType::kPrecision, Average::kBinary}, binary) ==
        Approx(0.8188405797101449).epsilon(1e-14));
  CHECK(value_of({MetricType::kRecall, Average::kBinary}, binary) ==
        Approx(0.889763779527559).epsilon(1e-14));
  CHECK(value_of({MetricType::kF1, Average::kBinary}, binary) ==
        Approx(0.8528301886792453).epsilon(1e-14));
}

TEST_CASE("a confusion matrix has labels down and predictions across", "[io]") {
  const std::vector<int64_t> expected = {48, 3, 3, 6,  0, 0, 0, 58, 2, 4, 5,  0, 0, 0, 41, 5, 3, 4,
                                         3,  0, 0, 44, 4, 7, 7, 2,  0, 0, 46, 5, 0, 0, 0,  0, 0, 0};
  const auto sums = make({MetricType::kConfusionMatrix});
  sums->add(class_pairs().view());
  const Array matrix = sums->result(1);
  CHECK(matrix.shape() == Shape{6, 6});
  CHECK(std::ranges::equal(matrix.as<int64_t>(), expected));
  const auto wide = make({.type = MetricType::kConfusionMatrix, .classes = 8});
  wide->add(class_pairs().view());
  CHECK(wide->result(1).shape() == Shape{8, 8});
  CHECK(wide->result(1).as<int64_t>()[8 * 4] == 7);
}

TEST_CASE("the area under the ROC curve counts ties as half", "[io]") {
  CHECK(value_of({MetricType::kAuc}, score_pairs()) == Approx(0.5272859678667334).epsilon(1e-14));
  const Array one_class = array_of<double>({2, 2}, {1, 0.5, 1, 0.25});
  CHECK(std::isnan(value_of({MetricType::kAuc}, one_class)));
  const Array nan = array_of<double>({2, 2}, {1, std::nan(""), 0, 0.25});
  CHECK(std::isnan(value_of({MetricType::kAuc}, nan)));
}

TEST_CASE("perplexity is the exponential of the mean over all rows", "[io]") {
  const auto sums = make({MetricType::kPerplexity}, DType::kFloat64);
  sums->add(array_of<double>({2}, {1, 3}).view());
  sums->add(array_of<double>({1}, {5}).view());
  CHECK(sums->value() == Approx(std::exp(3.0)).epsilon(1e-15));
}

TEST_CASE("rows whose label is ignored do not count", "[io]") {
  const Array pairs = array_of<int64_t>({4, 2}, {0, 0, -100, 3, 1, 0, -100, 1});
  CHECK(value_of({.type = MetricType::kAccuracy, .ignored = -100}, pairs) == 0.5);
  CHECK(value_of({.type = MetricType::kTopKAccuracy, .ignored = -100}, pairs) == 0);
}

TEST_CASE("a metric goes on from what another one held", "[io]") {
  const Array classes = class_pairs(), scores = score_pairs();
  for (size_t i = 0; i < plan::EnumNames<MetricType>::words.size(); ++i) {
    const Metric metric{static_cast<MetricType>(i)};
    const bool floats = metric.type == MetricType::kAuc || metric.type == MetricType::kPerplexity;
    const Array& pairs = floats ? scores : classes;
    const auto all = make(metric, pairs.dtype()), begun = make(metric, pairs.dtype()),
               resumed = make(metric, pairs.dtype());
    CHECK(all->is_empty());
    begun->add(rows_of(pairs, 0, 130));
    resumed->resume(begun->held());
    resumed->add(rows_of(pairs, 130, kRows));
    all->add(pairs.view());
    CHECK(std::ranges::equal(resumed->result(1).bytes(), all->result(1).bytes()));
    all->clear();
    CHECK(all->is_empty());
    const std::vector<uint64_t> damaged(7, 9);
    CHECK_THROWS_AS(all->resume(damaged), RequestError);
  }
}

TEST_CASE("what is not a class is refused by name", "[io]") {
  const auto check = [](const Metric& metric, const Array& pairs, const std::string& message) {
    CHECK_THROWS_WITH(value_of(metric, pairs), Catch::Contains("metric `m`: " + message));
  };
  const Array pairs = array_of<int64_t>({1, 2}, {3, 7});
  check({.type = MetricType::kF1, .classes = 3}, pairs,
        "label 3 is not a class; expected at most 2");
  check({.type = MetricType::kF1, .classes = 7}, pairs, "prediction 7 is not a class");
  check({MetricType::kConfusionMatrix}, array_of<int64_t>({1, 2}, {0, 5000}), "prediction 5000");
  check({MetricType::kAccuracy}, array_of<int64_t>({1, 2}, {-1, 0}), "label -1 is not a class");
  check({MetricType::kAuc}, array_of<double>({1, 2}, {2, 0.5}), "label 2 is neither 0 nor 1");
}

}  // namespace
}  // namespace flow::io
