// Operations against values computed by hand.
#include "runtime/plan/model/cost.h"

#include <catch2/catch.hpp>

#include "tests/support/job_builder.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

double of(const Job& job, const std::string& name) {
  for (const Step& step : job.steps)
    if (step.name == name) return flops(job, step);
  FAIL("no step " << name);
  return 0;
}

TEST_CASE("LeNet's operations are those computed by hand", "[plan]") {
  const Job job = test::lenet_training(10);
  double products = 0, forward = 0;
  for (const Step& step : job.steps) {
    if (step.op.name().ends_with("_grad")) break;  // the first of the backward pass
    products += product_flops(job, step);
    forward += flops(job, step);
    for (const EpilogueOp& fused : step.epilogue) forward += flops(job, step, fused);
  }
  // Outputs x weights of a filter, twice: two convolutions and two dense layers.
  const double conv1 = 2. * 32 * 28 * 28 * 25, conv2 = 2. * 64 * 14 * 14 * 32 * 25;
  const double dense1 = 2. * 512 * 3136, dense2 = 2. * 10 * 512;
  CHECK(products == 10 * (conv1 + conv2 + dense1 + dense2));
  // With a bias and relu each, pools of 2 x 2, and a softmax with its loss.
  const double others = 2. * 32 * 28 * 28 + 4. * 32 * 14 * 14 + 2. * 64 * 14 * 14 +
                        4. * 64 * 7 * 7 + 2. * 512 + 10 + 5. * 10;
  CHECK(forward >= 10 * (conv1 + conv2 + dense1 + dense2 + others));
  CHECK(forward < 10 * (conv1 + conv2 + dense1 + dense2 + others + 2 * 512));  // dropout, mean
}

TEST_CASE("the gradients of a product have as many operations as the product", "[plan]") {
  const Job job = test::lenet_training(3);
  std::map<std::string, double> sums;
  for (const Step& step : job.steps) sums[step.op.name()] += flops(job, step);
  // Nothing asks for the gradient of the images.
  const double conv1 = 3 * 2. * 32 * 28 * 28 * 25;
  CHECK(sums["convolution_grad_weight"] == sums["convolution"]);
  CHECK(sums["convolution_grad_data"] == sums["convolution"] - conv1);
}

TEST_CASE("an attention has two products, its gradient five", "[plan]") {
  sample::JobBuilder made("attend");
  const TensorId query = made.input("query", DType::kFloat32, {2, 4, 10, 16});
  const TensorId key = made.input("key", DType::kFloat32, {2, 4, 12, 16});
  const TensorId value = made.input("value", DType::kFloat32, {2, 4, 12, 8});
  const auto out = made.step("scaled_dot_product_attention", "out", {query, key, value},
                             {{"causal", false}, {"scale", 0.25}});
  const TensorId dy = made.input("dy", DType::kFloat32, {2, 4, 10, 8});
  made.step("scaled_dot_product_attention_grad", "grad", {dy, query, key, value, out[0], out[1]},
            {{"causal", false}, {"scale", 0.25}});
  const Job job = made.done();
  CHECK(of(job, "out") == 2. * 2 * 4 * 10 * 12 * (16 + 8));
  CHECK(of(job, "grad") == 2. * 2 * 4 * 10 * 12 * (3 * 16 + 2 * 8));
}

TEST_CASE("a matrix product counts its transposed operand's depth", "[plan]") {
  sample::JobBuilder made("multiply");
  const TensorId a = made.input("a", DType::kFloat32, {5, 7, 3});
  const TensorId b = made.input("b", DType::kFloat32, {5, 7, 11});
  made.one("matmul", "out", {a, b}, {{"transpose_a", true}, {"transpose_b", false}});
  CHECK(of(made.done(), "out") == 2. * 5 * 3 * 11 * 7);
}

TEST_CASE("moved data are no operations, elementwise ops one for each element", "[plan]") {
  sample::JobBuilder made("elements");
  const TensorId x = made.input("x", DType::kFloat32, {4, 6});
  made.one("reshape", "flat", {x}, {{"shape", sample::Integers{24}}});
  made.one("relu", "cut", {x});
  made.one("reduce_sum", "sum", {x}, {{"axes", sample::Integers{0}}, {"keepdims", false}});
  made.one("softmax", "soft", {x}, {{"axis", int64_t{1}}});
  const Job job = made.done();
  CHECK(of(job, "flat") == 0);
  CHECK(of(job, "cut") == 24);
  CHECK(of(job, "sum") == 24);
  CHECK(of(job, "soft") == 5 * 24);
}

TEST_CASE("passes' names say what only training needs", "[plan]") {
  const auto backward = [](const char* name, const char* op) {
    Step step;
    step.name = name;
    step.op = op;
    return is_backward(step);
  };
  CHECK(backward("lenet/conv1/weight:diff", "convolution_grad_weight"));
  CHECK(backward("lenet/conv1/weight:update", "sgd_update"));
  CHECK(backward("minimize/clip_factor", "clip_factor"));
  CHECK_FALSE(backward("minimize/mean_loss", "reduce_mean"));
  CHECK_FALSE(backward("images:bfloat16", "cast"));
}

}  // namespace
}  // namespace flow::plan
