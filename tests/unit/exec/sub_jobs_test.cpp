// Jobs that are called while another one runs.
#include "runtime/exec/run/sub_jobs.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <set>

#include "runtime/plan/model/variable_sharing.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

plan::Job training(const std::string& called) {
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss);
  job.run.epochs = 3;
  job.run.also = {{called, 0, 1, "job.yaml:12:9"}};
  return job;
}

plan::Job validation() {
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY);
  return job;
}

struct Folder : FreshDirectory {
  Folder() { write_rows(*this / "x.npy", 6); }
};

TEST_CASE("a predict job is called with the variables as they are, and changes none", "[exec]") {
  const Folder folder;
  TestRun alone(
      [] {
        plan::Job job = training("eval");
        job.run.also.clear();
        return job;
      }(),
      folder.path(), "alone");
  alone.run();
  TestRun both(training("eval"), folder.path(), "both", validation());
  both.run();
  CHECK(numbers(both / "returns/loss/value.npy") == numbers(alone / "returns/loss/value.npy"));
  const auto y = numbers(both / "also/eval/returns/y/value.npy");
  REQUIRE(y.size() == 3 * 12);
  // y = x + w: w falls from call to call.
  CHECK(y[0] > y[12]);
  CHECK(y[12] > y[24]);
}

TEST_CASE("a job may be called every few epochs, and a train job takes one step a call", "[exec]") {
  const Folder folder;
  plan::Job train = training("eval");
  train.run.epochs = 5;
  train.run.also[0].every_epochs = 2;
  TestRun rare(train, folder.path(), "rare", validation());
  rare.run();
  CHECK(numbers(rare / "also/eval/returns/y/value.npy").size() == 2 * 12);

  plan::Job other = make_job(true, 2);
  other.run = {};
  other.name = "eval";
  TestRun trains(training("eval"), folder.path(), "trains", other);
  trains.run();
  CHECK(std::ranges::count(read_text(trains / "also/eval/metrics.jsonl"), '\n') == 3);
}

TEST_CASE("checkpoints are saved whether or not a job is called after their step", "[exec]") {
  const Folder folder;
  plan::Job train = training("eval");
  train.run.checkpoint.every_steps = 1;
  train.run.checkpoint.keep = 100;
  TestRun run(train, folder.path(), "out", validation());
  run.run();
  size_t saved = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(run / "checkpoints")) ++saved;
  CHECK(saved == 9);
}

TEST_CASE("seconds count on over the calls of another job", "[exec]") {
  const Folder folder;
  TestRun run(training("eval"), folder.path(), "out", validation());
  const RunOutcome outcome = run.run();
  double before = 0;
  for (const Json& line : run.metrics()) {
    const double seconds = line["seconds"];
    CHECK(seconds > 0);
    CHECK(seconds >= before);
    before = seconds;
  }
  CHECK(outcome.seconds >= before);
}

TEST_CASE("a call of a predict job that is interrupted is made again when the run is resumed",
          "[exec]") {
  const Folder folder;
  TestRun whole(training("eval"), folder.path(), "whole", validation());
  whole.run();
  TestRun parts(training("eval"), folder.path(), "parts", validation());
  int launches = 0;
  parts.backend.on_launch = [&](const Call&) { ++launches; };
  // The first epoch has three steps; the fifth call is the second of the validation.
  parts.request.stop_signal = [&] { return launches >= 5 ? 15 : 0; };
  const RunOutcome stopped = parts.run();
  CHECK(stopped.interrupted());
  CHECK(stopped.steps == 3);
  CHECK(numbers(parts / "also/eval/returns/y/steps.npy") == std::vector<double>{0, 1});

  TestRun resumed(training("eval"), folder.path(), "parts", validation());
  resumed.request.resume = true;
  resumed.run();
  for (const char* name :
       {"returns/loss/value.npy", "also/eval/returns/y/value.npy", "also/eval/returns/y/steps.npy"})
    CHECK(numbers(resumed / name) == numbers(whole / name));
}

TEST_CASE("a run is not resumed when the data of a job that it calls have another length",
          "[exec]") {
  const Folder folder;
  write_rows(folder / "rows.npy", 6);
  plan::Job eval = validation();
  eval.datasets[0].columns[0].files = {"rows.npy"};
  TestRun begun(training("eval"), folder.path(), "out", eval);
  begun.request.steps = 4;
  begun.run();
  for (const int64_t rows : {4, 8}) {
    write_rows(folder / "rows.npy", rows);
    TestRun resumed(training("eval"), folder.path(), "out", eval);
    resumed.request.resume = true;
    CHECK(resumed.refusal().find("the length of the data of job `eval` changed: 3 steps no longer "
                                 "fill whole calls") != std::string::npos);
  }
}

TEST_CASE("what is watched in every step that is left is wanted in every call", "[exec]") {
  const Folder folder;
  plan::Job train = training("eval"), eval = validation();
  eval.returns.reset();
  constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
  train.hooks = {watch(kX, "x", {{0, 9, 1}}), watch(kW, "w", {{0, 8, 1}}),
                 watch(kY, "y", {{1, kForever, 1}}), watch(kDiff, "diff", {{0, kForever, 2}})};
  eval.hooks = {watch(kX, "x", {{0, 9, 1}}), watch(kY, "y", {{0, kForever, 1}})};
  using Wanted = std::vector<std::set<plan::TensorId>>;
  TestRun begun(train, folder.path(), "out", eval);
  begun.request.steps = 4;
  begun.run();
  CHECK(begun.backend.always == Wanted{{kX, kW, kLoss}, {kY}});
  TestRun resumed(train, folder.path(), "out", eval);
  resumed.request.resume = true;
  CHECK(resumed.run().steps == 9);
  CHECK(resumed.backend.always == Wanted{{kX, kY, kLoss}, {kY}});
  CHECK(numbers(resumed / "watch/y/steps.npy").size() == 8);
}

TEST_CASE("a job that reads a stream cannot be called", "[exec]") {
  const Folder folder;
  plan::Job job = validation();
  job.inputs[0].source = plan::FromNpy{"/dev/stdin"};
  TestRun run(training("eval"), folder.path(), "out", job);
  CHECK(run.refusal().find("reads a stream") != std::string::npos);
}

TEST_CASE("jobs that train one variable with slots, or see it differently, cannot share it",
          "[exec]") {
  plan::Job train = make_job(true, 2), other = train;
  other.name = "other";
  CHECK(plan::sharing_conflict(train, other)->find("with optimizer slots") != std::string::npos);
  other.variables.pop_back();
  CHECK_FALSE(plan::sharing_conflict(train, other));
  other.tensors[kW.index()].shape = {3};
  CHECK(plan::sharing_conflict(train, other)->find("[3] in `other`") != std::string::npos);
}

}  // namespace
}  // namespace flow::exec
