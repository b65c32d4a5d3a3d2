// What the plan check asks of results that may be many or absent, and of places that are trusted.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/plan/check.h"
#include "runtime/plan/lifetimes.h"
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

TEST_CASE("parts that nobody reads may be absent, the first may not") {
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
  CHECK_THAT(return_refusal(b, parts[1]), Catch::Contains("2 results, split has 3"));
}

TEST_CASE("the places of a top_k's gradient come from that top_k") {
  for (const int64_t extent : {int64_t{6}, int64_t{5}}) {
    sample::JobBuilder b("j");
    const TensorId x = b.input("x", DType::kFloat32, {6});
    const TensorId places = b.input("places", DType::kInt64, {2});
    const auto top = b.step("top_k", "t", {x}, {{"axis", int64_t{0}}, {"k", int64_t{2}}});
    const bool fits = extent == 6;
    const auto gradient = b.one("top_k_grad", "g", {top[0], fits ? places : top[1]},
                                {{"axis", int64_t{0}}, {"extent", extent}});
    CHECK_THAT(return_refusal(b, gradient),
               Catch::Contains("does not hold the places of these elements"));
    if (!fits) continue;
    b.job.steps[1].inputs[1] = top[1];
    CHECK(return_refusal(b, gradient) == "");
  }
}
