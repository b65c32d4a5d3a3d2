// Random graphs in which rows of the batch meet what all shards share, and that has a slice for
// each row: shards compute what one shard does.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "tests/property/random_graph.h"
#include "tests/support/run_job.h"
#include "tests/support/sanitized.h"
#include "tests/support/shard_jobs.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

constexpr int64_t kBatchRows = 8;
constexpr int kSlicedNets = 60 / kCasesPerTried;

/// A training job. Columns may be as many as rows, so that only the axis tells slices from others.
class SlicedNet {
 public:
  explicit SlicedNet(unsigned seed) : graph_(seed), columns_(graph_.coin() ? 3 : kBatchRows) {
    split_ = {{"x", {kBatchRows, columns_}, 0}, {"z", {kBatchRows, 2, columns_}, 0}};
    shared_ = {{"t", {kBatchRows, columns_}}, {"u", {kBatchRows}}};
    for (int i = 0; i < 12; ++i) grow();
    const GraphValue last = split_.back();
    const GraphValue weight = graph_.variable(last.shape);
    const GraphValue loss = graph_.binary(graph_.unary(last), weight, last.rows);
    tail_ = fmt::format(
        "    optimizer: {{type: sgd, learning_rate: 1, minimize: {}}}\n    hooks:\n"
        "      - {{watch_diff: {}, to: npy}}\n",
        loss.name, weight.name);
    for (const auto* values : {&split_, &shared_})
      for (const GraphValue& value : *values)
        tail_ += fmt::format("      - {{watch: {}, to: npy}}\n", value.name);
  }

  std::string text(int64_t shards) const {
    return fmt::format(
               "flow: 1\njobs:\n  train:\n    type: train\n    precision: float64\n"
               "    shards: {0}\n    inputs:\n      x: {{shape: [{1}, {2}], dtype: float32}}\n"
               "      z: {{shape: [{1}, 2, {2}], dtype: float32}}\n"
               "      t: {{shape: [{1}, {2}], dtype: float32, rows: false}}\n"
               "      u: {{shape: [{1}], dtype: float32, rows: false}}\n    graph:\n",
               shards, kBatchRows, columns_) +
           graph_.text() + tail_;
  }

 private:
  void grow() {
    const int64_t action = graph_.below(4);
    if (action == 0)
      shared_.push_back(change_shared(graph_.one_of(shared_)));
    else if (action == 1)
      split_.push_back(change_split(graph_.one_of(split_)));
    else
      split_.push_back(join(graph_.one_of(split_)));
  }

  GraphValue change_shared(const GraphValue& value) {
    const int axis = static_cast<int>(graph_.below(std::max(value.shape.rank(), 1)));
    const bool has_axis = axis < value.shape.rank();
    const int64_t action = has_axis ? graph_.below(4) : 0;
    if (action == 1) return graph_.transposed(value);
    if (action == 2) return graph_.reduced(value, axis);
    if (action == 3) return along(value, axis);
    return graph_.unary(value);
  }

  GraphValue along(const GraphValue& value, int axis) {
    return graph_.add(graph_.coin() ? "softmax" : "cumsum", {value}, value.shape, value.rows,
                      fmt::format("axis: {}", axis));
  }

  GraphValue change_split(const GraphValue& value) {
    const int axis = static_cast<int>(graph_.below(value.shape.rank()));
    const int64_t action = axis == value.rows ? graph_.below(2) : graph_.below(4);
    if (action == 0) return graph_.unary(value);
    if (action == 1) return graph_.transposed(value);
    return action == 2 ? graph_.reduced(value, axis) : along(value, axis);
  }

  /// What has rows, with something that all shards share.
  GraphValue join(const GraphValue& value) {
    const int64_t action = graph_.below(5);
    const int last = value.shape.rank() - 1;
    if (action == 0 && value.rows != last) return graph_.product(value);
    if (action == 1 && value.rows != last) return extended(value, last);
    const GraphValue other = shared_for(value);
    const Shape shape = *broadcast_shape(value.shape, other.shape);
    const int rows = value.rows + shape.rank() - value.shape.rank();
    if (action > 2) return graph_.binary(value, other, rows);
    const GraphValue zero{"0", {}};
    const GraphValue positive =
        graph_.add("greater", {other, zero}, other.shape, GraphValue::kNoRows);
    return graph_.add("where", {positive, value, other}, shape, rows);
  }

