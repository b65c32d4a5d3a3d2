// Recurrent layers by the library: what it is asked, what it computes, and what it refuses.
#include "runtime/cuda/program/passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <optional>

#include "compiler/compile.h"
#include "ops/core/known.h"
#include "ops/recurrent/cuda_library.h"
#include "runtime/base/error.h"
#include "runtime/cuda/program/backend.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {
namespace {

using cuda::RecurrentSpec;

constexpr int64_t kJobRows = 4;

/// Notes what it is asked but for trials, and may lack a pass, or fail when it runs.
class AskedLayers : public cuda::NaiveLibraries {
 public:
  AskedLayers(cuda::Driver& driver, std::optional<RecurrentSpec::Pass> lacks)
      : NaiveLibraries(driver), lacks_(lacks) {}
  using NaiveLibraries::find;
  Expected<cuda::RecurrentKernel> find(const RecurrentSpec& spec) override {
    if (spec.rows == kJobRows) asked.push_back(spec);
    if (spec.pass == lacks_) return RunError("no such layer");
    cuda::RecurrentKernel kernel = NaiveLibraries::find(spec).value();
    kernel.workspace = workspace;
    kernel.try_run = [this, run = kernel.try_run](const cuda::RecurrentBuffers& buffers,
                                                  cuda::Stream stream) -> std::optional<RunError> {
      if (runs++ == failing_run) return RunError("it does not run");
      return run(buffers, stream);
    };
    return kernel;
  }

  std::vector<RecurrentSpec> asked;
  int runs = 0, failing_run = -1;
  size_t workspace = 0;

