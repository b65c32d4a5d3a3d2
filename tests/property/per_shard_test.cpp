// Random graphs with `per_shard: true`: each shard computes what a job of one shard computes from
// these rows alone.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <regex>

#include "tests/property/random_graph.h"
#include "tests/support/run_job.h"
#include "tests/support/sanitized.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

constexpr int64_t kWholeRows = 16;
constexpr int kOwnNets = 60 / kCasesPerTried;
constexpr const char* kKey = ", per_shard: true";

/// A training job. Shapes of values are those of a shard; `split` has the axis of its rows, and
/// what each shard has for itself is in `own`.
class OwnNet {
 public:
  OwnNet(unsigned seed, int64_t shards)
      : graph_(seed), shards_(shards), rows_(kWholeRows / shards) {
    columns_ = graph_.coin() ? 3 : rows_;
    split_ = {{"x", {rows_, columns_}, 0}};
    split_.push_back(graph_.product(split_[0]));
    own_ = {reduced_by_shard(split_[1])};
    for (int i = 0; i < 12; ++i) grow();
    add_loss(graph_.coin() ? split_.back() : own_.back());
    add_part_of_a_whole();
  }

  /// Gradients are those of the sum of a loss with rows, and of the mean over shards of another.
  double scale_of_gradients() const { return sums_loss_ ? 1 : 1 / static_cast<double>(shards_); }

  /// The job in shards, or for the rows of one of them.
  std::string text(bool in_shards) const {
    const std::string text =
        fmt::format(
            "flow: 1\njobs:\n  train:\n    type: train\n    precision: float64\n    shards: {}\n"
            "    inputs: {{x: {{shape: [{}, {}], dtype: float32}}}}\n    graph:\n",
            in_shards ? shards_ : 1, in_shards ? kWholeRows : rows_, columns_) +
        graph_.text() + tail();
    return in_shards ? text : std::regex_replace(text, std::regex(kKey), "");
  }

 private:
  std::string tail() const {
    std::string hooks;
    for (const GraphValue& value : split_)
      hooks += fmt::format("      - {{watch: {}, to: npy}}\n", value.name);
    for (const GraphValue& value : own_)
      hooks += fmt::format("      - {{watch: {}, type: ListNumpy, to: npy}}\n", value.name);
    return tail_ + hooks;
  }

  void grow() {
    switch (graph_.below(6)) {
      case 0:
        return own_.push_back(own_from(graph_.one_of(split_)));
      case 1:
        return own_.push_back(change_own(graph_.one_of(own_)));
      case 2:
        return split_.push_back(along_rows(graph_.one_of(split_)));
      case 3:
        return split_.push_back(change_split(graph_.one_of(split_)));
      default:
        return join(graph_.one_of(split_), graph_.one_of(own_));
    }
  }

  GraphValue reduced_by_shard(GraphValue value) {
    const int axis = value.rows;
    value.rows = GraphValue::kNoRows;
    return graph_.reduced(value, axis, kKey);
  }

  GraphValue own_from(const GraphValue& value) {
    const int64_t action = graph_.below(3);
    if (action == 0 || value.shape.rank() != 2) return reduced_by_shard(value);
    const int64_t other = value.shape[1 - value.rows];
    if (action == 1) {
      Shape shape = value.shape;
      shape[value.rows] = 1;
      return graph_.add("slice", {value}, shape, GraphValue::kNoRows,
                        fmt::format("index: \"[{}-1:]\"{}", value.rows == 0 ? "" : ":, ", kKey));
    }
    // Every row with every other one, or every column.
    const bool by_rows = graph_.coin();
    const int64_t extent = by_rows ? rows_ : other;
    const bool transposes_b = by_rows == (value.rows == 0);
    return graph_.add("matmul", {value, value}, {extent, extent}, GraphValue::kNoRows,
                      fmt::format("transpose_{}: true{}", transposes_b ? "b" : "a", kKey));
  }

