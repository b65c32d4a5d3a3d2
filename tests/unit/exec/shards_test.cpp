// Runs of jobs whose batch is cut: data and sinks see the whole batch.
#include <catch2/catch.hpp>

#include "runtime/cpu/backend/backend.h"
#include "runtime/plan/model/lifetimes.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

/// y = 2 x and the mean of y, in two shards of two rows each.
plan::Job job_of_shards() {
  plan::Job job = make_job(false, 2);
  plan::Step y, loss;
  y.op = "scale";
  y.name = "y";
  y.inputs = {kX};
  y.outputs = {kY};
  y.attributes.set("factor", 2.0);
  loss.op = "reduce_mean";
  loss.name = "loss";
  loss.inputs = {kY};
  loss.outputs = {kLoss};
  loss.attributes.set("axes", std::vector<int64_t>{0, 1});
  loss.attributes.set("keepdims", false);
  job.steps = {y, loss};
  job.tensors[kLoss.index()].combine = plan::Combine::kMean;
  job.sharding = plan::Sharding{2, plan::StepId(size_t{2})};
  job.devices = 2;
  return job;
}

TEST_CASE("a run of shards reads whole batches, and delivers what shards make together", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 8);
  plan::Job job = job_of_shards();
  job.returns = returns(kY);
  job.returns->value.kind = plan::ReturnValue::Kind::kListNumpy;
  job.hooks = {watch(kLoss, "loss", {{0, 9, 1}}), watch(kLoss, "parts", {{0, 9, 1}}),
               watch(kX, "x", {{1, 2, 1}})};
  job.hooks[1].per_device = true;
  plan::assign_lifetimes(job);
  const plan::Plan plan{plan::kVersion, "job.yaml", "", {job}, {}};
  const auto backend = cpu::make_backend();
  RunRequest request(plan, plan.jobs[0], home.path(), home / "out");
  fs::create_directories(request.directory);
  CHECK(run(*backend, request).steps == 2);
  const fs::path out = request.directory;
  CHECK(numbers(out / "returns/y/0/value.npy") == std::vector<double>{0, 2, 4, 6, 16, 18, 20, 22});
  CHECK(numbers(out / "returns/y/1/value.npy") ==
        std::vector<double>{8, 10, 12, 14, 24, 26, 28, 30});
  CHECK(numbers(out / "watch/loss/value.npy") == std::vector<double>{7, 23});
  CHECK(numbers(out / "watch/parts/0/value.npy") == std::vector<double>{3, 19});
  CHECK(numbers(out / "watch/parts/1/value.npy") == std::vector<double>{11, 27});
  CHECK(numbers(out / "watch/x/value.npy") == std::vector<double>{8, 9, 10, 11, 12, 13, 14, 15});
}

TEST_CASE("shards are refused where the backend does not run them", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 8);
  TestRun run(job_of_shards(), home.path());
  int status = 0;
  CHECK(run.refusal(&status) ==
        "job.yaml:4:3: shards are not supported on fake: job `eval` has 2, expected 1\n"
        "write `shards: 1`, or use --device cpu");
  CHECK(status == 2);
}

}  // namespace
}  // namespace flow::exec
