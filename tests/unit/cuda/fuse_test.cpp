// Which steps become parts of products: plan to plan, without a device.
#include "runtime/cuda/fuse.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/cuda/expand.h"
#include "runtime/cuda/matmul.h"
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
  cuda::LibraryKernel prepare(const cuda::MatmulSpec& spec) override {
    if (spec.aside == lacks_) throw RunError("no such product");
    return NaiveLibraries::prepare(spec);
  }

 private:
  std::optional<Aside> lacks_;
};

plan::Job fused(const plan::Job& job, std::optional<Aside> lacks = {},
                const std::vector<plan::TensorId>& visible = {}) {
  FakeDriver driver;
  LackingLibraries libraries(driver, lacks);
  const plan::Job expanded = cuda::expand_posts(job);
  return cuda::fuse_gradients(expanded, std::vector<size_t>(expanded.steps.size()), visible,
                              libraries);
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
    b.post("bias_add", {bias}, {{"axis", bias_axis}});
    b.post("relu", {}, {});
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

TEST_CASE("a product that somebody sees is not rectified in its place", "[cuda]") {
  Perceptron made;
  const plan::Job seen = fused(made.b.build(), {}, {made.dy});
  CHECK(count(seen, "relu_grad") == 1);
  CHECK(fused(made.b.build(), {}, {made.y, made.dr}).steps.size() == 4);
  made.b.step("scale", "reader", {made.dy}, {{"factor", 2.0}}, {4, 5});
  CHECK(count(fused(made.b.build()), "relu_grad") == 1);
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
  CHECK(count(cuda::fuse_gradients(job, segments, {}, libraries), "bias_add_grad") == 1);
  job.steps.back().tap = true;
  CHECK(count(fused(job), "bias_add_grad") == 1);
}

TEST_CASE("a bias may be updated before the product stood that makes its gradient", "[cuda]") {
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
