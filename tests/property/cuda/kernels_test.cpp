// Every CUDA kernel, run on the CPU, against the reference and against the CPU's own kernels.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include "ops/core/spec.h"
#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "tests/property/cuda/device_case.h"
#include "tests/property/tolerance.h"
#include "tests/support/sanitized.h"

namespace flow::test {
namespace {

/// Of each op; FLOW_CASES says another number, for tools under which a case takes long.
int cases() {
  const char* given = std::getenv("FLOW_CASES");
  return given ? std::max(1, std::atoi(given)) : std::max(1, 3 / kCasesPerTried);
}

/// FLOW_OPS names some, with commas: after an error from which a device does not recover, others.
std::vector<std::string> chosen_ops() {
  if (const char* given = std::getenv("FLOW_OPS")) return split(given, ',');
  std::vector<std::string> ops;
  for (const cuda::KernelEntry& entry : cuda::all_kernels()) ops.emplace_back(entry.op);
  return ops;
}

/// A case that fails says so, and the others are judged too.
template <typename Check>
void judge(Check check, const KernelCase& one) {
  INFO(one.str());
  try {
    check(one);
  } catch (const RunError& error) {
    FAIL_CHECK(error.what());
  }
}

/// Calls check(case) for random calls of every kernel, in float32 and in float64.
template <typename Check>
void for_random_cases(Check check) {
  for (const std::string& op : chosen_ops()) {
    Random random(static_cast<Random::result_type>(op.size() * 1000 + op.front()));
    for (int i = 0; i < cases(); ++i) {
      const KernelCase one = random_case(op, random);
      judge(check, one);
      if (!has_dtype_attribute(op)) judge(check, widened(one));
    }
  }
}

/// Does the kernel give the CPU's bits? CUDA's powf rounds otherwise than a CPU's, and on a GPU so
/// do its other functions that are not of flow.
bool rounds_as_the_cpu(const KernelCase& one) {
  static const std::set<std::string> kOfCuda = {"log1p", "tan",       "asin",  "acos",
                                                "atan",  "sinh",      "cosh",  "sinh_grad",
                                                "asinh", "cosh_grad", "acosh", "atanh"};
  return cuda::find_kernel(one.op)->order == cuda::Order::kCpu && !one.op.starts_with("pow") &&
         !(is_gpu() && kOfCuda.contains(one.op));
}

}  // namespace

TEST_CASE("names of the ops that have a kernel", "[cuda][names]") {
  for (const cuda::KernelEntry& entry : cuda::all_kernels()) {
    CHECK(ops::find_spec(entry.op));
    std::cout << "op " << entry.op << '\n';  // tests/device/run.sh reads them
  }
}

TEST_CASE("every kernel gives what the reference gives, in any order of lanes", "[cuda][ops]") {
  for_random_cases(require_reference);
}

/// The reference has the same numbers in float32.
void require_wide_reference(const KernelCase& one) {
  INFO(one.str());
  const KernelRun expected = run_kernel(in_float32(one), {cpu::reference_kernels()});
  const KernelRun got = run_on_device(one).run;
  const ops::OpSpec& spec = *ops::find_spec(one.op);
  const bool picks =
      spec.rounds_operands == ops::rounds_always || spec.epilogue == ops::Epilogue::kRelu;
  for (size_t i = 0; i < one.results.size(); ++i) {
    const Tolerance tolerance(one, one.results[i].dtype);
    for (int64_t at = 0; at < one.results[i].shape.elements(); ++at) {
      const double a = number_at(got.outputs[i], at), b = number_at(expected.outputs[i], at);
      const bool same = a == b || (std::isnan(a) && std::isnan(b));
      if (picks ? same : tolerance.admits(a, b)) continue;
      FAIL_CHECK("result " << i << ", element " << at << ": " << a << " instead of " << b);
      return;
    }
  }
  CHECK(same_bits(got, run_on_device(one, {LaneOrder::kReversed}).run));
}

/// Do mixed jobs call it on 16 bits?
bool reads_16_bits(const ops::OpSpec& op) {
  return op.epilogue == ops::Epilogue::kBias || op.epilogue == ops::Epilogue::kRelu ||
         std::ranges::any_of(op.operands, &ops::OperandSpec::low_precision);
}

TEST_CASE("what mixed jobs compute in 16 bits is what the reference gives", "[cuda][ops]") {
  for (const std::string& name : chosen_ops()) {
    const ops::OpSpec* op = ops::find_spec(name);
    if (!reads_16_bits(*op)) continue;
    Random random(17);
    for (int i = 0; i < cases(); ++i) {
      const KernelCase one = random_case(std::string(op->name), random);
      for (const DType low_precision : {DType::kFloat16, DType::kBFloat16})
        judge(require_wide_reference, rounded(one, low_precision));
    }
  }
}

TEST_CASE("kernels whose order of sums is the CPU's give its bits", "[cuda][ops]") {
  for_random_cases([](const KernelCase& one) {
    if (!rounds_as_the_cpu(one) || one.results[0].dtype == DType::kFloat64) return;
    for (const Array& input : one.inputs)
      if (input.dtype() == DType::kFloat64) return;
    CHECK(same_numbers(run_on_device(one).run, run_kernel(one, {cpu::fast_kernels()})));
  });
}

TEST_CASE("tensors of eight dimensions are broadcast and summed", "[cuda]") {
  Random random(8);
  const Shape out{2, 3, 2, 3, 2, 3, 2, 3}, a{2, 1, 2, 1, 2, 1, 2, 1}, b{3, 1, 3, 1, 3};
  const DType f = DType::kFloat32;
  require_reference({"add",
                     {},
                     {random_array(random, f, Shape{2, 1, 2, 1, 2, 1, 2, 3}),
                      random_array(random, f, Shape{1, 3, 1, 3, 1, 3, 1, 3})},
                     {{f, out}}});
  require_reference(
      {"equal",
       {},
       {random_array(random, DType::kUInt8, out), random_array(random, DType::kInt64, b)},
       {{DType::kBool, out}}});
  require_reference(
      {"broadcast_to", {{"shape", out.extents()}}, {random_array(random, f, a)}, {{f, out}}});
  const Array x = random_array(random, f, out);
  require_reference({"reduce_sum",
                     {{"axes", std::vector<int64_t>{0, 2, 4, 6}}, {"keepdims", false}},
                     {x},
                     {{f, Shape{3, 3, 3, 3}}}});
  require_reference({"reduce_mean",
                     {{"axes", std::vector<int64_t>{1, 3, 5, 7}}, {"keepdims", true}},
                     {x},
                     {{f, a}}});
}

TEST_CASE("long sums are cut into chunks, whichever axis is the innermost", "[cuda]") {
  Random random(9);
  const DType f = DType::kFloat32;
  for (const auto& [shape, axes] :
       std::map<std::vector<int64_t>, std::vector<int64_t>>{{{200000}, {0}},
                                                            {{3, 70001}, {1}},
                                                            {{70001, 3}, {0}},
                                                            {{262145, 2}, {0}},  // empty chunks
                                                            {{5, 2000, 7}, {0, 2}},
                                                            {{2000, 5, 40}, {0, 2}},
                                                            {{1031}, {}}}) {
    Shape out(shape);
    for (const int64_t axis : axes) out[static_cast<int>(axis)] = 1;
    require_reference({"reduce_sum",
                       {{"axes", axes}, {"keepdims", true}},
                       {random_array(random, f, Shape(shape))},
                       {{f, out}}});
  }
}

TEST_CASE("windows of more than 256 places keep places of int32", "[cuda]") {
  Random random(10);
  const DType f = DType::kFloat32;
  const Shape x{2, 1, 40, 33}, y{2, 1, 12, 9};
  const std::vector<std::pair<std::string, plan::Attribute>> attributes = {
      {"ksize", std::vector<int64_t>{18, 17}},
      {"strides", std::vector<int64_t>{2, 2}},
      {"padding", std::vector<int64_t>{0, 1, 0, 0}}};
  const KernelCase forward{
      "max_pool2d", attributes, {random_array(random, f, x)}, {{f, y}, {DType::kInt32, y}}};
  require_reference(forward);
  KernelCase backward{
      "max_pool2d_grad",
      attributes,
      {random_array(random, f, y), run_kernel(forward, {cpu::reference_kernels()}).outputs[1]},
      {{f, x}}};
  backward.attributes.push_back({"input_shape", x.extents()});
  require_reference(backward);
}

TEST_CASE("a NaN is the largest of a window and along an axis", "[cuda]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  KernelCase one{"argmax",
                 {{"axis", int64_t{1}}},
                 {array_of<float>({2, 3}, {1, nan, nan, 2, 5, 5})},
                 {{DType::kInt64, {2}}}};
  CHECK(run_on_device(one).run.outputs[0].as<int64_t>()[0] == 1);
  CHECK(run_on_device(one).run.outputs[0].as<int64_t>()[1] == 1);
  Array wide(DType::kFloat32, {1, 500});
  wide.as<float>()[77] = wide.as<float>()[400] = nan;
  one.inputs = {wide};
  one.results = {{DType::kInt64, {1}}};
  CHECK(run_on_device(one).run.outputs[0].as<int64_t>()[0] == 77);
}

