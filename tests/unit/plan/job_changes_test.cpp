// What a job computes otherwise, in the words of its file.
#include "runtime/plan/difference.h"

#include <catch2/catch.hpp>

#include "runtime/plan/model/shards.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

using Lines = std::vector<std::string>;

template <typename Change>
Lines changes(Change change) {
  const Plan plan = sample::full_plan();
  Plan other = plan;
  change(other.jobs[0]);
  return job_changes(plan, other, plan.jobs[0].name);
}

TEST_CASE("changes are told by the keys of the job file, with both values", "[plan]") {
  CHECK(changes([](Job& job) { job.seed = 77; }) ==
        Lines{"seed: " + std::to_string(sample::full_plan().jobs[0].seed) + " in the run, 77 now"});
  const Lines data = changes([](Job& job) { job.datasets[0].columns[0].files = {"other"}; });
  const Dataset dataset = sample::full_plan().jobs[0].datasets[0];
  REQUIRE(data.size() == 1);
  CHECK(data[0].starts_with("data." + dataset.name + "." + dataset.columns[0].name + "."));
  CHECK(data[0].ends_with(" in the run, other now"));
  const Lines rate =
      changes([](Job& job) { job.optimizer->learning_rate = {schedules::Constant{0.5}}; });
  REQUIRE(rate.size() == 1);
  CHECK(rate[0].starts_with("optimizer.learning_rate: "));
  CHECK(rate[0].ends_with(" in the run, 0.5 now"));
}

TEST_CASE("what a resumed run may change is no change", "[plan]") {
  CHECK(changes([](Job& job) {
          job.hooks.clear();
          job.run.epochs = 40;
          job.run.log_every = 3;
        }).empty());
}

TEST_CASE("another number of shards is told once", "[plan]") {
  const Plan sharded = sample::sharded_plan();
  Plan whole = sharded;
  whole.jobs[0] = unsharded_job(sharded.jobs[0]);
  whole.jobs[0].devices = 1;
  std::swap(whole.jobs[0].steps[0], whole.jobs[0].steps[3]);
  CHECK(job_changes(whole, sharded, "train") == Lines{"shards: 1 in the run, 4 now"});
}

TEST_CASE("a run of a plan without the job says so", "[plan]") {
  const Plan plan = sample::full_plan();
  CHECK(job_changes(plan, plan, "nobody") == Lines{"the run has no job `nobody`"});
}

}  // namespace
}  // namespace flow::plan