 private:
  std::optional<RecurrentSpec::Pass> lacks_;
};

/// A job that trains `layers`, entries of a graph from x (4, 5, 6) to a sequence, with SGD.
plan::Job training(const std::string& layers, const std::string& more = {}) {
  CompileRequest request;
  request.file = "job.yaml";
  request.target.device = plan::DeviceKind::kGpu;
  const CompileResult result = compile_text(request, fmt::format(R"(flow: 1
jobs:
  train:
    type: train
{}    inputs:
      x: {{shape: [4, 5, 6], dtype: float32, from: {{type: random_normal}}}}
      lengths: {{shape: [4], dtype: int32, from: {{type: random_int, low: 1, high: 5}}}}
    graph:
{}      y: {{op: dense, units: 2}}
      loss: {{op: square}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
    returns: {{value: loss}}
    run: {{steps: 3}}
)",
                                                                 more, layers));
  INFO(result.messages);
  REQUIRE(result.plan);
  return result.plan->jobs.front();
}

struct LoweredLayers {
  plan::Job job;
  std::vector<RecurrentSpec> asked;
};

LoweredLayers lower_layers(const plan::Job& job, std::optional<RecurrentSpec::Pass> lacks = {},
                           const std::vector<std::string>& visible = {},
                           std::vector<size_t> parts = {}) {
  FakeDriver driver;
  AskedLayers libraries(driver, lacks);
  const plan::Job expanded = cuda::lower_epilogues(job);
  parts.resize(expanded.steps.size());
  std::vector<plan::TensorId> seen;
  for (const std::string& name : visible) seen.push_back(tensor(expanded, name));
  plan::Job made = cuda::lower_recurrent(expanded, parts, seen, 1000, libraries, driver);
  CHECK(driver.problems().empty());
  return {std::move(made), libraries.asked};
}

const plan::Step& step_called(const plan::Job& job, const std::string& name) {
  const auto found = std::ranges::find(job.steps, name, &plan::Step::name);
  INFO(name);
  REQUIRE(found != job.steps.end());
  return *found;
}

std::string refusal_of(const plan::Step& step) {
  return step.attributes.has("refusal") ? step.attributes.get<std::string>("refusal") : "";
}

/// The refusal of layer `l`, which must keep its steps. A training step says the same.
std::string layer_refusal(const LoweredLayers& lowered) {
  const plan::Step& step = step_called(lowered.job, "l/steps_l0");
  CHECK_FALSE(cuda::is_library_layer(step));
  for (const plan::Step& other : lowered.job.steps)
    if (other.op.name().ends_with("_steps_grad")) CHECK(refusal_of(other) == refusal_of(step));
  return refusal_of(step);
}

int64_t count_op(const plan::Job& job, const std::string& op) {
  return std::ranges::count(job.steps, op, &plan::Step::op);
}

std::vector<std::string> variable_names(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

/// Ten updates with the library on a fake GPU, and with the CPU's own steps.
void require_same_training(const plan::Job& job, std::vector<std::string> wanted = {}) {
  for (const std::string& name : variable_names(job)) wanted.push_back(name);
  const Arrays values = random_values(job);
  FakeGpu gpu;
  const Arrays got =
      run(job, values, wanted, {.calls = 10, .learning_rate = 0.05, .backend = gpu.backend.get()});
  const Arrays expected = run(job, values, wanted, {.calls = 10, .learning_rate = 0.05});
  for (const std::string& name : wanted) {
    INFO(name);
    CHECK(relative_difference(got.at(name), expected.at(name)) < 2e-5);
  }
  CHECK(gpu.driver->count("captured launch naive_recurrent_grad") >= 2);  // one is a trial
  gpu.backend.reset();
}

constexpr const char* kLstm = "      l: {op: lstm, in: x, units: 3}\n";
constexpr const char* kGru = "      l: {op: gru, in: x, units: 3}\n";

}  // namespace

TEST_CASE("the library computes a recurrent layer and its gradients in a step each", "[cuda]") {
  const auto [job, asked] = lower_layers(training(kLstm));
  REQUIRE(asked.size() == 2);
  for (const RecurrentSpec& spec : asked) {
    CHECK(spec.cell == RecurrentSpec::Cell::kLstm);
    CHECK(spec.dtype == DType::kFloat32);
    CHECK(spec.rows == kJobRows);
    CHECK(spec.steps == 5);
    CHECK(spec.features == 6);
    CHECK(spec.units == 3);
    CHECK(spec.input_bias);
    CHECK_FALSE(spec.recurrent_bias);
    CHECK(spec.trains);
    CHECK(spec.most_workspace == 1000);
    CHECK_FALSE(spec.math_mode.tf32);
  }
  CHECK(asked[0].pass == RecurrentSpec::Pass::kForward);
  CHECK(asked[1].pass == RecurrentSpec::Pass::kGrad);
  CHECK(count_op(job, "bias_add_grad") == 1);  // of the dense layer
  CHECK(count_op(job, "matmul") == 3);         // likewise
  const plan::Step& forward = step_called(job, "l/steps_l0");
  CHECK(job[forward.inputs[1]].name == "l/weight_ih_l0");
  CHECK(job[forward.inputs[2]].name == "l/weight_hh_l0");
  CHECK(job[forward.outputs[3]].dtype == DType::kUInt8);
  const plan::Step& gradients = step_called(job, "l/restore_l0:diff");
  CHECK(gradients.inputs[6] == forward.outputs[3]);
  CHECK(job[gradients.outputs[3]].name == "l/weight_ih_l0:diff");
  CHECK(job[gradients.outputs[4]].name == "l/weight_hh_l0:diff");
  CHECK(job[gradients.outputs[5]].name == "l/bias_l0:diff");
  CHECK_FALSE(gradients.outputs[6].valid());
}

TEST_CASE("the library is asked for each cell with the biases of the plan", "[cuda]") {
  const auto asked = [](const std::string& layer) {
    const LoweredLayers lowered = lower_layers(training(layer));
    REQUIRE(lowered.asked.size() == 2);
    const RecurrentSpec& spec = lowered.asked[0];
    return std::tuple(spec.cell, spec.input_bias, spec.recurrent_bias);
  };
  CHECK(asked(kGru) == std::tuple(RecurrentSpec::Cell::kGru, true, true));
  CHECK(asked("      l: {op: gru, in: x, units: 3, use_bias: false}\n") ==
        std::tuple(RecurrentSpec::Cell::kGru, false, true));
  CHECK(asked("      l: {op: rnn, in: x, units: 3}\n") ==
        std::tuple(RecurrentSpec::Cell::kTanh, true, false));
  CHECK(asked("      l: {op: rnn, in: x, units: 3, use_bias: false}\n") ==
        std::tuple(RecurrentSpec::Cell::kTanh, false, false));
  CHECK(lower_layers(training(kLstm, "    precision: tf32\n")).asked[0].math_mode.tf32);
}

TEST_CASE("ten updates by the library are those of the layers' own steps", "[cuda]") {
  require_same_training(
      training("      a: {op: lstm, in: x, units: 3, layers: 2, direction: bidirectional}\n"
               "      b: {op: gru, units: 4, direction: reverse}\n"
               "      c: {op: gru, units: 3, use_bias: false}\n"
               "      d: {op: rnn, units: 5}\n"),
      {"loss", "y/bias_add"});
  require_same_training(
      training("      l: {op: lstm, in: x, units: 3, use_bias: false, direction: reverse}\n"
               "      h: {op: add, in: [l.h, l.c]}\n"));
  require_same_training(training(kLstm, "    shards: 2\n"));
  require_same_training(
      training("      g: {op: gru, in: x, units: 3, direction: bidirectional}\n"
               "      l: {op: rnn, in: x, initial_h: g.h, units: 6}\n"));
}

TEST_CASE("layers that are not trained keep nothing for gradients", "[cuda]") {
  CompileRequest request;
  request.file = "job.yaml";
  const CompileResult result = compile_text(request, R"(flow: 1
jobs:
  run:
    type: predict
    inputs: {x: {shape: [4, 5, 6], dtype: float32, from: {type: random_normal}}}
    graph:
      l: {op: lstm, in: x, units: 3, direction: bidirectional}
      g: {op: gru, in: l, units: 2}
    returns: {value: [g, l.h, l.c]}
    run: {steps: 1}
)");
  INFO(result.messages);
  REQUIRE(result.plan);
  const plan::Job& job = result.plan->jobs.front();
  const std::vector<std::string> wanted = {"g/steps_l0", "l/last_h", "l/last_c"};
  const LoweredLayers lowered = lower_layers(job);
  CHECK(lowered.asked.size() == 3);
  for (const RecurrentSpec& spec : lowered.asked) CHECK_FALSE(spec.trains);
  const Arrays values = random_values(job);
  FakeGpu gpu;
  const Arrays got = run(job, values, wanted, {.backend = gpu.backend.get()});
  const Arrays expected = run(job, values, wanted);
  for (const auto& [name, array] : expected) CHECK(relative_difference(got.at(name), array) < 2e-6);
  gpu.backend.reset();
}

TEST_CASE("frozen weights have no gradients", "[cuda]") {
  plan::Job job = training(
      "      a: {op: lstm, in: x, units: 3}\n"
      "      b: {op: lstm, in: a, units: 3, trainable: false}\n");
  const LoweredLayers lowered = lower_layers(job);
  const plan::Step& gradients = step_called(lowered.job, "b/restore_l0:diff");
  CHECK(gradients.outputs[0].valid());
  for (size_t i = 3; i < 7; ++i) CHECK_FALSE(gradients.outputs[i].valid());
  require_same_training(job);
}

TEST_CASE("what the library lacks keeps its steps and says why", "[cuda]") {
  CHECK(layer_refusal(lower_layers(training(kLstm), RecurrentSpec::Pass::kForward)) ==
        "no such layer");
  CHECK(layer_refusal(lower_layers(training(kLstm), RecurrentSpec::Pass::kGrad)) ==
        "no such layer");
  CHECK(layer_refusal(lower_layers(training(
            "      l: {op: lstm, in: x, lengths: lengths, units: 3}\n"))) == "it has lengths");
  CHECK(layer_refusal(lower_layers(
            training("      l: {op: gru, in: x, units: 3, linear_before_reset: false}\n"))) ==
        "the reset gate comes before the product");
  CHECK(layer_refusal(
            lower_layers(training("      l: {op: rnn, in: x, units: 3, activation: relu}\n"))) ==
        "its ReLU may lose NaN");
  CHECK(layer_refusal(lower_layers(training(kLstm, "    precision: mixed_bfloat16\n"))) ==
        "its product is of 16-bit operands");
}

TEST_CASE("a layer that fails alone or in a graph keeps its steps", "[cuda]") {
  const plan::Job expanded = cuda::lower_epilogues(training(kGru));
  for (const int run : {0, 1, 2, 3, 4}) {
    CAPTURE(run);
    FakeDriver driver;
    AskedLayers libraries(driver, {});
    libraries.failing_run = run;
    const LoweredLayers lowered{
        cuda::lower_recurrent(expanded, std::vector<size_t>(expanded.steps.size()), {}, 1000,
                              libraries, driver),
        libraries.asked};
    CHECK(driver.problems().empty());
    if (run < 4)
      CHECK(layer_refusal(lowered) == "it does not run");
    else
      CHECK(cuda::is_library_layer(step_called(lowered.job, "l/steps_l0")));
  }
}

TEST_CASE("a job that only fits without the library's layers keeps their steps", "[cuda]") {
  const plan::Job job = training(kLstm);
  const auto kernels_on = [&](size_t memory) {
    auto driver = std::make_unique<FakeDriver>(FakeDevice{.memory = memory});
    auto libraries = std::make_unique<AskedLayers>(*driver, std::nullopt);
    libraries->workspace = 7 << 19;
    const auto backend = cuda::make_backend(std::move(driver), std::move(libraries));
    const auto program = backend->prepare(job, {});
    std::vector<std::string> kernels;
    for (const exec::LibraryStep& step : program->memory().library_steps)
      if (step.step.starts_with("l/steps") || step.step.starts_with("l/restore"))
        kernels.push_back(step.kernel);
    return kernels;
  };
  CHECK(kernels_on(16 << 20) == std::vector<std::string>(2, "plain loops"));
  const std::vector<std::string> own = kernels_on(4 << 20);  // three quarters are for a job
  CHECK(own.size() == 2);
  for (const std::string& kernel : own)
    CHECK_THAT(kernel, Catch::Matchers::StartsWith("flow kernel") &&
                           Catch::Matchers::EndsWith(": the library needs too much memory for it"));
}

TEST_CASE("a layer whose product has other rows keeps its steps", "[cuda]") {
  plan::Job job = training("      l: {op: lstm, in: x, units: 3, use_bias: false}\n");
  for (plan::Step& step : job.steps)  // (20, 6) (12, 6)^T, as a plan of (4, 6) (60, 6)^T has it
    if (step.name == "l/matmul_l0") {
      job.tensors[step.inputs[0].index()].shape = {4, 6};
      job.tensors[step.inputs[1].index()].shape = {60, 6};
    }
  CHECK(layer_refusal(lower_layers(job)) == "its gates do not come from a product");
}

TEST_CASE("a layer whose inside another step reads keeps its steps", "[cuda]") {
  const auto read_too = [](const std::string& name) {
    plan::Job job = training(kGru);
    plan::Step step;
    step.op = "relu";
    step.name = "other";
    step.inputs = {tensor(job, name)};
    plan::Tensor made = job[step.inputs[0]];
    made.name = "other";
    made.alias = {};
    job.tensors.push_back(made);
    step.outputs = {plan::TensorId(job.tensors.size() - 1)};
    job.steps.push_back(step);
    return layer_refusal(lower_layers(job));
  };
  CHECK(read_too("l/bias_add_l0") == "another step reads its gates");
  CHECK(read_too("l/restore_l0") == "another step reads its gates");
  CHECK(read_too("l/steps_l0.gates") == "another step reads its gates");
  CHECK(read_too("l/restore_l0:diff") == "another step reads the gradients of its gates");
  CHECK(read_too("l/restore_l0:diff.hidden") == "another step reads the gradients of its gates");
  CHECK(read_too("l/restore_l0:diff.previous") == "another step reads the gradients of its gates");
}

TEST_CASE("a layer whose result is its own gradient is the library's", "[cuda]") {
  plan::Job job = training(kLstm);
  for (plan::Step& step : job.steps)
    if (step.op == ops::kLstmStepsGrad) step.inputs[0] = step.inputs[6];
  CHECK(cuda::is_library_layer(step_called(lower_layers(job).job, "l/steps_l0")));
}

TEST_CASE("a layer whose product another part of the call makes keeps its steps", "[cuda]") {
  const plan::Job job = training(kGru), expanded = cuda::lower_epilogues(job);
  const auto at = static_cast<size_t>(
      std::ranges::find(expanded.steps, "l/steps_l0", &plan::Step::name) - expanded.steps.begin());
  std::vector<size_t> parts(expanded.steps.size());
  std::fill(parts.begin() + static_cast<std::ptrdiff_t>(at), parts.end(), 1);
  CHECK(layer_refusal(lower_layers(job, {}, {}, parts)) ==
        "its product runs in another part of the call");
}

TEST_CASE("what is watched of a layer changes nothing about it", "[cuda]") {
  const plan::Job job = training("      l: {op: gru, in: x, units: 3, direction: reverse}\n");
  const std::vector<std::string> inside = {"l/bias_add_l0", "l/steps_l0.gates", "l/restore_l0:diff",
                                           "l/restore_l0:diff.hidden"};
  const std::vector<std::string> outside = {"l/weight_ih_l0", "l/weight_hh_l0", "l/bias_hh_l0",
                                            "loss"};
  std::vector<std::string> all = outside;
  all.insert(all.end(), inside.begin(), inside.end());
  const Arrays values = random_values(job), expected = run(job, values, all, {.calls = 2});
  const auto run_lowered = [&](const std::vector<std::string>& wanted) {
    FakeGpu gpu;
    Arrays made = run(job, values, wanted, {.calls = 2, .backend = gpu.backend.get()});
    CHECK(gpu.driver->count("captured launch naive_recurrent_grad") >= 2);  // one is a trial
    gpu.backend.reset();
    return made;
  };
  const Arrays alone = run_lowered(outside);
  Arrays watched = run_lowered(all);
  for (const std::string& name : all) {
    INFO(name);
    CHECK(relative_difference(watched.at(name), expected.at(name)) < 2e-5);
  }
  for (const std::string& name : inside) watched.erase(name);
  CHECK(same_bits(watched, alone));

  const plan::Job lowered = lower_layers(job, {}, {"l/bias_add_l0"}).job;
  CHECK(step_called(lowered, "l/matmul_l0").probe);
  CHECK_FALSE(step_called(lowered, "l/steps_l0").probe);
  CHECK(std::ranges::find(lowered.steps, "l/steps_l0:tap", &plan::Step::name) ==
        lowered.steps.end());
}

}  // namespace flow::test
