// What batch normalization learns and keeps over several steps, against plain loops.
#include <cmath>

#include "runtime/base/error.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

using test::Arrays;
using Numbers = std::vector<double>;

constexpr int kRows = 6, kChannels = 3;

/// A train job and a predict job of the same net: x [6, 3], the loss the mean of y times w.
std::string jobs_with(const std::string& layer) {
  return "flow: 1\nnetworks:\n  net: {inputs: [a], graph: {bn: {op: batch_normalization" + layer +
         "}}}\njobs:\n"
         "  train:\n    type: train\n"
         "    inputs: {x: {shape: [6, 3], dtype: float32}, w: {shape: [6, 3], dtype: float32}}\n"
         "    graph:\n      y: {op: net, in: x}\n      p: {op: multiply, in: [y, w]}\n"
         "      s: {op: dense, units: 1, use_bias: false, in: p}\n"
         "      loss: {op: add, in: [p, s]}\n"
         "    optimizer: {type: sgd, learning_rate: 0.5, minimize: loss}\n"
         "    returns: {value: [y, y/bn/moving_mean]}\n    run: {steps: 1}\n"
         "  predict:\n    type: predict\n"
         "    inputs: {x: {shape: [6, 3], dtype: float32}}\n"
         "    graph: {y: {op: net, in: x}}\n    returns: {value: y}\n";
}

Array random(const Shape& shape, uint64_t seed) {
  Array array(DType::kFloat32, shape);
  uint64_t state = seed * 977 + 11;
  for (float& value : array.as<float>()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(state >> 40) * 0x1p-23f - 1;
  }
  return array;
}

Array filled(float value) {
  Array array(DType::kFloat32, {kChannels});
  std::ranges::fill(array.as<float>(), value);
  return array;
}

Numbers numbers(const Array& array) {
  const auto values = array.as<float>();
  return {values.begin(), values.end()};
}

void require_near(const Array& got, const Numbers& expected) {
  REQUIRE(got.as<float>().size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    CHECK(static_cast<double>(got.as<float>()[i]) == Approx(expected[i]).margin(2e-6));
}

/// The layer's state and what a step of it makes, by plain loops.
struct Model {
  double momentum = 0.99, epsilon = 1e-3;
  Numbers gamma = Numbers(kChannels, 1), beta = Numbers(kChannels, 0);
  Numbers moving_mean = Numbers(kChannels, 0), moving_variance = Numbers(kChannels, 1);
  Numbers y = Numbers(kRows * kChannels, 0), mean = Numbers(kChannels), variance = mean;

  void normalize(const Numbers& x, const Numbers& by_mean, const Numbers& by_variance) {
    for (int i = 0; i < kRows * kChannels; ++i) {
      const auto c = static_cast<size_t>(i % kChannels), at = static_cast<size_t>(i);
      y[at] = (x[at] - by_mean[c]) / std::sqrt(by_variance[c] + epsilon) * gamma[c] + beta[c];
    }
  }
  void train(const Numbers& x) {
    for (size_t c = 0; c < kChannels; ++c) {
      mean[c] = variance[c] = 0;
      for (size_t row = 0; row < kRows; ++row) mean[c] += x[row * kChannels + c] / kRows;
      for (size_t row = 0; row < kRows; ++row)
        variance[c] += std::pow(x[row * kChannels + c] - mean[c], 2) / kRows;
    }
    normalize(x, mean, variance);
  }
  void move() {
    for (size_t c = 0; c < kChannels; ++c) {
      const double unbiased = variance[c] * kRows / (kRows - 1);
      moving_mean[c] = momentum * moving_mean[c] + (1 - momentum) * mean[c];
      moving_variance[c] = momentum * moving_variance[c] + (1 - momentum) * unbiased;
    }
  }
  /// Plain descent on the mean of (y w)(1 + s): dy = w v / n.
  void learn(const Numbers& x, const Numbers& dy, double rate) {
    for (int i = 0; i < kRows * kChannels; ++i) {
      const auto c = static_cast<size_t>(i % kChannels), at = static_cast<size_t>(i);
      gamma[c] -= rate * dy[at] * (x[at] - mean[c]) / std::sqrt(variance[c] + epsilon);
      beta[c] -= rate * dy[at];
    }
  }
};

/// `steps` steps, each on new inputs; after each the variables are carried over. A dense weight of
/// zeros leaves the gradient of y as w over the number of elements.
template <typename Check>
void train(const plan::Job& job, int steps, Check check) {
  Arrays values;
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    const bool ones = std::holds_alternative<plan::initializers::Ones>(variable.initializer);
    if (tensor.shape == Shape{kChannels}) values.emplace(tensor.name, filled(ones ? 1 : 0));
  }
  for (int step = 0; step < steps; ++step) {
    values.insert_or_assign("x", random({kRows, kChannels}, static_cast<uint64_t>(step)));
    values.insert_or_assign("w", random({kRows, kChannels}, static_cast<uint64_t>(50 + step)));
    values.insert_or_assign("s/weight", Array(DType::kFloat32, {1, kChannels}));
    std::vector<std::string> wanted = {"y/bn/normalize"};
    for (const plan::Variable& variable : job.variables)
      wanted.push_back(job[variable.tensor].name);
    const Arrays results = test::run(job, values, wanted, {1, {}, 1, 0.5});
    check(values, results);
    for (const plan::Variable& variable : job.variables) {
      const std::string& name = job[variable.tensor].name;
      values.insert_or_assign(name, Array(results.at(name)));
    }
  }
}

