// Values that end a run: those that are not finite, and labels out of range.
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>

#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

TEST_CASE("a loss that is not finite ends the run at its step, and keeps no bad state", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss);
  job.run.steps = 10;
  job.run.checkpoint.every_steps = 2;
  TestRun run(job, home.path());
  run.backend.nan_step = 5;
  const RunOutcome outcome = run.run();
  CHECK(outcome.exit_status == 1);
  CHECK(outcome.error == "job.yaml:8:5: step 5: the loss `loss` is nan");
  CHECK(outcome.steps == 6);
  CHECK(run.record()["error"] == outcome.error);
  CHECK(fs::exists(run / "checkpoints/000004"));
  CHECK_FALSE(fs::exists(run / "checkpoints/000006"));
  CHECK(run.metrics().back()["loss"].is_null());
  CHECK(numbers(run / "returns/loss/value.npy").size() == 6);
}

TEST_CASE("on_nonfinite: warn says it once and goes on", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 10;
  job.run.fail_on_nonfinite = false;
  TestRun run(job, home.path());
  run.backend.nan_step = 5;
  CHECK(run.run().steps == 10);
  REQUIRE(run.said.size() == 1);
  CHECK_THAT(run.said[0], Catch::StartsWith("job.yaml:8:5: step 5: the loss `loss` is nan"));
}

/// A predict job of ten steps, in all of which y is checked.
plan::Job checking_job() {
  plan::Job job = make_job(false, 2);
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].check_finite = true;
  job.hooks[0].sinks = {plan::NoSink{}};
  job.run.steps = 10;
  return job;
}

TEST_CASE("check: finite names tensor, step, index and the line of the hook", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  TestRun run(checking_job(), home.path());
  run.backend.nan_step = 3;
  int64_t launches = 0;
  run.backend.on_launch = [&](const Call&) { ++launches; };
  const RunOutcome outcome = run.run();
  CHECK(outcome.exit_status == 1);
  CHECK(outcome.error ==
        "job.yaml:11:7: step 3: tensor `y` is inf at [1, 1]; expected finite values");
  CHECK(outcome.steps == 4);
  CHECK(launches == 4);
}

TEST_CASE("of several checks that fail in a step the first is told", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = checking_job();
  job.hooks.push_back(job.hooks[0]);
  job.hooks[1].name = "again";
  job.hooks[1].where = "job.yaml:99:7";
  TestRun run(job, home.path());
  run.backend.nan_step = 3;
  CHECK_THAT(run.run().error, Catch::StartsWith("job.yaml:11:7: step 3: tensor `y`"));
}

TEST_CASE("a check that fails in the step that was to be the last is a failure, no interruption",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  TestRun run(checking_job(), home.path());
  run.backend.nan_step = 3;
  std::atomic<bool> asked = false;
  run.backend.on_launch = [&](const Call& call) { asked = asked || call.step == 3; };
  run.request.stop_signal = [&] { return asked ? SIGINT : 0; };
  const RunOutcome outcome = run.run();
  CHECK(outcome.exit_status == 1);
  CHECK_FALSE(outcome.interrupted());
  CHECK(run.record()["error"] == outcome.error);
}

TEST_CASE("a step whose check fails is not saved", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].check_finite = true;
  job.run.steps = 10;
  job.run.fail_on_nonfinite = false;
  job.run.checkpoint.every_steps = 2;
  TestRun run(job, home.path());
  run.backend.nan_step = 3;
  CHECK(run.run().exit_status == 1);
  CHECK(fs::exists(run / "checkpoints/000002"));
  CHECK_FALSE(fs::exists(run / "checkpoints/000004"));
}

TEST_CASE("a label out of range fails the run with step, row, label and input", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss);
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.backend.faulty_step = 4;
  int status = 0;
  CHECK(run.refusal(&status) ==
        "job.yaml:9:3: step 4: `labels` contains 7 at row 3; expected a value in [0, 5)\n"
        "count labels and indices from 0");
  CHECK(status == 3);
  CHECK(run.record()["exit_status"] == 3);
  CHECK(run.record()["last_step"] == 4);
  CHECK(numbers(run / "returns/loss/value.npy").size() == 4);
  CHECK_FALSE(fs::exists(run / "checkpoints"));
}

}  // namespace
}  // namespace flow::exec
