// Which steps become parts of products: plan to plan, without a device.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>

#include "ops/products/cuda.h"
#include "runtime/base/error.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {
namespace {

using cuda::Aside;

/// Has products with anything aside but this.
class LackingLibraries : public cuda::NaiveLibraries {
 public:
  LackingLibraries(cuda::Driver& driver, std::optional<Aside> lacks)
      : NaiveLibraries(driver), lacks_(lacks) {}
  Expected<cuda::LibraryKernel> find(const cuda::MatmulSpec& spec) override {
    if (spec.aside == lacks_) return RunError("no such product");
    return NaiveLibraries::find(spec);
  }

 private:
  std::optional<Aside> lacks_;
};

plan::Job fused(const plan::Job& job, std::optional<Aside> lacks = {},
                const std::vector<plan::TensorId>& visible = {}) {
  FakeDriver driver;
  LackingLibraries libraries(driver, lacks);
  const plan::Job expanded = cuda::lower_epilogues(job);
  return cuda::fuse_gradients(expanded, std::vector<size_t>(expanded.steps.size()), visible,
                              libraries, driver);
}

/// "relu_grad", "bias_add_grad": how many steps of them are left.
int64_t count(const plan::Job& job, const std::string& op) {
  return std::ranges::count(job.steps, op, &plan::Step::op);
}

const plan::Step& maker_of(const plan::Job& job, const std::string& name) {
  const plan::TensorId id = tensor(job, name);
  for (const plan::Step& step : job.steps)
    if (std::ranges::find(step.outputs, id) != step.outputs.end()) return step;
  FAIL("nothing makes " << name);
  return job.steps.front();
}

/// x W, rectified, times V: the gradients of it all, given dz [4, 2] of z = relu(x W + b) V + c.
struct Perceptron {
  JobBuilder b;
  plan::TensorId x = b.input("x", {4, 3}), dz = b.input("dz", {4, 2});
  plan::TensorId w = b.variable("w", {3, 5}), v = b.variable("v", {2, 5});
  plan::TensorId bias = b.variable("b", {5}), y, dy, dr;

  explicit Perceptron(int64_t bias_axis = 1) {
    y = product("y", x, w, false, false, {4, 5});
    b.fuse("bias_add", {bias}, {{"axis", bias_axis}});
    b.fuse("relu", {}, {});
    b.step("bias_add_grad", "dc", {dz}, {{"axis", int64_t{1}}}, {2});
    product("dv", dz, y, true, false, {2, 5});
    dy = product("dy", dz, v, false, false, {4, 5});
    dr = b.step("relu_grad", "dr", {dy, y}, {}, {4, 5}, DType::kFloat32, dy);
    product("dw", x, dr, true, false, {3, 5});
    b.step("bias_add_grad", "db", {dr}, {{"axis", int64_t{1}}}, {5});
  }

  plan::TensorId product(const char* name, plan::TensorId left, plan::TensorId right, bool a,
                         bool of_b, Shape shape) {
    return b.step("matmul", name, {left, right}, {{"transpose_a", a}, {"transpose_b", of_b}},
                  std::move(shape));
  }
};

}  // namespace

TEST_CASE("a product makes the gradients of a bias and a ReLU beside its own", "[cuda]") {
  Perceptron made;
  const plan::Job job = fused(made.b.build());
  CHECK(job.steps.size() == 4);
  CHECK(cuda::aside_of(maker_of(job, "y")) == Aside::kStoreMask);
  const plan::Step& gradient = maker_of(job, "dr");
  CHECK(gradient.name == "dy");
  CHECK(cuda::aside_of(gradient) == Aside::kReadMask);
  CHECK(gradient.inputs == std::vector{made.dz, made.v, maker_of(job, "y").outputs[1]});
  CHECK(job[gradient.inputs[2]].shape == Shape{4, 16});
  CHECK_FALSE(job[made.dr].alias.valid());
  CHECK(maker_of(job, "dc").name == "dv");
  CHECK(cuda::aside_of(maker_of(job, "dc")) == Aside::kSumsOfA);
  CHECK(maker_of(job, "db").name == "dw");
  CHECK(cuda::aside_of(maker_of(job, "db")) == Aside::kSumsOfB);
}

TEST_CASE("where a library lacks a product, the step stands apart", "[cuda]") {
  const auto left = [](std::optional<Aside> lacks) {
    const plan::Job job = fused(Perceptron().b.build(), lacks);
    return std::pair(count(job, "relu_grad"), count(job, "bias_add_grad"));
  };
  CHECK(left({}) == std::pair<int64_t, int64_t>(0, 0));
  CHECK(left(Aside::kStoreMask) == std::pair<int64_t, int64_t>(1, 0));
  CHECK(left(Aside::kReadMask) == std::pair<int64_t, int64_t>(1, 0));
  CHECK(left(Aside::kSumsOfA) == std::pair<int64_t, int64_t>(0, 1));
  CHECK(left(Aside::kSumsOfB) == std::pair<int64_t, int64_t>(0, 1));
}