/// dy of the mean of p + s, where s is p times zeros.
Numbers gradient(const Numbers& w) {
  Numbers dy = w;
  for (double& g : dy) g /= kRows * kChannels;
  return dy;
}

TEST_CASE("batch normalization trains on batches and keeps moving statistics", "[job]") {
  const plan::Plan plan = plan_of(jobs_with(", momentum: 0.75, epsilon: 0.01"));
  Model model{.momentum = 0.75, .epsilon = 0.01};
  train(plan.jobs[0], 4, [&](const Arrays& values, const Arrays& results) {
    const Numbers x = numbers(values.at("x"));
    model.train(x);
    require_near(results.at("y/bn/normalize"), model.y);
    model.move();
    model.learn(x, gradient(numbers(values.at("w"))), 0.5);
    require_near(results.at("y/bn/moving_mean"), model.moving_mean);
    require_near(results.at("y/bn/moving_variance"), model.moving_variance);
    require_near(results.at("y/bn/gamma"), model.gamma);
    require_near(results.at("y/bn/beta"), model.beta);
  });
}

TEST_CASE("frozen batch normalization normalizes by the batch and moves nothing", "[job]") {
  const plan::Plan plan = plan_of(jobs_with(", trainable: false"));
  CHECK_FALSE(has_step(plan.jobs[0], "y/bn/moving_mean:update"));
  Model model;
  train(plan.jobs[0], 2, [&](const Arrays& values, const Arrays& results) {
    model.train(numbers(values.at("x")));
    require_near(results.at("y/bn/normalize"), model.y);
    for (const char* name : {"gamma", "beta", "moving_mean", "moving_variance"})
      CHECK(numbers(results.at(std::string("y/bn/") + name)) ==
            numbers(values.at(std::string("y/bn/") + name)));
  });
}

TEST_CASE("predict jobs normalize by the moving statistics, which are variables like others",
          "[job]") {
  const plan::Plan plan = plan_of(jobs_with(""));
  const plan::Job& job = plan.jobs[1];
  Model model;
  model.moving_mean = {0.5, -1, 2};
  model.moving_variance = {4, 0.25, 1};
  model.gamma = {1, 2, 3};
  model.beta = {0, 1, -1};
  Arrays values;
  const auto set = [&](const char* name, const Numbers& from) {
    Array array(DType::kFloat32, {kChannels});
    std::ranges::transform(from, array.as<float>().begin(),
                           [](double number) { return static_cast<float>(number); });
    values.emplace(std::string("y/bn/") + name, std::move(array));
    CHECK_FALSE(variable(job, std::string("y/bn/") + name).slot);
  };
  set("gamma", model.gamma);
  set("beta", model.beta);
  set("moving_mean", model.moving_mean);
  set("moving_variance", model.moving_variance);
  values.emplace("x", random({kRows, kChannels}, 9));
  model.normalize(numbers(values.at("x")), model.moving_mean, model.moving_variance);
  const Arrays results = test::run(job, values, {"y/bn/normalize"});
  require_near(results.at("y/bn/normalize"), model.y);
  CHECK(job.steps.size() == 1);
}