  /// With more columns, which are those of a variable.
  GraphValue extended(const GraphValue& value, int axis) {
    Shape shape = value.shape;
    shape[axis] = 1 + graph_.below(3);
    const GraphValue more = graph_.variable(shape);
    shape[axis] += value.shape[axis];
    return graph_.add("concat", {value, more}, shape, value.rows, fmt::format("axis: {}", axis));
  }

  /// One that is there, where it fits and leaves the rows as they are; else a new variable.
  GraphValue shared_for(const GraphValue& value) {
    const GraphValue found = graph_.one_of(shared_);
    const auto shape = broadcast_shape(value.shape, found.shape);
    if (shape && shape->elements() < 1000) return found;
    shared_.push_back(graph_.variable(random_part(value)));
    return shared_.back();
  }

  /// A shape that broadcasts to the value's, or has one axis more.
  Shape random_part(const GraphValue& value) {
    std::vector<int64_t> extents(value.shape.begin(), value.shape.end());
    for (size_t i = 0; i < extents.size(); ++i)
      if (graph_.below(static_cast<int>(i) == value.rows ? 6 : 2) == 0) extents[i] = 1;
    if (graph_.below(6) == 0) extents.insert(extents.begin(), 2);
    while (!extents.empty() && extents.front() == 1 && graph_.coin())
      extents.erase(extents.begin());
    return Shape(extents);
  }

  RandomGraph graph_;
  const int64_t columns_;
  std::vector<GraphValue> split_, shared_;
  std::string tail_;
};

/// With the numbers of rows, where shards read slices by them.
Arrays with_row_numbers(const plan::Job& job, Arrays values) {
  constexpr const char* kName = "batch:rows";
  if (!find_tensor(job, kName)) return values;
  Array numbers(DType::kInt32, {kBatchRows});
  std::iota(numbers.as<int32_t>().begin(), numbers.as<int32_t>().end(), 0);
  values.insert_or_assign(kName, std::move(numbers));
  return values;
}

/// Relative to the greatest magnitude, or to 1.
double largest_difference(const Array& a, const Array& b) {
  REQUIRE(a.shape() == b.shape());
  double difference = 0, magnitude = 1;
  const auto x = a.as<double>(), y = b.as<double>();
  for (size_t i = 0; i < x.size(); ++i) {
    difference = std::max(difference, std::abs(x[i] - y[i]));
    magnitude = std::max(magnitude, std::abs(y[i]));
  }
  return difference / magnitude;
}

std::ptrdiff_t tensors_with(const plan::Job& job, const char* part) {
  return std::ranges::count_if(job.tensors, [&](const plan::Tensor& tensor) {
    return tensor.name.find(part) != tensor.name.npos;
  });
}

}  // namespace

TEST_CASE("next to rows, shards read slices of what they share as one shard does", "[property]") {
  std::ptrdiff_t slices = 0, remade = 0;
  for (unsigned seed = 1; seed <= kSlicedNets; ++seed) {
    const SlicedNet net(seed);
    INFO("seed " << seed << "\n" << net.text(1));
    const plan::Plan alone = plan_of(net.text(1));
    const Arrays values = random_values(alone.jobs[0]);
    const std::vector<std::string> wanted = tensors_to_compare(alone.jobs[0]);
    const Arrays expected = run(alone.jobs[0], values, wanted, {.calls = 2});
    for (const int64_t shards : {2, 4, 8}) {
      INFO(shards << " shards");
      const plan::Plan cut = plan_of(net.text(shards));
      const plan::Job& job = cut.jobs[0];
      const std::vector<std::string> names = tensors_to_compare(job);
      REQUIRE(names.size() == wanted.size());
      const Arrays found = run(job, with_row_numbers(job, values), names, {.calls = 2});
      for (size_t i = 0; i < names.size(); ++i) {
        INFO(names[i]);
        CHECK(largest_difference(found.at(names[i]), expected.at(wanted[i])) < 1e-12);
      }
      slices += tensors_with(job, ":rows");
      remade += tensors_with(job, ":shard0");
    }
  }
  CHECK(slices > 3 * kSlicedNets);
  CHECK(remade > kSlicedNets / 2);
}

}  // namespace flow::test
