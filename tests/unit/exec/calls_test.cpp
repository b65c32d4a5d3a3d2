// When calls are made, and what is done beside them.
#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <thread>

#include "runtime/io/npy.h"
#include "tests/support/allocation_count.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/npy_bytes.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

/// A train run of six steps of which the loss is printed every third.
struct PrintingRun : TestRun {
  PrintingRun(const fs::path& home, const std::string& out) : TestRun(make(), home, out) {
    request.out = std::tmpfile();
  }
  ~PrintingRun() { std::fclose(request.out); }

  static plan::Job make() {
    plan::PrintSink print;
    print.reduce = plan::Reduce::kMean;
    print.every = 3;
    plan::Job job = make_job(true, 2);
    job.returns = returns(kLoss, {print});
    job.run.epochs = 3;
    return job;
  }
  std::string printed() {
    std::string text(static_cast<size_t>(std::ftell(request.out)), '\0');
    std::rewind(request.out);
    REQUIRE(std::fread(text.data(), 1, text.size(), request.out) == text.size());
    return text;
  }
};

TEST_CASE("a device beside the host gets a call ahead where nothing of the one before leaves",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  PrintingRun usual(home.path(), "usual"), ahead(home.path(), "ahead");
  ahead.backend.beside = true;
  usual.run();
  ahead.run();
  CHECK(ahead.backend.calls ==
        std::vector<std::string>{"launch 0", "wait 0", "launch 1", "launch 2", "wait 1", "launch 3",
                                 "wait 2", "wait 3", "launch 4", "launch 5", "wait 4", "wait 5"});
  CHECK(ahead.printed() == usual.printed());
  CHECK(numbers(ahead / "checkpoints/000006/net/w.npy") ==
        numbers(usual / "checkpoints/000006/net/w.npy"));
}

TEST_CASE("a device beside the host gets no call ahead of one whose input is made in step with it",
          "[exec]") {
  const FreshDirectory home;
  const fs::path pipe = home / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  plan::Job job = make_job(true, 2);
  job.inputs[0].source = plan::FromNpy{"pipe"};
  job.run.steps = 3;
  std::fstream maker(pipe, std::ios::in | std::ios::out | std::ios::binary);  // waits for no reader
  for (int record = 0; record < 3; ++record)
    maker << npy_bytes(Array(DType::kFloat32, Shape{2, 2}).view()) << std::flush;
  TestRun run(std::move(job), home.path());
  run.backend.beside = true;
  run.run();
  CHECK(run.backend.calls ==
        std::vector<std::string>{"launch 0", "wait 0", "launch 1", "wait 1", "launch 2", "wait 2"});
}

TEST_CASE("a call that failed behind another one's back is told as its own", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  PrintingRun run(home.path(), "out");
  run.backend.beside = true;
  run.backend.faulty_step = 1;
  CHECK(run.refusal().find("step 1: `labels` contains 7") != std::string::npos);
  CHECK(run.backend.calls.back() == "wait 1");
  CHECK_FALSE(fs::exists(run / "checkpoints"));
}

TEST_CASE("of a call is wanted what fires at its step", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(false, 2);
  job.hooks = {watch(kY, "y", {{0, 100, 2}})};
  job.run.steps = 4;
  TestRun run(job, home.path());
  std::vector<int> wanted;
  run.backend.on_launch = [&](const Call& call) { wanted.push_back(call.wanted[0]); };
  run.run();
  CHECK(wanted == std::vector<int>{1, 0, 1, 0});
}

TEST_CASE("calls that deliver nothing run ahead of the record log by a limit", "[exec]") {
  constexpr int64_t kAhead = 64;
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 4 * kAhead;
  TestRun run(job, home.path());
  std::atomic<int64_t> launched = 0, furthest = 0;
  run.backend.on_launch = [&](const Call& call) { launched = call.step + 1; };
  run.request.progress = [&](const Progress& progress) {
    if (progress.step != 1) return;
    while (launched < kAhead) std::this_thread::yield();
    // Who goes further would do so now.
    for (int i = 0; i < 10000; ++i) std::this_thread::yield();
    furthest = launched.load();
  };
  run.run();
  CHECK(furthest == kAhead);
  const std::vector<Json> lines = run.metrics();
  REQUIRE(lines.size() == 4 * kAhead);
  for (size_t step = 0; step < lines.size(); ++step) CHECK(lines[step]["step"] == step);
}

TEST_CASE("a call starts when the deliveries of the one before have reached their sinks",
          "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY);
  job.run.steps = 50;
  TestRun run(job, home.path());
  std::atomic<bool> late = false;
  run.backend.on_launch = [&](const Call& call) {
    if (call.step == 0) return;
    const fs::path path = run / "returns/y/steps.npy";
    late = late || io::read_npy(path).shape()[0] != call.step;
  };
  run.run();
  CHECK_FALSE(late);
}

TEST_CASE("from the second step on the compute thread allocates nothing", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 6);
  plan::Job job = make_job(true, 2);
  job.run.epochs = 10;
  job.run.shuffle = true;
  job.run.checkpoint.every_steps = 4;
  job.returns = returns(kY);
  job.hooks = {watch(kW, "net/w", {{0, 100, 2}})};
  TestRun run(job, home.path());
  std::vector<int64_t> counts;
  counts.reserve(100);
  run.backend.on_launch = [&](const Call&) { counts.push_back(allocations_of_this_thread()); };
  run.run();
  REQUIRE(counts.size() == 30);
  if (!allocations_are_counted()) return;
  for (size_t i = 2; i < counts.size(); ++i) CHECK(counts[i] == counts[1]);
}

TEST_CASE("what is only summed up is taken without an allocation", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 6);
  plan::Job job = make_job(true, 2);
  job.run.epochs = 10;
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].sinks = {plan::PrintSink{
      .label = {}, .reduce = plan::Reduce::kMean, .over = plan::Over::kRun, .format = "%.6g"}};
  TestRun run(job, home.path());
  run.request.out = std::fopen((home / "printed").c_str(), "w");
  std::vector<int64_t> counts;
  counts.reserve(100);
  run.backend.on_launch = [&](const Call&) { counts.push_back(allocations_of_this_thread()); };
  run.run();
  std::fclose(run.request.out);
  REQUIRE(counts.size() == 30);
  if (!allocations_are_counted()) return;
  for (size_t i = 2; i < counts.size(); ++i) CHECK(counts[i] == counts[1]);
}

}  // namespace
}  // namespace flow::exec