TEST_CASE("the optimizer leaves moving statistics alone, and rows are mixed in train jobs alone",
          "[job]") {
  const plan::Plan plan = plan_of(jobs_with(""));
  CHECK(variable(plan.jobs[0], "y/bn/gamma").trainable);
  CHECK_FALSE(variable(plan.jobs[0], "y/bn/moving_mean").trainable);
  CHECK(find_tensor(plan.jobs[0], "y/bn/normalize")->batch_axis == plan::kBatchReduced);
  CHECK(find_tensor(plan.jobs[1], "y/bn/normalize")->batch_axis == 0);
}

TEST_CASE("what reads moving statistics in a train job reads them before the step's move",
          "[job]") {
  std::string text = jobs_with("");
  const std::string old = "      p: {op: multiply, in: [y, w]}\n";
  text.replace(text.find(old), old.size(),
               "      q: {op: add, in: [w, y/bn/moving_mean]}\n"
               "      p: {op: multiply, in: [y, q]}\n");
  const plan::Plan plan = plan_of(text);
  CHECK(plan.jobs[0].steps.back().op == "move_statistics");
  train(plan.jobs[0], 1, [&](const Arrays& values, const Arrays& results) {
    CHECK(numbers(results.at("y/bn/moving_mean")) != numbers(values.at("y/bn/moving_mean")));
  });
}

TEST_CASE("a plan moves the statistics of layers and nothing else, once", "[job]") {
  const plan::Plan good = plan_of(jobs_with(""));
  const auto refusal = [&](auto corrupt) -> std::string {
    plan::Plan plan = good;
    plan::Job& job = plan.jobs[0];
    const plan::Step& move = job.steps.back();
    corrupt(job, job.tensors[move.outputs[0].index()]);
    try {
      plan::check(plan, "a.plan");
      return {};
    } catch (const RequestError& error) {
      return error.what();
    }
  };
  const auto id_of = [](const plan::Job& job, const char* name) {
    return plan::TensorId(static_cast<size_t>(find_tensor(job, name) - job.tensors.data()));
  };
  CHECK(refusal([](plan::Job&, plan::Tensor&) {}).empty());
  CHECK_THAT(
      refusal([&](plan::Job& job, plan::Tensor& moved) { moved.alias = id_of(job, "y/bn/gamma"); }),
      Catch::Matchers::Contains("must be in place"));
  CHECK_THAT(refusal([&](plan::Job& job, plan::Tensor& moved) {
               moved.alias = id_of(job, "y/bn/moving_variance");
             }),
             Catch::Matchers::Contains("must be in place"));
  CHECK_THAT(refusal([&](plan::Job& job, plan::Tensor&) {
               job.steps.back().inputs[3] = id_of(job, "y/bn/beta");
             }),
             Catch::Matchers::Contains("y/bn/beta"));
}

TEST_CASE("batch normalization goes without gamma and beta", "[job]") {
  const plan::Plan plan = plan_of(jobs_with(", scale: false, center: false"));
  Model model;
  model.momentum = 0.99;
  train(plan.jobs[0], 1, [&](const Arrays& values, const Arrays& results) {
    model.train(numbers(values.at("x")));
    require_near(results.at("y/bn/normalize"), model.y);
    CHECK_FALSE(results.contains("y/bn/gamma"));
    CHECK_FALSE(results.contains("y/bn/beta"));
  });
}

