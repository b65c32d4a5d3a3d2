// Mixed jobs on the CPU: products of bfloat16, and all that computes in it, against the reference,
// which computes in float64 from operands rounded alike; and the same bits for any number of
// threads.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

#include "ops/core/spec.h"
#include "runtime/cpu/loops/vectors.h"
#include "tests/property/tolerance.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

/// A train job of `graph`, whose last entry `y` is returned and whose loss is the mean of its
/// square.
plan::Job mixed_job(const std::string& shape, const std::string& graph) {
  const std::string text =
      "flow: 1\njobs:\n  j:\n    type: train\n    precision: mixed_bfloat16\n    inputs:\n      x: "
      "{shape: " +
      shape + ", dtype: float32}\n    graph:\n" + graph +
      "      square: {op: square, in: y}\n      loss: {op: reduce_mean}\n"
      "    optimizer: {type: sgd, learning_rate: 1, minimize: loss}\n"
      "    returns: {type: Numpy, value: y}\n";
  return plan_of(text).jobs.front();
}

struct Net {
  std::string shape, graph;
};

const std::vector<Net>& nets() {
  static const std::vector<Net> kNets = {
      {"[37, 33]",
       "      h: {op: dense, units: 17, activation: relu, in: x}\n      y: {op: dense, units: "
       "10}\n"},
      {"[128, 2500]",
       "      h: {op: dense, units: 300, activation: relu, in: x}\n      y: {op: dense, units: 5, "
       "use_bias: false}\n"},
      {"[3, 5, 16]",
       "      h: {op: dense, units: 8, in: x}\n      t: {op: transpose, perm: [0, 2, 1], in: h}\n"
       "      y: {op: matmul, in: [h, t]}\n"},
      {"[23, 1, 12, 12]",
       "      a: {op: conv2d, filters: 8, kernel_size: 5, padding: same, activation: relu, in: x}\n"
       "      b: {op: max_pool2d, ksize: 2}\n      c: {op: conv2d, filters: 6, kernel_size: 3, "
       "activation: relu}\n      d: {op: max_pool2d, ksize: 2}\n      e: {op: flatten}\n      y: "
       "{op: dense, units: 10}\n"},
      {"[4, 3, 9, 11]",
       "      a: {op: conv2d, filters: 5, kernel_size: [3, 2], in: x}\n      b: {op: conv2d, "
       "filters: "
       "7, kernel_size: 3, strides: 2, padding: same}\n      y: {op: conv2d, filters: 4, "
       "kernel_size: 1}\n"},
      {"[2, 1, 14, 13]",
       "      a: {op: conv2d, filters: 5, kernel_size: 3, dilation_rate: 2, padding: same, in: x}\n"
       "      b: {op: conv2d, filters: 6, kernel_size: 3, dilation_rate: [1, 2], activation: "
       "relu}\n"
       "      c: {op: max_pool2d, ksize: 3, strides: 2}\n      y: {op: conv2d_transpose, filters: "
       "2, kernel_size: 3, padding: same}\n"},
  };
  return kNets;
}

/// What the job returns, and its variables after the update.
std::vector<std::string> wanted_of(const plan::Job& job) {
  std::vector<std::string> names{job[job.returns->value.tensor].name};
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

}  // namespace

TEST_CASE("mixed jobs compute what the reference computes of rounded operands",
          "[cpu][low_precision]") {
  for (const Net& net : nets()) {
    INFO(net.shape << "\n" << net.graph);
    const plan::Job job = mixed_job(net.shape, net.graph);
    const Arrays values = random_values(job);
    const std::vector<std::string> names = wanted_of(job);
    const Arrays fast = run(job, values, names);
    const Arrays reference = run(job, values, names, {1, cpu::reference_kernels()});
    for (const std::string& name : names) {
      INFO(name);
      // Where sums differ in the last bit of float32, a few are rounded the other way.
      CHECK(relative_difference(fast.at(name), reference.at(name)) < 4e-3);
    }
  }
}

