// What the plan check asks of results that may be many or absent, and of places that are trusted.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/lifetimes.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;

namespace {

using Integers = std::vector<int64_t>;

/// What the check says of the job, which returns `returned`.
std::string return_refusal(sample::JobBuilder& b, TensorId returned) {
  b.job.returns =
      Returns{"Numpy", false, {ReturnValue::Kind::kNumpy, returned, {}, {}, "out"}, {NoSink{}}, ""};
  assign_lifetimes(b.job);
  Plan plan{kVersion, "job.yaml", "/", {b.job}, {}};
  try {
    check(plan, "a.plan");
    return {};
  } catch (const RequestError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("parts that nobody reads may be absent, the first may not", "[plan]") {
  sample::JobBuilder b("j");
  const TensorId x = b.input("x", DType::kFloat32, {6});
  const auto parts =
      b.step("split", "s", {x}, {{"axis", int64_t{0}}, {"sizes", Integers{1, 2, 3}}});
  CHECK(b.job[parts[2]].name == "s.out2");
  CHECK(return_refusal(b, parts[1]) == "");
  b.job.tensors.pop_back();
  b.job.steps[0].outputs[2] = TensorId();
  CHECK(return_refusal(b, parts[1]) == "");
  b.job.steps[0].outputs[0] = TensorId();
  CHECK_THAT(return_refusal(b, parts[1]), Catch::Contains("result 0 must be a tensor"));
  b.job.steps[0].outputs.pop_back();
  CHECK_THAT(return_refusal(b, parts[1]), Catch::Contains("2 results; split has 3"));
}

TEST_CASE("the places of a top_k's gradient come from that top_k", "[plan]") {
  for (const int64_t extent : {int64_t{6}, int64_t{5}}) {
    sample::JobBuilder b("j");
    const TensorId x = b.input("x", DType::kFloat32, {6});
    const TensorId places = b.input("places", DType::kInt64, {2});
    const auto top = b.step("top_k", "t", {x}, {{"axis", int64_t{0}}, {"k", int64_t{2}}});
    const bool fits = extent == 6;
    const auto gradient = b.one("top_k_grad", "g", {top[0], fits ? places : top[1]},
                                {{"axis", int64_t{0}}, {"extent", extent}});
    CHECK_THAT(return_refusal(b, gradient),
               Catch::Contains("does not come from the matching top_k"));
    if (!fits) continue;
    b.job.steps[1].inputs[1] = top[1];
    CHECK(return_refusal(b, gradient) == "");
  }
}

TEST_CASE("the places of a gradient's windows are those of the same windows on the same image",
          "[plan]") {
  const auto refused = [](Integers image, Integers ksize, Integers strides) {
    sample::JobBuilder b("j");
    const TensorId x = b.input("x", DType::kFloat32, {1, 1, 3, 3});
    const Integers pads{0, 0, 0, 0}, two{2, 2};
    const auto pool =
        b.step("max_pool2d", "p", {x}, {{"ksize", two}, {"strides", two}, {"padding", pads}});
    const TensorId gradient =
        b.one("max_pool2d_grad", "g", {pool[0], pool[1]},
              {{"ksize", ksize}, {"strides", strides}, {"padding", pads}, {"input_shape", image}});
    return return_refusal(b, gradient);
  };
  const auto wrong = Catch::Contains("does not come from the matching max_pool2d");
  // There is one window each time.
  CHECK(refused({1, 1, 3, 3}, {2, 2}, {2, 2}).empty());
  CHECK_THAT(refused({1, 1, 2, 2}, {2, 2}, {2, 2}), wrong);
  CHECK_THAT(refused({1, 1, 3, 3}, {3, 3}, {2, 2}), wrong);
  CHECK_THAT(refused({1, 1, 3, 3}, {2, 2}, {3, 3}), wrong);
}

TEST_CASE("the places of a top_k's gradient are its second result, along its axis", "[plan]") {
  const auto wrong = Catch::Contains("does not come from the matching top_k");
  const std::vector<Attributes::Entry> gradient_of_four = {{"axis", int64_t{0}},
                                                           {"extent", int64_t{4}}};
  sample::JobBuilder axis("j");
  const TensorId tall = axis.input("x", DType::kFloat32, {9, 2});
  const auto top = axis.step("top_k", "t", {tall}, {{"axis", int64_t{0}}, {"k", int64_t{2}}});
  CHECK_THAT(return_refusal(axis, axis.one("top_k_grad", "g", {top[0], top[1]},
                                           {{"axis", int64_t{1}}, {"extent", int64_t{2}}})),
             wrong);

  sample::JobBuilder result("j");
  const TensorId numbers = result.input("x", DType::kInt64, {4});
  const TensorId dy = result.input("dy", DType::kFloat32, {2});
  const auto largest =
      result.step("top_k", "t", {numbers}, {{"axis", int64_t{0}}, {"k", int64_t{2}}});
  CHECK_THAT(
      return_refusal(result, result.one("top_k_grad", "g", {dy, largest[0]}, gradient_of_four)),
      wrong);

  sample::JobBuilder op("j");
  const TensorId whole = op.input("x", DType::kInt64, {4});
  const TensorId dhalf = op.input("dy", DType::kFloat32, {2});
  const auto halves =
      op.step("split", "s", {whole}, {{"axis", int64_t{0}}, {"sizes", Integers{2, 2}}});
  CHECK_THAT(return_refusal(op, op.one("top_k_grad", "g", {dhalf, halves[1]}, gradient_of_four)),
             wrong);
}
