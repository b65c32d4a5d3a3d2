// Updates of many variables, launched together, on a test device.
#include <catch2/catch.hpp>
#include <limits>
#include <span>
#include <string>

#include "ops/core/spec.h"
#include "tests/property/cuda/device_case.h"
#include "tests/property/tolerance.h"

namespace flow::test {
namespace {

/// Random calls of an update that can be launched as one.
std::vector<KernelCase> updates_alike(const std::string& op, int count) {
  Random random(14);
  std::vector<KernelCase> cases;
  while (static_cast<int>(cases.size()) < count) {
    KernelCase one = random_case(op, random);
    if (!cases.empty()) one.attributes = cases[0].attributes;
    if (cases.empty() || one.inputs.size() == cases[0].inputs.size())
      cases.push_back(std::move(one));
  }
  return cases;
}

}  // namespace

TEST_CASE("updates of many variables take few launches and give the CPU's bits", "[cuda]") {
  for (const std::string op :
       {"sgd_update", "momentum_update", "adam_update", "amsgrad_update", "rmsprop_update",
        "centered_rmsprop_update", "momentum_rmsprop_update", "centered_momentum_rmsprop_update",
        "adagrad_update", "adadelta_update", "nadam_update", "radam_update", "lion_update",
        "ftrl_update", "ema_update", "muon_update", "lookahead_start", "lookahead_update"}) {
    const std::vector<KernelCase> cases = updates_alike(op, 101);
    const UpdatesRun got = run_updates_on_device(cases);
    CHECK(got.launches.value_or(3) == 3);
    for (size_t i = 0; i < cases.size(); ++i) {
      INFO(cases[i].str());
      REQUIRE(same_numbers(got.runs[i], run_kernel(cases[i], {cpu::fast_kernels()})));
    }
    CHECK(run_updates_on_device(std::span(cases).first(8)).launches.value_or(1) == 1);
  }
}

TEST_CASE("updates leave all as it is where the factor is NaN", "[cuda]") {
  const Array nan = array_of<float>({}, {std::numeric_limits<float>::quiet_NaN()});
  for (const cuda::KernelEntry& entry : cuda::all_kernels()) {
    if (!entry.prepare_updates) continue;
    const std::vector<ops::OperandSpec>& operands = ops::find_spec(entry.op)->operands;
    if (!operands.back().optional) continue;  // without a factor
    std::vector<KernelCase> cases = updates_alike(std::string(entry.op), 3);
    for (KernelCase& one : cases) {
      one.inputs.resize(operands.size() - 1);
      one.inputs.push_back(nan);
    }
    const UpdatesRun got = run_updates_on_device(cases);
    for (size_t i = 0; i < cases.size(); ++i)
      for (size_t k = 0; k < cases[i].results.size(); ++k)
        CHECK(same_bits(got.runs[i].outputs[k], cases[i].inputs[1 + k]));
  }
}

TEST_CASE("updates by norms take three launches for many variables", "[cuda]") {
  for (const std::string op : {"lars_update", "lamb_update", "adafactor_update"}) {
    const std::vector<KernelCase> cases = updates_alike(op, 101);
    const UpdatesRun got = run_updates_on_device(cases);
    CHECK(got.launches.value_or(9) == 9);
    for (size_t i = 0; i < cases.size(); ++i) {
      INFO(cases[i].str());
      const KernelRun expected = run_kernel(cases[i], {cpu::reference_kernels()});
      for (size_t k = 0; k < expected.outputs.size(); ++k)
        require_near(cases[i], got.runs[i].outputs[k], expected.outputs[k]);
    }
  }
}

TEST_CASE("the norm of very many gradients is one factor", "[cuda]") {
  Random random(16);
  KernelCase one{"clip_factor", {{"clip_norm", 0.5}, {"scale", 1.0}}, {}, {{DType::kFloat32, {}}}};
  for (int i = 0; i < 401; ++i)
    one.inputs.push_back(random_array(random, DType::kFloat32, {1 + i % 7, 5}));
  one.inputs.push_back(random_array(random, DType::kFloat32, {123457}));
  require_near(one, run_on_device(one).run.outputs[0],
               run_kernel(one, {cpu::reference_kernels()}).outputs[0]);
}

}  // namespace flow::test