TEST_CASE("a rectifier behind batch normalization is fused onto it, in place where that may be",
          "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: predict\n"
      "    inputs: {x: {shape: [2, 3, 5, 4], dtype: float32}}\n"
      "    graph:\n      c: {op: conv2d, filters: 6, kernel_size: 3, in: x}\n"
      "      b: {op: batch_normalization}\n      r: {op: relu}\n"
      "    returns: {value: r}\n    hooks: [{watch: b, every: 2}]\n");
  const plan::Job& job = plan.jobs[0];
  const plan::Step& step = job.steps.back();
  CHECK(step.op == "batch_norm_predict");
  REQUIRE(step.epilogue.size() == 1);
  CHECK(job[step.outputs[0]].alias == step.inputs[0]);
  Arrays values = test::random_values(job);
  for (float& variance : values.at("b/moving_variance").as<float>()) variance += 1.5f;
  const Arrays fast = test::run(job, values, {"r", "b/normalize"}, {2, {}});
  const Arrays slow = test::run(job, values, {"r", "b/normalize"}, {1, cpu::reference_kernels()});
  for (const char* name : {"r", "b/normalize"})
    CHECK(test::relative_difference(fast.at(name), slow.at(name)) < 1e-5);
  CHECK(numbers(fast.at("r")) != numbers(fast.at("b/normalize")));
}

TEST_CASE("gradients of rectified batch normalization need no pass of the rectifier's own",
          "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: train\n    precision: float64\n"
      "    inputs: {x: {shape: [4, 3, 6, 5], dtype: float32}}\n"
      "    graph:\n      c: {op: conv2d, filters: 6, kernel_size: 3, padding: same, in: x}\n"
      "      b: {op: batch_normalization}\n      r: {op: relu}\n"
      "      d: {op: conv2d, filters: 2, kernel_size: 3}\n"
      "    optimizer: {type: sgd, learning_rate: 0.5, minimize: d}\n"
      "    returns: {value: d}\n    run: {steps: 1}\n");
  const plan::Job& job = plan.jobs[0];
  CHECK(std::ranges::none_of(job.steps,
                             [](const plan::Step& step) { return step.op == "relu_grad"; }));
  constexpr double kStep = 1e-5, kRate = 0.5;
  const std::string loss = job[job.optimizer->loss].name;
  Arrays values = test::random_values(job);
  const auto loss_of = [&] { return test::run(job, values, {loss}).at(loss).as<double>()[0]; };
  for (const char* name : {"c/weight", "b/gamma", "b/beta"}) {
    const Array updated = test::run(job, values, {name}, {1, {}, 1, kRate}).at(name);
    for (size_t i = 0; i < updated.as<double>().size(); i += 5) {
      double& moved = values.at(name).as<double>()[i];
      const double at = moved, gradient = (at - updated.as<double>()[i]) / kRate;
      moved = at + kStep;
      const double above = loss_of();
      moved = at - kStep;
      const double below = loss_of();
      moved = at;
      INFO(name << "[" << i << "]");
      CHECK(gradient == Approx((above - below) / (2 * kStep)).margin(1e-7));
    }
  }
}

TEST_CASE("group normalization is that of each image's groups", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: predict\n"
      "    inputs: {x: {shape: [2, 4, 3], dtype: float32}}\n"
      "    graph: {y: {op: group_norm, groups: 2, in: x}}\n    returns: {value: y}\n");
  const plan::Job& job = plan.jobs[0];
  CHECK(find_tensor(job, "y/normalize")->batch_axis == 0);
  Arrays values;
  values.emplace("x", random({2, 4, 3}, 3));
  values.emplace("y/gamma", random({4}, 4));
  values.emplace("y/beta", random({4}, 5));
  const Numbers x = numbers(values.at("x")), gamma = numbers(values.at("y/gamma")),
                beta = numbers(values.at("y/beta"));
  Numbers expected;
  for (size_t group = 0; group < 4; ++group) {
    double mean = 0, variance = 0;
    for (size_t i = 6 * group; i < 6 * group + 6; ++i) mean += x[i] / 6;
    for (size_t i = 6 * group; i < 6 * group + 6; ++i) variance += std::pow(x[i] - mean, 2) / 6;
    for (size_t i = 6 * group; i < 6 * group + 6; ++i)
      expected.push_back((x[i] - mean) / std::sqrt(variance + 1e-5) * gamma[i / 3 % 4] +
                         beta[i / 3 % 4]);
  }
  require_near(test::run(job, values, {"y/normalize"}).at("y/normalize"), expected);
}

}  // namespace
}  // namespace flow
