// Runs from the first step to the record.
#include "runtime/exec/run.h"

#include <sys/stat.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <set>
#include <thread>

#include "runtime/base/text.h"
#include "runtime/io/npy.h"
#include "runtime/plan/json.h"
#include "tests/support/allocation_count.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/npy_bytes.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

std::vector<Json> metrics_of(const TestRun& run) {
  std::vector<Json> lines;
  for (const std::string& line : split(read_text(run / "metrics.jsonl"), '\n'))
    if (!line.empty()) lines.push_back(Json::parse(line));
  return lines;
}

Json record_of(const TestRun& run) { return Json::parse(read_text(run / "run.json")); }

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

TEST_CASE("a device beside the host gets a call ahead where nothing of the one before leaves") {
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

TEST_CASE(
    "a device beside the host gets no call ahead of one whose input is made in step with it") {
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

TEST_CASE("a call that failed behind another one's back is told as its own") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  PrintingRun run(home.path(), "out");
  run.backend.beside = true;
  run.backend.faulty_step = 1;
  CHECK(run.refusal().find("step 1: `labels` holds 7") != std::string::npos);
  CHECK(run.backend.calls.back() == "wait 1");
  CHECK_FALSE(fs::exists(run / "checkpoints"));
}

TEST_CASE("a train run leaves its plan, metrics, outputs, last state and record") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss);
  job.hooks = {watch(kY, "y", {{0, 100, 3}}), watch(kW, "net/w", {{1, 2, 1}})};
  job.run.epochs = 2;
  TestRun run(job, home.path());
  const RunOutcome outcome = run.run();

  CHECK(outcome.exit_status == 0);
  CHECK(outcome.steps == 4);
  CHECK(outcome.epochs == 2);
  CHECK_FALSE(outcome.interrupted);
  CHECK(outcome.checkpoint == run / "checkpoints/000004");
  CHECK(files_below(run.request.directory) ==
        std::set<std::string>{"plan.json", "run.json", "metrics.jsonl", "returns/loss/value.npy",
                              "returns/loss/steps.npy", "watch/y/value.npy", "watch/y/steps.npy",
                              "watch/net/w/value.npy", "watch/net/w/steps.npy",
                              "checkpoints/000004/checkpoint.json", "checkpoints/000004/net/w.npy",
                              "checkpoints/000004/net/w/momentum.npy"});
  // By hand: m = 0.5 m + mean(x), w -= m/8, with means (1, 2) and (5, 6) in turn.
  std::vector<double> w = {0.5, 0.5}, slot = {0, 0}, losses;
  for (int step = 0; step < 4; ++step) {
    const double first = step % 2 == 0 ? 1 : 5;
    losses.push_back((w[0] + first + w[1] + first + 1) / 2);
    if (step == 1) CHECK(numbers(run / "watch/net/w/value.npy") == w);
    for (const size_t i : {0, 1}) {
      slot[i] = 0.5 * slot[i] + first + static_cast<double>(i);
      w[i] -= slot[i] / 8;
    }
  }
  CHECK(numbers(run / "returns/loss/value.npy") == losses);
  CHECK(numbers(run / "checkpoints/000004/net/w.npy") == w);
  CHECK(numbers(run / "watch/y/steps.npy") == std::vector<double>{0, 3});
  CHECK(*outcome.last_loss == losses.back());

  const std::vector<Json> lines = metrics_of(run);
  REQUIRE(lines.size() == 4);
  CHECK(lines[2]["step"] == 2);
  CHECK(lines[2]["epoch"] == 1);
  CHECK(lines[2]["loss"] == losses[2]);
  CHECK(lines[2]["learning_rate"] == 0.125);
  const Json record = record_of(run);
  CHECK(record["exit_status"] == 0);
  CHECK(record["last_step"] == 4);
  CHECK(record["device"] == "fake");
}

TEST_CASE("a run without deliveries still logs every step and learns the same") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 500;
  job.run.log_every = 100;
  TestRun quiet(job, home.path(), "quiet");
  quiet.run();
  CHECK(metrics_of(quiet).size() == 5);
  job.hooks = {watch(kY, "y", {{0, 1000, 7}})};
  job.returns = returns(kY);
  TestRun watched(job, home.path(), "watched");
  watched.run();
  CHECK(numbers(quiet / "checkpoints/000500/net/w.npy") ==
        numbers(watched / "checkpoints/000500/net/w.npy"));
  CHECK(numbers(watched / "watch/y/steps.npy").size() == 72);
}