TEST_CASE("every dtype is cast to every other as the CPU does", "[cuda]") {
  Random random(11);
  for (const DType from : all_dtypes()) {
    Array x(from, {1000});
    for (std::byte& byte : x.bytes())
      byte = std::byte(from == DType::kBool ? random_between(random, 0, 1)
                                            : random_between(random, 0, 255));
    for (const DType to : all_dtypes()) {
      INFO(name_of(from) << " to " << name_of(to));
      const KernelCase one{"cast", {{"dtype", to}}, {x}, {{to, {1000}}}};
      CHECK(same_numbers(run_on_device(one).run.outputs[0],
                         run_kernel(one, {cpu::reference_kernels()}).outputs[0]));
    }
  }
}

TEST_CASE("a second result that nobody reads is not written", "[cuda]") {
  Random random(12);
  for (const ops::OpSpec* op : ops::all_specs()) {
    if (op->results.size() != 2 || !op->results[1].optional) continue;
    const KernelCase both = random_case(std::string(op->name), random);
    INFO(both.str());
    KernelCase one = both;
    one.results[1].unused = true;
    CHECK(same_bits(run_on_device(one).run.outputs[0], run_on_device(both).run.outputs[0]));
  }
}

TEST_CASE("dropout draws anew in every step", "[cuda]") {
  Random random(13);
  const Shape shape{1000};
  const KernelCase one{"dropout",
                       {{"rate", 0.3}, {"consumer", std::string("net/drop")}},
                       {random_array(random, DType::kFloat32, shape)},
                       {{DType::kFloat32, shape}, {DType::kBool, shape}}};
  DeviceSettings later;
  later.step = (int64_t{1} << 32) + 5;  // of which 32 bits count
  KernelSettings cpu{cpu::fast_kernels()};
  cpu.step = later.step;
  CHECK(same_numbers(run_on_device(one, later).run, run_kernel(one, cpu)));
  CHECK_FALSE(same_bits(run_on_device(one, later).run, run_on_device(one).run));
}

