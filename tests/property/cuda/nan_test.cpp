// NaN stays NaN in CUDA's kernels, as in the CPU's.
#include <catch2/catch.hpp>
#include <limits>

#include "runtime/base/error.h"
#include "tests/property/cuda/device_case.h"
#include "tests/property/nan_cases.h"

namespace flow::test {
namespace {

Array first_on_device(const KernelCase& one) { return run_on_device(one).run.outputs[0]; }

}  // namespace

TEST_CASE("every function of CUDA's makes NaN of NaN, and of nothing else", "[cuda]") {
  for (const KernelCase& one : function_cases()) {
    INFO(one.str());
    require_nan_passes(one, first_on_device(one));
    require_nan_passes(one, first_on_device(widened(one)));
  }
  for (const DType low_precision : {DType::kBFloat16, DType::kFloat16}) {
    Random random(3);
    const KernelCase one = rounded(nan_case("relu", {numbers_with_nan(random)}), low_precision);
    require_nan_passes(one, first_on_device(one));
  }
}

TEST_CASE("every gradient of CUDA's functions has NaN where the reference has it", "[cuda]") {
  for (const KernelCase& one : gradient_cases()) {
    INFO(one.str());
    require_same_nans(first_on_device(one), run_kernel(one, {cpu::reference_kernels()}).outputs[0]);
  }
}

TEST_CASE("the statistics of a channel with a NaN are NaN", "[cuda]") {
  const DType f = DType::kFloat32;
  Random random(8);
  KernelCase batch{
      "batch_norm",
      {{"axis", int64_t{1}}, {"epsilon", 1e-3}},
      {random_array(random, f, {6, 2}), random_array(random, f, {2}), random_array(random, f, {2})},
      {{f, {6, 2}}, {f, {2}}, {f, {2}}}};
  batch.inputs[0].as<float>()[4] = kNan;  // row 2, channel 0
  KernelCase group = batch;
  group.op = "group_normalize";
  group.attributes = {{"groups", int64_t{2}}, {"epsilon", 1e-3}};
  group.results = {{f, {6, 2}}, {f, {6, 2}}, {f, {6, 2}}};
  for (const KernelCase& one : {batch, group}) {
    INFO(one.str());
    const KernelRun found = run_on_device(one).run;
    const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
    for (size_t i = 0; i < 3; ++i) require_same_nans(found.outputs[i], expected.outputs[i]);
    CHECK(is_nan_at(found.outputs[2], one.op == "batch_norm" ? 0 : 4));
  }
}

TEST_CASE("logsumexp of nothing but infinities is that infinity", "[cuda]") {
  const DType f = DType::kFloat32;
  const float infinity = std::numeric_limits<float>::infinity();
  const KernelCase one{"logsumexp",
                       {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}},
                       {array_of<float>({3, 2}, {-infinity, -infinity, 1, infinity, 0, -infinity})},
                       {{f, {3}}}};
  INFO(one.str());
  const Array y = first_on_device(one);
  CHECK(y.as<float>()[0] == -infinity);
  CHECK(y.as<float>()[1] == infinity);
  CHECK(y.as<float>()[2] == 0);
}

}  // namespace flow::test
