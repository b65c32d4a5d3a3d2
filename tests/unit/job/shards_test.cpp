// The key `shards`, and what it defaults to.
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

/// A predict job of 16 rows with those keys.
std::string sharded_job(const std::string& keys) {
  return "flow: 1\njobs:\n  j:\n    type: predict\n" + keys +
         "    inputs: {x: {shape: [16, 3], dtype: float32}}\n    graph: {y: {op: relu, in: x}}\n"
         "    returns: {type: ListNumpy, value: y}\n";
}

int64_t count_shards(const plan::Plan& plan, size_t job = 0) {
  const plan::Job& found = plan.jobs.at(job);
  const int64_t count = found.sharding ? found.sharding->count : 1;
  CHECK(found.devices == count);
  return count;
}

}  // namespace

TEST_CASE("A batch has as many shards as the job says, or as there are devices", "[job]") {
  CHECK(count_shards(plan_of(sharded_job(""))) == 1);
  CHECK(count_shards(plan_of(sharded_job("    shards: 1\n"))) == 1);
  CHECK(count_shards(plan_of(sharded_job("    shards: 8\n"))) == 8);
  const std::string four = "    placement: {device: cpu, ids: \"0:0-3\"}\n";
  CHECK(count_shards(plan_of(sharded_job(four))) == 4);
  CHECK(count_shards(plan_of(sharded_job(four + "    shards: 16\n"))) == 16);
  CHECK(messages_of(sharded_job(four + "    shards: 2\n")).find("E0707") != std::string::npos);
}

TEST_CASE("Shards can be set from the command line, each row one of them", "[job]") {
  CompileRequest request;
  request.sets = {"+jobs.j.shards=16"};
  const plan::Plan plan = plan_of(sharded_job(""), request);
  CHECK(count_shards(plan) == 16);
  CHECK(find_tensor(plan.jobs[0], "x")->shape == Shape{1, 3});
}

TEST_CASE("A job takes over the shards of the one that it extends", "[job]") {
  const std::string text = sharded_job("    shards: 4\n");
  CHECK(count_shards(plan_of(text + "  k: {type: predict, extends: j, returns: {value: y}}\n"),
                     1) == 4);
  CHECK(count_shards(
            plan_of(text + "  k: {type: predict, extends: j, shards: 1, returns: {value: y}}\n"),
            1) == 1);
}

TEST_CASE("A job without a batch can run on several devices", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: predict\n    placement: {ids: \"0:0-1\"}\n"
      "    inputs: {x: {shape: [3], dtype: float32, rows: false}}\n"
      "    graph: {y: {op: relu, in: x}}\n    returns: {type: ListNumpy, value: y}\n");
  CHECK(count_shards(plan) == 2);
  CHECK(find_tensor(plan.jobs[0], "y")->shape == Shape{3});
}

}  // namespace flow
