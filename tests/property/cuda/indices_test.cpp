// Ops on elements at indices: order of sums and writes, and indices out of range.
#include <catch2/catch.hpp>

#include <cmath>
#include <span>

#include "tests/property/cuda/device_case.h"
#include "tests/property/tolerance.h"

namespace flow::test {

TEST_CASE("updates of a vector are added in the order of the indices", "[cuda]") {
  Random random(22);
  const Shape updates{2000};
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kInt32, DType::kUInt8}) {
    INFO(name_of(dtype));
    KernelCase one{"add_along_axis", {{"axis", int64_t{0}}}, {}, {{dtype, {5}}}};
    one.inputs = {random_array(random, dtype, {5}),
                  random_labels(random, DType::kInt32, updates, 3),
                  random_array(random, dtype, updates)};
    CHECK(same_bits(run_on_device(one).run.outputs[0],
                    run_kernel(one, {cpu::fast_kernels()}).outputs[0]));
  }
}

TEST_CASE("the first index out of range is the fault, and picks zero", "[cuda]") {
  KernelCase one{"gather",
                 {{"axis", int64_t{0}}},
                 {array_of<float>({2, 2}, {1, 2, 3, 4}), Array(DType::kInt64, {700})},
                 {{DType::kFloat32, {700, 2}}}};
  CHECK_FALSE(run_on_device(one).run.fault);
  one.inputs[1].as<int64_t>()[690] = -1;
  one.inputs[1].as<int64_t>()[300] = 2;
  for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed}) {
    const KernelRun got = run_on_device(one, {lanes}).run;
    REQUIRE(got.fault);
    CHECK(got.fault->operand == "operand");
    CHECK(got.fault->row == 300);
    CHECK(got.fault->value == 2);
    CHECK(got.fault->limit == 2);
    CHECK(got.outputs[0].as<float>()[600] == 0);
  }
}

TEST_CASE("of equal indices the last one writes, in any order of threads", "[cuda]") {
  Random random(17);
  const KernelCase one{"scatter_update",
                       {{"axis", int64_t{0}}},
                       {random_array(random, DType::kFloat32, {9, 3}),
                        random_labels(random, DType::kInt32, {700}, 7),
                        random_array(random, DType::kFloat32, {700, 3})},
                       {{DType::kFloat32, {9, 3}}}};
  const KernelRun expected = run_kernel(one, {cpu::fast_kernels()});
  for (const LaneOrder lanes : {LaneOrder::kForward, LaneOrder::kReversed})
    CHECK(same_numbers(run_on_device(one, {lanes}).run, expected));
}

TEST_CASE("what was picked thousands of times is summed in a fixed order", "[cuda]") {
  Random random(16);
  KernelCase one{"gather_grad",
                 {{"axis", int64_t{0}}, {"extent", int64_t{700}}},
                 {random_labels(random, DType::kInt32, {5000}, 3),
                  random_array(random, DType::kFloat32, {5000, 2})},
                 {{DType::kFloat32, {700, 2}}}};
  require_reference(one);
  // Beside a few that were picked a few times, and as often as is few and as is many.
  const std::span<int32_t> labels = one.inputs[0].as<int32_t>();
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = i % 9 == 0 ? static_cast<int32_t>(i % 7) : i < 577 ? 690 : i < 1155 ? 691 : 3;
  require_reference(one);
  one.op = "scatter_add";
  one.attributes = {{"axis", int64_t{0}}};
  one.inputs.insert(one.inputs.begin(), random_array(random, DType::kFloat32, {700, 2}));
  for (const size_t i : {0, 2})  // sums of whole numbers are exact in any order
    for (float& value : one.inputs[i].as<float>()) value = std::round(8 * value);
  CHECK(same_numbers(run_on_device(one).run, run_kernel(one, {cpu::fast_kernels()})));
}

}  // namespace flow::test