TEST_CASE("mixed jobs give the same bits on any number of threads", "[cpu][low_precision]") {
  for (const Net& net : nets()) {
    INFO(net.shape << "\n" << net.graph);
    const plan::Job job = mixed_job(net.shape, net.graph);
    const Arrays values = random_values(job);
    const std::vector<std::string> names = wanted_of(job);
    const Arrays alone = run(job, values, names, {.threads = 1, .kernels = {}, .calls = 2});
    for (const int threads : {2, 3, 4, 8}) {
      INFO(threads << " threads");
      CHECK(same_bits(alone,
                      run(job, values, names, {.threads = threads, .kernels = {}, .calls = 2})));
    }
  }
}

TEST_CASE("the products of a mixed job read 16 bits, each value rounded once",
          "[cpu][low_precision]") {
  const plan::Job job = mixed_job(nets()[3].shape, nets()[3].graph);
  for (const plan::Step& step : job.steps) {
    INFO(step.name);
    if (step.op == "matmul" || step.op.name().starts_with("convolution"))
      for (const plan::TensorId id : step.inputs) CHECK(job[id].dtype == DType::kBFloat16);
  }
  // The images, three weights, the loss's gradient: all else is rounded where it is made.
  CHECK(std::ranges::count(job.steps, "cast", &plan::Step::op) == 5);
  for (const std::string name : {"b", "d", "e"}) {
    INFO(name);
    CHECK(find_tensor(job, name) == nullptr);
    REQUIRE(find_tensor(job, name + ":bfloat16") != nullptr);
  }
  CHECK(find_tensor(job, "a/weight")->dtype == DType::kFloat32);
  CHECK(find_tensor(job, "a/weight:update")->dtype == DType::kFloat32);
}

TEST_CASE("updates leave variables and slots as they are where the factor is NaN", "[cpu]") {
  const Array nan = array_of<float>({}, {std::numeric_limits<float>::quiet_NaN()});
  for (const cpu::KernelEntry& entry : cpu::fast_kernels()) {
    const std::string op(entry.op);
    if (!op.ends_with("_update")) continue;
    const std::vector<ops::OperandSpec>& operands = ops::find_spec(op)->operands;
    if (!operands.back().optional) continue;
    INFO(op);
    Random random(3);
    KernelCase one = random_case(op, random);
    const size_t moved = one.results.size();
    one.inputs.resize(operands.size() - 1);
    one.inputs.push_back(nan);
    for (const bool in_place : {true, false}) {
      for (Result& result : one.results)
        if (!in_place) result.alias = -1;
      for (const auto kernels : {cpu::fast_kernels(), cpu::reference_kernels()}) {
        const KernelRun done = run_kernel(one, {kernels});
        for (size_t i = 0; i < moved; ++i) CHECK(same_bits(done.outputs[i], one.inputs[1 + i]));
      }
    }
  }
}

TEST_CASE("rounding of rows is that of single numbers", "[cpu][low_precision]") {
  std::vector<float> numbers = {0,      -0.0f,   1,         1.00390625f, 1.01171875f,    -3.14159f,
                                1e-40f, 3.4e38f, kInfinity, -kInfinity,  std::nanf("1"), 65536.5f};
  for (uint32_t i = 0; i < 1000; ++i) numbers.push_back(bits_as<float>(i * 4294949u));
  const auto n = static_cast<int64_t>(numbers.size());
  std::vector<uint16_t> rounded(numbers.size());
  std::vector<float> widened(numbers.size());
  cpu::round_to_bfloat16(numbers.data(), rounded.data(), n);
  cpu::widen_bfloat16(rounded.data(), widened.data(), n);
  for (size_t i = 0; i < numbers.size(); ++i) {
    CHECK(rounded[i] == float_to_bfloat16(numbers[i]));
    CHECK(bits_as<uint32_t>(widened[i]) == bits_as<uint32_t>(bfloat16_to_float(rounded[i])));
  }
}

}  // namespace flow::test