TEST_CASE("of a call is wanted what fires at its step") {
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

TEST_CASE("calls of which nothing is delivered run ahead of the books by so many and no further") {
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
  const std::vector<Json> lines = metrics_of(run);
  REQUIRE(lines.size() == 4 * kAhead);
  for (size_t step = 0; step < lines.size(); ++step) CHECK(lines[step]["step"] == step);
}

TEST_CASE("seconds count from the first call") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 100;
  TestRun run(job, home.path());
  const auto begin = std::chrono::steady_clock::now();
  const RunOutcome outcome = run.run();
  const std::chrono::duration<double> measured = std::chrono::steady_clock::now() - begin;
  double before = 0;
  for (const Json& line : metrics_of(run)) {
    const double seconds = line["seconds"];
    CHECK(seconds > 0);
    CHECK(seconds >= before);
    before = seconds;
  }
  CHECK(outcome.seconds >= before);
  CHECK(outcome.seconds <= measured.count());
}

TEST_CASE("a run that is stopped before its first call has made none") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.request.stop_signal = [] { return SIGTERM; };
  const RunOutcome outcome = run.run();
  CHECK(outcome.interrupted);
  CHECK(outcome.steps == 0);
  CHECK_FALSE(outcome.last_loss);
  CHECK(outcome.seconds == 0);
  CHECK(metrics_of(run).empty());
}

TEST_CASE("a call starts when the deliveries of the one before have reached their sinks") {
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

TEST_CASE("from the second step on the compute thread allocates nothing") {
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

TEST_CASE("what is only summed up is taken without an allocation") {
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

TEST_CASE("returns are named by tensor, position or key, and nest as folders") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 2);
  using plan::ReturnValue;
  const auto leaf = [](plan::TensorId id) {
    return ReturnValue{ReturnValue::Kind::kNumpy, id, {}, {}, id == kX ? "x" : "y"};
  };
  const auto written = [&](const ReturnValue& value, const std::string& out) {
    plan::Job job = make_job(false, 2);
    job.returns = returns(kY);
    job.returns->value = value;
    TestRun run(job, home.path(), out);
    run.run();
    std::set<std::string> folders;
    for (const std::string& name : files_below(run / "returns"))
      if (name.ends_with("value.npy")) folders.insert(fs::path(name).parent_path().string());
    return folders;
  };
  using Names = std::set<std::string>;
  const auto kind = [](ReturnValue::Kind of, std::vector<ReturnValue> items,
                       std::vector<std::string> keys = {}) {
    return ReturnValue{of, {}, std::move(items), std::move(keys)};
  };
  using Kind = ReturnValue::Kind;
  CHECK(written(leaf(kY), "a") == Names{"y"});
  CHECK(written(kind(Kind::kTuple, {leaf(kX), leaf(kY)}), "b") == Names{"x", "y"});
  CHECK(written(kind(Kind::kTuple, {leaf(kY), leaf(kY)}), "c") == Names{"0", "1"});
  CHECK(written(kind(Kind::kList, {leaf(kX), leaf(kY)}), "d") == Names{"0", "1"});
  CHECK(written(kind(Kind::kDict, {leaf(kX), kind(Kind::kTuple, {leaf(kY), leaf(kX)})}, {"a", "b"}),
                "e") == Names{"a", "b/x", "b/y"});
}

TEST_CASE("a gradient of the mean is the gradient of the sum times its factor") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 2);
  plan::Job job = make_job(true, 2);
  job.hooks = {watch(kDiff, "y", {{0, 1, 1}})};
  job.hooks[0].kind = plan::Hook::Kind::kWatchDiff;
  job.hooks[0].factor = 0.25;
  TestRun run(job, home.path());
  run.run();
  CHECK(numbers(run / "watch/y/diff.npy") == std::vector<double>{0.25, 0.25, 0.25, 0.25});
}

TEST_CASE("a loss that is not finite ends the run at its step, and keeps no bad state") {
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
  CHECK(record_of(run)["error"] == outcome.error);
  CHECK(fs::exists(run / "checkpoints/000004"));
  CHECK_FALSE(fs::exists(run / "checkpoints/000006"));
  CHECK(metrics_of(run).back()["loss"].is_null());
  CHECK(numbers(run / "returns/loss/value.npy").size() == 6);
}

