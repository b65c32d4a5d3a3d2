// Where two plans part.
#include "runtime/plan/difference.h"

#include <catch2/catch.hpp>

#include "runtime/plan/model/shards.h"
#include "tests/unit/plan/sample.h"

namespace flow::plan {
namespace {

std::vector<std::string> texts(const Plan& a, const Plan& b) {
  std::vector<std::string> all;
  for (const Difference& difference : differences(a, b))
    all.push_back(difference.path + ": " + difference.a.value_or("none") + " -> " +
                  difference.b.value_or("none"));
  return all;
}

TEST_CASE("a plan does what it does itself, wherever it lies and whatever is noted in it",
          "[plan]") {
  const Plan plan = sample::full_plan();
  Plan moved = plan;
  moved.root = "/elsewhere";
  moved.notes = {"another note"};
  moved.jobs[0].steps[0].where = "other.yaml:1:1";
  CHECK(differences(plan, moved).empty());
}

TEST_CASE("values that differ are told with their place, by name", "[plan]") {
  const Plan plan = sample::full_plan();
  Plan other = plan;
  other.jobs[0].run.log_every = 17;
  other.jobs[0].seed += 1;
  const std::string job = plan.jobs[0].name;
  const auto found = texts(plan, other);
  REQUIRE(found.size() == 2);
  CHECK(found[0] ==
        job + ".run.log_every: " + std::to_string(plan.jobs[0].run.log_every) + " -> 17");
  CHECK(found[1].starts_with(job + ".seed: "));
}

TEST_CASE("what one plan has alone is told by its name, and a change of order as such", "[plan]") {
  const Plan plan = sample::full_plan();
  Plan other = plan;
  REQUIRE(other.jobs.size() > 1);
  other.jobs.pop_back();
  const auto gone = differences(plan, other);
  REQUIRE(gone.size() == 1);
  CHECK(gone[0].path == plan.jobs.back().name);
  CHECK_FALSE(gone[0].b.has_value());

  Plan turned = plan;
  std::swap(turned.jobs[0], turned.jobs[1]);
  const auto order = differences(plan, turned);
  REQUIRE(order.size() == 1);
  CHECK(order[0].path == " (order)");
}

TEST_CASE("of shards, their number is told, and not what follows from it", "[plan]") {
  const Plan sharded = sample::sharded_plan();
  Plan whole = sharded;
  whole.jobs[0] = unsharded_job(sharded.jobs[0]);
  whole.jobs[0].devices = 1;
  CHECK(texts(whole, sharded) == std::vector<std::string>{"train.shards: 1 -> 4"});
}

}  // namespace
}  // namespace flow::plan