TEST_CASE("the first label out of range is the fault, whatever the order of lanes", "[cuda]") {
  for (const auto& [n, classes] : {std::pair<int64_t, int64_t>{350, 10}, {40, 1100}}) {
    Random random(15);
    const Shape rows{n}, logits{n, classes};
    const auto first = static_cast<size_t>(n - 10);
    KernelCase one{"sparse_softmax_cross_entropy_with_logits", {}, {}, {}};
    one.inputs = {random_labels(random, DType::kInt32, rows, classes),
                  random_array(random, DType::kFloat32, logits)};
    one.results = {{DType::kFloat32, rows}, {DType::kFloat32, logits}};
    CHECK_FALSE(run_on_device(one).run.fault);
    one.inputs[0].as<int32_t>()[first] = static_cast<int32_t>(classes);
    one.inputs[0].as<int32_t>()[first + 1] = -1;
    one.inputs[0].as<int32_t>()[first + 9] = -7;
    for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed}) {
      const KernelRun got = run_on_device(one, {lanes}).run;
      REQUIRE(got.fault);
      CHECK(got.fault->where == "job.yaml:1:1");
      CHECK(got.fault->operand == "operand");
      CHECK(got.fault->row == n - 10);
      CHECK(got.fault->value == classes);
      CHECK(got.fault->limit == classes);
      CHECK(std::isnan(got.outputs[0].as<float>()[first + 1]));
    }
  }
}

TEST_CASE("ctc finds the first of several wrong operands", "[cuda]") {
  KernelCase one{"ctc",
                 {{"blank", int64_t{0}}, {"zero_infinity", false}},
                 {array_of<int32_t>({2, 1}, {1, 5}), Array(DType::kFloat32, {2, 3, 4}),
                  array_of<int32_t>({2}, {7, 1}), array_of<int32_t>({2}, {3, 9})},
                 {{DType::kFloat32, {2}}}};
  for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed}) {
    const KernelRun got = run_on_device(one, {lanes}).run;
    REQUIRE(got.fault);
    CHECK(got.fault->row == 1);
    CHECK(got.fault->value == 5);
  }
  one.inputs[0].as<int32_t>()[1] = 2;
  one.inputs[2].as<int32_t>()[0] = 1;
  const KernelRun got = run_on_device(one).run;
  REQUIRE(got.fault);
  CHECK(got.fault->value == 9);
}

TEST_CASE("a long column is sorted in tiles that are merged", "[cuda]") {
  Random random(21);
  for (const int64_t n : {40, 1024, 1025, 3100})
    for (const int64_t k : {n, int64_t{35}}) {
      INFO(n << " elements, of which " << k);
      const Shape out{k, 2};
      KernelCase one{"top_k", {{"axis", int64_t{0}}, {"k", k}}, {}, {}};
      one.results = {{DType::kFloat32, out}, {DType::kInt64, out}};
      Array& x = one.inputs.emplace_back(random_array(random, DType::kFloat32, {n, 2}));
      for (float& value : x.as<float>()) value = std::round(value * 50);  // ties
      x.as<float>()[7] = std::nanf("");
      CHECK(same_numbers(run_on_device(one).run, run_kernel(one, {cpu::reference_kernels()})));
    }
}

TEST_CASE("an earlier check's fault is kept", "[cuda]") {
  const KernelCase one{"sparse_softmax_cross_entropy_with_logits",
                       {},
                       {array_of<int32_t>({1}, {9}), array_of<float>({1, 2}, {1, 2})},
                       {{DType::kFloat32, {1}}, {DType::kFloat32, {1, 2}}}};
  DeviceSettings settings;
  settings.fault = {1, 42, 43};
  CHECK(run_on_device(one, settings).block.row == 42);
}

}  // namespace flow::test
