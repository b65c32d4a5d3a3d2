// What a power cut or a failing disk leaves: outputs before their record, checkpoints whole.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/exec/checkpoint/checkpoint.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/preparation.h"
#include "tests/support/file_calls.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

using Calls = std::vector<std::string>;

/// A job that returns y, joined, and leaves the loss of each step in a file of its own.
plan::Job delivering_job(bool train) {
  plan::Job job = make_job(train, 2);
  job.returns = returns(kY);
  job.hooks = {watch(kLoss, "loss", {{0, 100, 1}})};
  job.hooks[0].sinks = {plan::NpySink{true}};
  return job;
}

/// The last calls of a run that keeps its outputs.
const Calls kKept = {"syncfs out", "fsync out/.run.json.tmp", "rename out/run.json", "fsync out"};

Calls last_of(const Calls& calls, size_t count) {
  return {calls.end() - static_cast<ptrdiff_t>(std::min(count, calls.size())), calls.end()};
}

TEST_CASE("outputs are on the disk before the record that says how their run ended", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 6);
  const bool train = GENERATE(false, true);
  const FileCalls calls(home.path());
  TestRun run(delivering_job(train), home.path());
  SECTION("done") { run.run(); }
  SECTION("failed") {
    run.backend.faulty_step = 1;
    CHECK(run.refusal() != "no error");
  }
  SECTION("a check failed") {
    run.backend.nan_step = 1;
    CHECK(run.run().exit_status == (train ? 1 : 0));
  }
  CHECK(last_of(calls.list(), kKept.size()) == kKept);
}

TEST_CASE("a resumed run has no record of the run before, not even after a power cut", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 6);
  TestRun first(delivering_job(true), home.path());
  first.request.steps = 1;
  first.run();
  const FileCalls calls(home.path());
  TestRun run(delivering_job(true), home.path());
  run.request.resume = true;
  run.run();
  const Calls all = calls.list();
  const auto removed = std::ranges::find(all, "remove out/run.json");
  REQUIRE(removed != all.end());
  CHECK(removed[1] == "fsync out");
}

TEST_CASE("a run whose outputs the file system cannot keep fails, and its record says so",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 6);
  for (const char* call :
       {"close out/returns/y/value.npy", "close out/returns/y/steps.npy",
        "close out/watch/loss/.000001.npy.tmp", "close out/metrics.jsonl", "syncfs out",
        "close out/checkpoints/.000003.tmp/net/w.npy",
        "close out/checkpoints/.000003.tmp/checkpoint.json", "syncfs out/checkpoints/.000003.tmp",
        "fsync out/checkpoints", "close out/also/eval/returns/y/value.npy"}) {
    INFO(call);
    fs::remove_all(home / "out");
    FileCalls calls(home.path());
    plan::Job job = delivering_job(true);
    job.run.also = {{"eval", 3, 0, "job.yaml:12:3"}};
    TestRun run(job, home.path(), "out", delivering_job(false));
    calls.fail(call, EIO);
    int status = 0;
    CHECK_THAT(run.refusal(&status), Catch::Contains("Input/output error"));
    CHECK(status == 3);
    CHECK(run.record()["exit_status"] == 3);
    CHECK(run.record()["error"].get<std::string>().find("Input/output error") != std::string::npos);
  }
}

/// Two variables with values of their own.
struct TwoVariables {
  explicit TwoVariables(float value, const std::string& second = "net/w/momentum")
      : job(make_job(true, 2)), state({&job}) {
    job.tensors[kSlot.index()].name = second;
    for (State::Entry& entry : state.entries()) {
      entry.value = Array(DType::kFloat32, {2});
      std::ranges::fill(entry.value.as<float>(), value);
    }
  }
  plan::Job job;
  State state;
};

TEST_CASE("a checkpoint is on the disk before it has its name, and an older one goes after that",
          "[exec]") {
  const FreshDirectory home;
  const TwoVariables one(1);
  const fs::path path = home / "final";
  {
    const FileCalls calls(home.path());
    write_checkpoint(path, one.state, {});
    CHECK(calls.list() == Calls{"syncfs .final.tmp", "rename final", "fsync ."});
  }
  const FileCalls calls(home.path());
  write_checkpoint(path, one.state, {});
  const Calls all = calls.list();
  REQUIRE(all.size() > 4);
  CHECK(Calls(all.begin(), all.begin() + 3) ==
        Calls{"syncfs .final.tmp", "exchange final", "fsync ."});
  CHECK(std::all_of(all.begin() + 3, all.end(),
                    [](const std::string& call) { return call.starts_with("remove .final.tmp"); }));
}

TEST_CASE("a save that breaks half-way leaves the older checkpoint whole", "[exec]") {
  const FreshDirectory home;
  const fs::path path = home / "final";
  const TwoVariables old(1), fresh(2);
  write_checkpoint(path, old.state, {});
  FileCalls calls(home.path());
  SECTION("at its second variable") {
    // No folder can be made where the first one's file is.
    const TwoVariables broken(2, "net/w.npy/x");
    CHECK_THROWS_AS(write_checkpoint(path, broken.state, {}), RunError);
  }
  SECTION("at its record") {
    calls.fail("close .final.tmp/checkpoint.json", ENOSPC);
    CHECK_THROWS_AS(write_checkpoint(path, fresh.state, {}), RunError);
  }
  SECTION("at its sync") {
    calls.fail("syncfs .final.tmp", EIO);
    CHECK_THROWS_AS(write_checkpoint(path, fresh.state, {}), RunError);
  }
  SECTION("at its move, where the file system cannot exchange folders") {
    calls.fail("exchange final", EINVAL);
    calls.fail("rename final", EIO);
    CHECK_THROWS_AS(write_checkpoint(path, fresh.state, {}), RunError);
  }
  const Checkpoint kept(path);
  CHECK(kept.read("net/w").as<float>()[0] == 1);
  CHECK(kept.read("net/w/momentum").as<float>()[1] == 1);
  CHECK(std::distance(fs::directory_iterator(home.path()), fs::directory_iterator()) == 1);
}

TEST_CASE("a state is not captured while the copy before is still being written", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 8);
  TestRun run(make_job(true, 2), home.path());
  PreparedRun prepared = prepare_run(run.backend, run.request);
  Deliverer deliverer(run.request.job, prepared.input_pipeline->step_index(), prepared.deliveries,
                      {});
  ThreadPool pool(kThreads);
  std::atomic<int> captured = 0, overwritten = 0;
  const auto write_slowly = [&](const StepRecord&) {
    const int before = captured;
    for (int i = 0; i < 50 && captured == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    overwritten += captured - before;
  };
  execute({.prepared = prepared,
           .deliverer = deliverer,
           .first = 0,
           .end = 4,
           .pool = pool,
           .capture = [&] { ++captured; },
           .saves = [](int64_t) { return true; },
           .on_step = write_slowly,
           .stop = {}});
  CHECK(captured == 4);
  CHECK(overwritten == 0);
}

}  // namespace
}  // namespace flow::exec
