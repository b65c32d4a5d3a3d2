// Asynchronous jobs: calls run ahead of their sinks, as far as the pipeline is long.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <thread>

#include "tests/support/fresh_directory.h"
#include "tests/support/sanitized.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

plan::Job asynchronous(plan::Job job, int64_t pipeline = 3) {
  job.returns = returns(kLoss);
  job.returns->callback = true;
  job.run.pipeline = pipeline;
  return job;
}

TEST_CASE("an asynchronous job runs ahead of its sinks by its pipeline, and no further", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = asynchronous(make_job(true, 2));
  job.run.epochs = 20;
  TestRun run(job, home.path());
  std::atomic<int64_t> launched = 0, reached = 0, furthest = 0;
  run.backend.on_launch = [&](const Call& call) {
    furthest = std::max(furthest.load(), call.step - reached);
    launched = call.step + 1;
  };
  run.request.progress = [&](const Progress& progress) {
    // Steps 1, 2 and 3 are launched while the sinks are kept waiting after step 0.
    while (progress.steps > 0 && progress.step == 1 && launched < 4) std::this_thread::yield();
    reached = progress.step;
  };
  run.run();
  CHECK(furthest >= 3);
  CHECK(furthest <= 4);  // a step counts here when it is in the record log, after its sinks have it
}

TEST_CASE("an asynchronous job leaves what a synchronous one leaves", "[exec]") {
  for (const bool beside : {false, true}) {
    const FreshDirectory home;
    write_rows(home / "x.npy", 6);
    plan::Job job = asynchronous(make_job(true, 2));
    job.run.epochs = 7;
    job.run.checkpoint.every_steps = 4;
    job.hooks = {watch(kY, "y", {{0, 100, 2}})};
    TestRun ahead(job, home.path(), "ahead");
    ahead.backend.beside = beside;
    job.returns->callback = false;
    TestRun usual(job, home.path(), "usual");
    ahead.run();
    usual.run();
    for (const char* file :
         {"returns/loss/value.npy", "returns/loss/steps.npy", "watch/y/value.npy",
          "watch/y/steps.npy", "checkpoints/000016/net/w.npy", "checkpoints/000020/net/w.npy",
          "checkpoints/000021/net/w.npy"})
      CHECK(numbers(ahead / file) == numbers(usual / file));
  }
}

TEST_CASE("an asynchronous job's device gets a call ahead although each is delivered", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = asynchronous(make_job(false, 2));
  job.run.steps = 3;
  TestRun run(job, home.path());
  run.backend.beside = true;
  run.run();
  CHECK(run.backend.calls ==
        std::vector<std::string>{"launch 0", "launch 1", "wait 0", "launch 2", "wait 1", "wait 2"});
}

TEST_CASE("what an asynchronous job prints over an epoch is told at its end, whatever fires then",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 8);
  plan::Job job = asynchronous(make_job(false, 2));
  job.returns->sinks = {plan::NoSink{}};
  const plan::PrintSink sum{.label = "y", .reduce = plan::Reduce::kSum, .over = plan::Over::kEpoch};
  job.hooks = {watch(kY, "y", {{0, 100, 4}})};  // the first of each four steps
  job.hooks[0].sinks = {sum};
  job.run.epochs = 3;
  const auto printed = [&](const std::string& out) {
    TestRun run(job, home.path(), out);
    const fs::path path = home / (out + ".txt");
    run.request.out = std::fopen(path.c_str(), "w");
    run.run();
    std::fclose(run.request.out);
    return read_text(path);
  };
  const std::string text = printed("ahead");
  CHECK(std::ranges::count(text, '\n') == 3);
  job.run.pipeline = 1;
  CHECK(printed("usual") == text);
}

TEST_CASE("sinks see a hundred thousand small steps once and in order", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = asynchronous(make_job(false, 2), 8);
  job.run.steps = 100000 / test::kCasesPerTried;
  TestRun run(job, home.path());
  run.run();
  std::vector<double> all(static_cast<size_t>(*job.run.steps));
  std::iota(all.begin(), all.end(), 0);
  CHECK(numbers(run / "returns/loss/steps.npy") == all);
}

TEST_CASE("a check that fails behind calls that ran ahead ends the run, and says its step",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 40);
  plan::Job job = asynchronous(make_job(true, 2));
  job.run.epochs = 1;
  job.hooks = {watch(kLoss, "loss", {{5, 6, 1}})};
  job.hooks[0].check_finite = true;
  job.run.fail_on_nonfinite = false;
  TestRun run(job, home.path());
  run.backend.nan_step = 5;
  const RunOutcome outcome = run.run();
  CHECK(outcome.exit_status == 1);
  CHECK(outcome.error.find("step 5: tensor `loss` is nan") != std::string::npos);
  CHECK(numbers(run / "returns/loss/steps.npy").back() == 5);
}

TEST_CASE("a fault of a call that ran ahead comes after all that was right before it", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 40);
  plan::Job job = asynchronous(make_job(true, 2));
  job.run.epochs = 1;
  TestRun run(job, home.path());
  run.backend.beside = true;
  run.backend.faulty_step = 7;
  CHECK(run.refusal().find("step 7: `labels` contains 7") != std::string::npos);
  CHECK(numbers(run / "returns/loss/steps.npy").back() == 6);
}

}  // namespace
}  // namespace flow::exec