TEST_CASE("what is watched changes nothing but that a tap makes it", "[cuda]") {
  Perceptron made;
  const auto without_probes = [](plan::Job job) {
    std::erase_if(job.steps, [](const plan::Step& step) { return step.probe; });
    return step_names(job);
  };
  const std::vector<std::string> steps = step_names(fused(made.b.build()));
  CHECK(step_names(fused(made.b.build(), {}, {made.y, made.dr})) == steps);
  const plan::Job seen = fused(made.b.build(), {}, {made.dy});
  CHECK(without_probes(seen) == steps);
  const plan::Step& probe = maker_of(seen, "dy");
  CHECK(probe.probe);
  CHECK(probe.inputs == std::vector{made.dz, made.v});
  CHECK(cuda::aside_of(probe) == Aside::kNothing);

  made.b.step("scale", "reader", {made.dy}, {{"factor", 2.0}}, {4, 5});
  CHECK(count(fused(made.b.build()), "relu_grad") == 1);
  made.b.last_step().probe = true;
  const plan::Job tapped = fused(made.b.build());
  CHECK(without_probes(tapped) == steps);
  CHECK(maker_of(tapped, "dy").probe);
}

TEST_CASE("products whose results are rounded keep and read masks before that", "[cuda]") {
  const bool seen = GENERATE(false, true);
  const DType low_precision = DType::kBFloat16;
  JobBuilder b;
  const auto x = b.input("x", {4, 3}, low_precision), w = b.input("w", {3, 5}, low_precision);
  const auto dz = b.input("dz", {4, 2}, low_precision), v = b.input("v", {2, 5}, low_precision);
  const JobBuilder::Attributes plain = {{"transpose_a", false}, {"transpose_b", false}};
  b.step("matmul", "y32", {x, w}, plain, {4, 5});
  b.fuse("relu", {}, {});
  const auto y = b.step("cast", "y", {tensor(b.build(), "y32")}, {{"dtype", low_precision}}, {4, 5},
                        low_precision);
  const auto dy32 = b.step("matmul", "dy32", {dz, v}, plain, {4, 5});
  const auto dy = b.step("cast", "dy", {dy32}, {{"dtype", low_precision}}, {4, 5}, low_precision);
  b.step("relu_grad", "dr", {dy, y}, {}, {4, 5}, low_precision, dy);
  if (!seen) {
    JobBuilder other = b;
    other.step("scale", "reader", {dy}, {{"factor", 2.0}}, {4, 5}, low_precision);
    CHECK(count(fused(other.build()), "relu_grad") == 1);
  }
  const plan::Job job =
      fused(b.build(), {}, seen ? std::vector{dy} : std::vector<plan::TensorId>());
  CHECK(count(job, "relu_grad") == 0);
  const plan::Step& rounded = maker_of(job, "dr");
  CHECK(rounded.name == "dy");
  CHECK((rounded.inputs[0] == dy32) == !seen);
  for (const plan::Step& step : job.steps)
    if (step.name == "dy32") CHECK(step.outputs == rounded.inputs);
  if (seen) CHECK(maker_of(job, "dy").probe);
  if (seen) CHECK(maker_of(job, "dy32").probe);
}

TEST_CASE("a sum over columns stays a step beside a product that sums over rows", "[cuda]") {
  for (const int64_t axis : {0, 1}) {
    JobBuilder b;
    const auto x = b.input("x", {4, 4}), dy = b.input("dy", {4, 4});
    b.step("matmul", "dw", {x, dy}, {{"transpose_a", true}, {"transpose_b", false}}, {4, 4});
    b.step("bias_add_grad", "sums", {dy}, {{"axis", axis}}, {4});
    CHECK(count(fused(b.build()), "bias_add_grad") == (axis == 0 ? 1 : 0));
  }
}

TEST_CASE("no mask is kept of several products", "[cuda]") {
  JobBuilder b;  // y[i] = relu(x[i] W), and the gradient of v y[i] for each i
  const auto x = b.input("x", {2, 4, 3}), w = b.variable("w", {3, 5}), v = b.variable("v", {6, 4});
  const auto dz = b.input("dz", {2, 6, 5});
  const auto y =
      b.step("matmul", "y", {x, w}, {{"transpose_a", false}, {"transpose_b", false}}, {2, 4, 5});
  b.fuse("relu", {}, {});
  const auto dy =
      b.step("matmul", "dy", {v, dz}, {{"transpose_a", true}, {"transpose_b", false}}, {2, 4, 5});
  b.step("relu_grad", "dr", {dy, y}, {}, {2, 4, 5});
  CHECK(count(fused(b.build()), "relu_grad") == 1);
}

TEST_CASE("no mask is kept of a product whose bias lies along its rows", "[cuda]") {
  CHECK(count(fused(Perceptron(0).b.build()), "relu_grad") == 1);
}

TEST_CASE("steps of different segments or calls stay apart", "[cuda]") {
  Perceptron made;
  plan::Job job = made.b.build();
  FakeDriver driver;
  cuda::NaiveLibraries libraries(driver);
  std::vector<size_t> segments(job.steps.size());
  segments.back() = 1;  // db
  CHECK(count(cuda::fuse_gradients(job, segments, {}, libraries, driver), "bias_add_grad") == 1);
  job.steps.back().probe = true;
  CHECK(count(fused(job), "bias_add_grad") == 1);
}

TEST_CASE("nothing is read before it is made, though a bias is updated first", "[cuda]") {
  const plan::Job job = fused(mlp_training(3, 4));
  CHECK(count(job, "bias_add_grad") == 0);
  std::vector<bool> made(job.tensors.size());
  for (const plan::Step& step : job.steps) {
    for (const plan::TensorId id : step.inputs)
      CHECK((made[id.index()] || job[id].role != plan::Role::kResult));
    for (const plan::TensorId id : step.outputs)
      if (id.valid()) made[id.index()] = true;
  }
}

TEST_CASE("the gradient of a convolution's bias stays a step", "[cuda]") {
  const plan::Job job = fused(lenet_training(2));
  CHECK(count(job, "bias_add_grad") == 2);  // of four
}

}  // namespace flow::test
