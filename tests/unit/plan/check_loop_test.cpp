// What the plan check refuses of a loop, one corruption at a time.
#include <catch2/catch.hpp>

#include "runtime/plan/serialize.h"
#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

namespace {

/// Adds x to a state, which begins with zeros, until no element is less than x.
Plan looping_plan() {
  JobBuilder b("train");  // as corruptions expect
  const TensorId x = b.input("x", DType::kFloat32, {2, 3});
  const TensorId state = b.variable("state", {2, 3});
  b.job.variables.clear();
  const TensorId zeros = b.one(
      "fill", "zeros", {}, {{"dtype", DType::kFloat32}, {"shape", Integers{2, 3}}, {"value", 0.0}});
  b.alias(zeros, state);
  const TensorId more = b.one("add", "more", {state, x});
  b.alias(more, state);
  const TensorId until = b.one("less_equal", "until", {x, more});
  const TensorId last = b.one("reshape", "last", {more}, {{"shape", Integers{2, 3}}});
  b.job.loop = Loop{4, StepId(size_t{1}), StepId(size_t{3}), {state}, until};
  b.job.returns = {"Numpy", false, {ReturnValue::Kind::kNumpy, last, {}, {}, "last"}, {}, ""};
  return {kVersion, "job.yaml", "/somewhere", {b.done()}, {}};
}

}  // namespace

TEST_CASE("a plan with a loop passes the check and keeps its text", "[plan]") {
  const Plan plan = looping_plan();
  CHECK(refusal(plan).empty());
  const std::string text = to_json(plan);
  CHECK(to_json(from_json(text, "a.plan")) == text);
}

TEST_CASE("what a loop leaves to the next pass is set once in each part", "[plan]") {
  const auto remove_alias = [](std::string_view name) {
    return [name](Job& job) { tensor_named(job, name).alias = TensorId(); };
  };
  check_corruptions(
      {
          {"state `state`: is not set before the loop", remove_alias("zeros")},
          {"state `state`: is not set by a pass", remove_alias("more")},
          {"reads `state` before it is computed",
           [](Job& job) {
             Step& first = step_named(job, "zeros");
             first = step_named(job, "more");
             first.name = "zeros";
             first.outputs = {id_named(job, "zeros")};
           }},
          {"reads `state` after its update",
           [](Job& job) { step_named(job, "until").inputs[1] = id_named(job, "state"); }},
          {"cannot be the next value of `state`",
           [](Job& job) { tensor_named(job, "last").alias = id_named(job, "state"); }},
          {"`until`: does not come from a pass",
           [](Job& job) { job.loop->end = StepId(size_t{2}); }},
      },
      true, looping_plan());
}

TEST_CASE("a loop has passes, steps, states and a bool that ends it", "[plan]") {
  check_corruptions(
      {
          {"0 passes of a loop", [](Job& job) { job.loop->passes = 0; }},
          {"passes of a loop", [](Job& job) { job.loop->passes = kMaxPasses + 1; }},
          {"the loop has steps 1 to 9 of 4", [](Job& job) { job.loop->end = StepId(size_t{9}); }},
          {"the loop has steps 3 to 3", [](Job& job) { job.loop->first = job.loop->end; }},
          {"unknown tensor", [](Job& job) { job.loop->states = {TensorId(size_t{99})}; }},
          {"listed twice", [](Job& job) { job.loop->states.push_back(job.loop->states[0]); }},
          {"cannot reuse the memory of `state`", [](Job& job) { job.loop->states.clear(); }},
          {"expected a bool result", [](Job& job) { job.loop->until = id_named(job, "more"); }},
          {"requires a predict job", [](Job& job) { job.train = true; }},
      },
      false, looping_plan());
}
