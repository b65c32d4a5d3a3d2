// NaN stays NaN on its way through a net: no function and no fused epilogue may hide it.
#include "tests/property/nan_cases.h"

#include <catch2/catch.hpp>

#include "compiler/ir/describe_ops.h"
#include "compiler/ir/rules.h"
#include "ops/core/spec.h"

namespace flow::test {
namespace {

using Attributes = std::vector<std::pair<std::string, plan::Attribute>>;

Array fast(const KernelCase& one, cpu::Layout layout = cpu::Layout::kPlain) {
  return run_kernel(one, {cpu::fast_kernels(), layout}).outputs[0];
}
Array of_doubles(const KernelCase& one) {
  const bool has_own = cpu::find_kernel(cpu::double_kernels(), one.op);
  return run_kernel(widened(one), {has_own ? cpu::double_kernels() : cpu::reference_kernels()})
      .outputs[0];
}
Array reference(const KernelCase& one) {
  return run_kernel(one, {cpu::reference_kernels()}).outputs[0];
}

}  // namespace

TEST_CASE("every function makes NaN of NaN, and of nothing else", "[property]") {
  for (const KernelCase& one : function_cases()) {
    INFO(one.str());
    require_nan_passes(one, fast(one));
    require_nan_passes(one, reference(one));
    require_nan_passes(one, of_doubles(one));
  }
}

TEST_CASE("every function's gradient has NaN where the reference has it", "[property]") {
  for (const KernelCase& one : gradient_cases()) {
    INFO(one.str());
    require_same_nans(fast(one), reference(one));
    require_same_nans(of_doubles(one), reference(one));
  }
}

TEST_CASE("relu's gradient passes where relu made NaN, and is 0 where it made 0", "[property]") {
  const KernelCase one = nan_case("relu_grad", {array_of<float>({5}, {2, kNan, 3, kNan, 5}),
                                                array_of<float>({5}, {kNan, 0, 0, 1, 4})});
  for (const Array& dx : {fast(one), reference(one)}) {
    CHECK(dx.as<float>()[0] == 2);
    CHECK(dx.as<float>()[1] == 0);
    CHECK(dx.as<float>()[2] == 0);
    CHECK(is_nan_at(dx, 3));
    CHECK(dx.as<float>()[4] == 5);
  }
}

TEST_CASE("a pool makes NaN of every window that has one", "[property]") {
  const Attributes attributes = {{"ksize", std::vector<int64_t>{2, 2}},
                                 {"strides", std::vector<int64_t>{1, 1}},
                                 {"padding", std::vector<int64_t>{0, 0, 0, 0}},
                                 {"count_include_pad", false}};
  const int64_t channels = GENERATE(1, 3, 70);
  const Shape shape{1, channels, 4, 5}, pooled{1, channels, 3, 4};
  for (const char* op : {"max_pool2d", "avg_pool2d"}) {
    Random random(6);
    KernelCase one{op, attributes, {random_array(random, DType::kFloat32, shape)}, {{{}, pooled}}};
    if (one.op == "max_pool2d") one.results.push_back({DType::kUInt8, pooled});
    for (int64_t c = 0; c < channels; ++c)
      one.inputs[0].as<float>()[static_cast<size_t>(c * 20 + 6)] = kNan;  // row 1, column 1
    INFO(one.str());
    for (const Array& y : {fast(one), fast(one, cpu::Layout::kChannelsLast), reference(one)}) {
      for (int64_t i = 0; i < pooled.elements(); ++i)
        CHECK(is_nan_at(y, i) == (i % 12 / 4 < 2 && i % 4 < 2));
    }
  }
}

TEST_CASE("NaN in the data reaches the result and the variables, whatever is fused", "[property]") {
  const std::string precision = GENERATE("float32", "float64", "mixed_bfloat16");
  for (const std::string& activation : activation_names()) {
    const ops::OpSpec* op = ops::find_spec(activation);
    if (!op || !op->elementwise || !grad::rules_of(*op).gradient)
      continue;  // such as none and transpose
    INFO(activation << ", " << precision);
    for (const NanJob& one : nan_jobs(activation, precision))
      for (const int threads : {1, 3}) require_nan_reaches_result(one, {threads});
  }
}

}  // namespace flow::test