  GraphValue change_own(const GraphValue& value) {
    const int rank = value.shape.rank();
    const int64_t action = rank == 0 ? 0 : graph_.below(4);
    if (action == 1) return graph_.transposed(value);
    if (action == 2) return graph_.reduced(value, static_cast<int>(graph_.below(rank)));
    if (action == 3 && rank > 1) return graph_.product(value);
    return graph_.binary(graph_.unary(value), graph_.variable(value.shape), GraphValue::kNoRows);
  }

  /// From all rows, with rows again.
  GraphValue along_rows(const GraphValue& value) {
    if (graph_.coin())
      return graph_.add(
          "slice", {value}, value.shape, value.rows,
          fmt::format("index: \"[{}::-1]\"{}",
                      std::string(":, :, :, ", 3 * static_cast<size_t>(value.rows)), kKey));
    return graph_.add(graph_.coin() ? "softmax" : "cumsum", {value}, value.shape, value.rows,
                      fmt::format("axis: {}{}", value.rows, kKey));
  }

  GraphValue change_split(const GraphValue& value) {
    const int last = value.shape.rank() - 1;
    if (graph_.coin()) return graph_.transposed(value);
    return value.rows == last ? graph_.unary(value) : graph_.product(value);
  }

  /// What reads own values next to rows has rows.
  void join(const GraphValue& value, const GraphValue& own) {
    const auto shape = broadcast_shape(value.shape, own.shape);
    if (shape && *shape == value.shape) split_.push_back(graph_.binary(value, own, value.rows));
  }

  void add_loss(const GraphValue& value) {
    Shape shape = value.shape;
    if (value.has_rows()) shape[value.rows] = 1;
    const GraphValue weight = graph_.variable(shape);
    // So that the gradient of the weight depends on the rows: a shard has a part of it.
    const GraphValue loss =
        graph_.add("multiply", {graph_.unary(value), weight}, value.shape, value.rows);
    sums_loss_ = value.has_rows();
    tail_ = fmt::format(
        "    optimizer: {{type: sgd, learning_rate: 1, minimize: {}}}\n    hooks:\n"
        "      - {{watch_diff: {}, to: npy}}\n",
        loss.name, weight.name);
  }

  /// What has the key reads the part of its shard of what is combined, alone and next to rows.
  void add_part_of_a_whole() {
    GraphValue x = split_[0];
    x.rows = GraphValue::kNoRows;
    const GraphValue whole = graph_.reduced(x, 0);
    const std::string key = std::string(kKey).substr(2);
    own_.push_back(graph_.add("tanh", {whole}, whole.shape, GraphValue::kNoRows, key));
    split_.push_back(graph_.add("subtract", {split_[0], whole}, split_[0].shape, 0, key));
  }

  RandomGraph graph_;
  const int64_t shards_, rows_;
  int64_t columns_;
  std::vector<GraphValue> split_, own_;
  bool sums_loss_ = true;
  std::string tail_;
};

using Doubles = std::vector<double>;

Doubles doubles_of(std::span<const std::byte> bytes) {
  Doubles values(bytes.size() / sizeof(double));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Found {
  std::vector<std::vector<Doubles>> parts;  // by hook, then by shard
  std::vector<Doubles> variables;           // after the update
};

/// One call; each hook's tensor as every shard made it.
Found call_in_parts(const plan::Job& job, const Arrays& values, int64_t shards) {
  exec::PrepareOptions options;
  for (const plan::Hook& hook : job.hooks) options.deliverables.push_back(hook.tensor);
  options.in_parts.assign(options.deliverables.size(), 1);
  const auto program = cpu::make_backend()->prepare(job, options);
  for (const auto& [name, value] : values)
    if (const plan::TensorId id = tensor(job, name); job[id].role == plan::Role::kVariable)
      program->write_variable(id, value.view());
    else
      std::ranges::copy(value.bytes(), program->input(id, 0).begin());
  const std::vector<uint8_t> wanted(options.deliverables.size(), 1);
  program->launch({0, 1, wanted}, 0, 0);
  Found found;
  for (const plan::TensorId id : options.deliverables) {
    std::vector<Doubles>& parts = found.parts.emplace_back();
    for (int64_t s = 0; s < shards; ++s)
      parts.push_back(doubles_of(program->delivered_part(id, s, 0)));
  }
  for (const plan::Variable& variable : job.variables) {
    Array after(DType::kFloat64, job[variable.tensor].shape);
    program->read_variable(variable.tensor, after.bytes());
    found.variables.push_back(doubles_of(after.bytes()));
  }
  return found;
}

/// The values for a job of the rows of shard s: inputs have rows on their first axis.
Arrays rows_of_shard(const plan::Job& job, const Arrays& values, int64_t s) {
  Arrays part;
  for (const auto& [name, whole] : values) {
    Array& own =
        part.emplace(name, Array(whole.dtype(), job[tensor(job, name)].shape)).first->second;
    const size_t bytes = own.bytes().size();
    const size_t offset = bytes == whole.bytes().size() ? 0 : static_cast<size_t>(s) * bytes;
    std::ranges::copy(whole.bytes().subspan(offset, bytes), own.bytes().begin());
  }
  return part;
}

bool are_close(const Doubles& a, const Doubles& b, double scale) {
  double difference = 0, magnitude = 1;
  for (size_t i = 0; i < a.size() && i < b.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - scale * b[i]));
    magnitude = std::max(magnitude, std::abs(scale * b[i]));
  }
  return a.size() == b.size() && difference < 1e-12 * magnitude;
}