TEST_CASE("on_nonfinite: warn says it once and goes on") {
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

TEST_CASE("check: finite names tensor, step, index and the line of the hook") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(false, 2);
  job.hooks = {watch(kY, "y", {{0, 100, 1}})};
  job.hooks[0].check_finite = true;
  job.hooks[0].sinks = {plan::NoSink{}};
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.backend.nan_step = 3;
  int64_t launches = 0;
  run.backend.on_launch = [&](const Call&) { ++launches; };
  const RunOutcome outcome = run.run();
  CHECK(outcome.exit_status == 1);
  CHECK(outcome.error ==
        "job.yaml:11:7: step 3: tensor `y` is inf at [1, 1], and is checked to be finite");
  CHECK(outcome.steps == 4);
  CHECK(launches == 4);
}

TEST_CASE("a step whose check fails is not saved") {
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

TEST_CASE("a label out of range fails the run with step, row, label and input") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss);
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.backend.faulty_step = 4;
  int status = 0;
  CHECK(run.refusal(&status) ==
        "job.yaml:9:3: step 4: `labels` holds 7 in row 3, which is not in [0, 5)\n"
        "labels and indices count from 0");
  CHECK(status == 3);
  CHECK(record_of(run)["exit_status"] == 3);
  CHECK(record_of(run)["last_step"] == 4);
  CHECK(numbers(run / "returns/loss/value.npy").size() == 4);
  CHECK_FALSE(fs::exists(run / "checkpoints"));
}

TEST_CASE("a tensor that mixes rows cannot be returned while the last batch is padded") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 5);
  plan::Job job = make_job(false, 2);
  job.returns = returns(kLoss);
  TestRun run(job, home.path());
  CHECK_THAT(run.refusal(), Catch::StartsWith("job.yaml:10:5: `loss` mixes rows") &&
                                Catch::Contains("5 rows") && Catch::Contains("batches of 2"));
  job.returns = returns(kY);
  TestRun rows(job, home.path(), "rows");
  rows.run();
  CHECK(io::read_npy(rows / "returns/y/value.npy").shape() == Shape{5, 2});
  job.tensors[kY.index()].rows = 1;
  TestRun columns(job, home.path(), "columns");
  CHECK_THAT(columns.refusal(), Catch::StartsWith("job.yaml:10:5: `y` has its rows along axis 1") &&
                                    Catch::EndsWith("\n`{op: transpose, perm: [1, 0]}` of it can "
                                                    "be: its rows come first"));
}

TEST_CASE("a sink that fails ends the run and is told") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY, {plan::NpySink{true}});
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.backend.on_launch = [&](const Call& call) {
    if (call.step == 5) fs::create_directories(run / "returns/y/000005.npy");
  };
  int status = 0;
  CHECK_THAT(run.refusal(&status), Catch::Contains("000005.npy"));
  CHECK(status == 3);
  CHECK(record_of(run)["exit_status"] == 3);
}

TEST_CASE("--steps stops at a global step, whatever comes first") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  const auto steps = [&](plan::Job job, std::optional<int64_t> given, const std::string& out) {
    TestRun run(std::move(job), home.path(), out);
    run.request.steps = given;
    return run.run().steps;
  };
  plan::Job job = make_job(true, 2);
  CHECK(steps(job, std::nullopt, "pass") == 5);
  CHECK(steps(job, 3, "given") == 3);
  CHECK(steps(job, 100, "pass-first") == 5);
  job.run.epochs = 3;
  CHECK(steps(job, 7, "given-first") == 7);
  CHECK(steps(job, 100, "epochs-first") == 15);
  job.run.steps = 4;
  CHECK(steps(job, std::nullopt, "steps-first") == 4);
  CHECK(steps(job, 6, "in-its-place") == 6);
  job = make_job(false, 2);
  job.inputs[0].source = plan::FromGenerator{"iota", {}};
  CHECK(steps(job, std::nullopt, "one") == 1);
  CHECK(steps(job, 9, "nine") == 9);
}

TEST_CASE("a dry run prepares everything and writes nothing") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  TestRun run(make_job(true, 2), home.path());
  dry_run(run.backend, run.request);
  CHECK(run.backend.prepared == 1);
  CHECK(files_below(home.path()) == std::set<std::string>{"x.npy"});
}

}  // namespace
}  // namespace flow::exec
