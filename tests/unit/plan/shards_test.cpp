// Jobs for the whole batch, and how often steps of shards run.
#include "runtime/plan/model/shards.h"

#include <catch2/catch.hpp>

#include "runtime/plan/model/cost.h"
#include "tests/unit/plan/corruptions.h"

namespace flow::plan::sample {
namespace {

TEST_CASE("the whole job has the shapes of the whole batch, and no shards", "[plan]") {
  const Plan plan = sharded_plan();
  Job whole = unsharded_job(plan.jobs[0]);
  CHECK_FALSE(whole.sharding.has_value());
  CHECK(tensor_named(whole, "x").shape == Shape{8, 3});
  CHECK(tensor_named(whole, "flat").shape == Shape{32});
  CHECK(step_named(whole, "flat").attributes.get<Integers>("shape") == Integers{32});
  CHECK(tensor_named(whole, "dense/weight").shape == Shape{4, 3});
  CHECK(tensor_named(whole, "dense/weight:diff").shape == Shape{4, 3});
  CHECK_FALSE(tensor_named(whole, "loss").combine.has_value());
  const Tensor& x = plan.jobs[0].tensors[0];
  CHECK(whole_shape(plan.jobs[0], x) == Shape{8, 3});
  CHECK(whole_shape(whole, x) == x.shape);
}

TEST_CASE("each shard runs the first steps, and the others run once", "[plan]") {
  Job job = sharded_plan().jobs[0];
  CHECK(shards_of(job) == 4);
  CHECK(runs_of(job, StepId(size_t{0})) == 4);
  CHECK(runs_of(job, StepId(size_t{5})) == 4);
  CHECK(runs_of(job, StepId(size_t{6})) == 1);
  double of_shard = 0, behind = 0;
  for (size_t i = 0; i < job.steps.size(); ++i)
    (i < 6 ? of_shard : behind) += estimate_seconds(job, job.steps[i]);
  CHECK(estimate_call_seconds(job) == Approx(4 * of_shard + behind));
  job.sharding.reset();
  CHECK(shards_of(job) == 1);
  CHECK(runs_of(job, StepId(size_t{0})) == 1);
}

}  // namespace
}  // namespace flow::plan::sample