/// Of a variable after an update: the mean gradient moves it as far as the mean of what shards
/// move.
Doubles mean_of(const std::vector<Found>& shards, size_t variable) {
  Doubles mean(shards[0].variables[variable].size());
  for (const Found& shard : shards)
    for (size_t i = 0; i < mean.size(); ++i)
      mean[i] += shard.variables[variable][i] / static_cast<double>(shards.size());
  return mean;
}

}  // namespace

TEST_CASE("with the key, each shard computes what a job of its rows does", "[property]") {
  for (unsigned seed = 1; seed <= kOwnNets; ++seed) {
    const int64_t shards = int64_t{2} << seed % 3;
    const OwnNet net(seed, shards);
    INFO("seed " << seed << "\n" << net.text(true));
    const plan::Plan cut = plan_of(net.text(true)), naive = plan_of(net.text(false));
    const plan::Job &job = cut.jobs[0], &alone = naive.jobs[0];
    REQUIRE(job.hooks.size() == alone.hooks.size());
    REQUIRE(job.variables.size() == alone.variables.size());
    const Arrays values = random_values(job);
    const Found found = call_in_parts(job, values, shards);
    std::vector<Found> expected;
    for (int64_t s = 0; s < shards; ++s)
      expected.push_back(call_in_parts(alone, rows_of_shard(alone, values, s), 1));
    for (size_t i = 0; i < job.hooks.size(); ++i)
      for (size_t s = 0; s < expected.size(); ++s) {
        INFO(job[job.hooks[i].tensor].name << ", shard " << s);
        const double scale = i == 0 ? net.scale_of_gradients() : 1;  // the first is a gradient
        CHECK(are_close(found.parts[i][s], expected[s].parts[i][0], scale));
      }
    for (size_t i = 0; i < job.variables.size(); ++i) {
      INFO(job[job.variables[i].tensor].name);
      CHECK(are_close(found.variables[i], mean_of(expected, i), 1));
    }
  }
}

TEST_CASE("what reads values of a shard and parts of a whole needs the key", "[property]") {
  const auto job = [](const std::string& key) {
    return "flow: 1\njobs:\n  predict:\n    type: predict\n    shards: 4\n"
           "    inputs: {x: {shape: [8, 3], dtype: float32}}\n    graph:\n"
           "      own: {op: reduce_max, in: x, axis: 0, per_shard: true}\n"
           "      mean: {op: reduce_mean, in: x, axis: 0}\n"
           "      apart: {op: subtract, in: [own, mean]" +
           key + "}\n    returns: {type: ListNumpy, value: apart}\n";
  };
  CHECK_THAT(messages_of(job("")),
             Catch::Matchers::Contains("`subtract` reads `own`, which differs between 4 shards"));
  CHECK(messages_of(job(kKey)).empty());
}

}  // namespace flow::test
