// Runs from the first step to the record.
#include "runtime/exec/run/run.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <set>

#include "runtime/exec/deliver/delivery.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

std::set<std::string> files_below(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

TEST_CASE("a train run leaves its plan, metrics, outputs, last state and record", "[exec]") {
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
  CHECK_FALSE(outcome.interrupted());
  CHECK(outcome.checkpoint == run / "checkpoints/000004");
  CHECK(files_below(run.request.directory) ==
        std::set<std::string>{"plan.json", "run.json", "metrics.jsonl", "returns/loss/value.npy",
                              "returns/loss/steps.npy", "watch/y/value.npy", "watch/y/steps.npy",
                              "watch/net/w/value.npy", "watch/net/w/steps.npy",
                              "checkpoints/000004/checkpoint.json", "checkpoints/000004/files.json",
                              "checkpoints/000004/net/w.npy",
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

  const std::vector<Json> lines = run.metrics();
  REQUIRE(lines.size() == 4);
  CHECK(lines[2]["step"] == 2);
  CHECK(lines[2]["epoch"] == 1);
  CHECK(lines[2]["loss"] == losses[2]);
  CHECK(lines[2]["learning_rate"] == 0.125);
  const Json record = run.record();
  CHECK(record["exit_status"] == 0);
  CHECK(record["last_step"] == 4);
  CHECK(record["device"] == "fake");
}

TEST_CASE("a run without deliveries still logs every step and learns the same", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 500;
  job.run.log_every = 100;
  TestRun quiet(job, home.path(), "quiet");
  quiet.run();
  std::vector<int64_t> logged;
  for (const Json& line : quiet.metrics()) logged.push_back(line["step"]);
  CHECK(logged == std::vector<int64_t>{0, 100, 200, 300, 400});
  job.hooks = {watch(kY, "y", {{0, 1000, 7}})};
  job.returns = returns(kY);
  TestRun watched(job, home.path(), "watched");
  watched.run();
  CHECK(numbers(quiet / "checkpoints/000500/net/w.npy") ==
        numbers(watched / "checkpoints/000500/net/w.npy"));
  CHECK(numbers(watched / "watch/y/steps.npy").size() == 72);
}

TEST_CASE("a hook with steps 3..20/5 fires at 3, 8, 13 and 18", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 30;
  job.hooks = {watch(kY, "y", {{3, 20, 5}})};
  TestRun run(job, home.path());
  run.run();
  CHECK(numbers(run / "watch/y/steps.npy") == std::vector<double>{3, 8, 13, 18});
  Delivery delivery;
  delivery.steps = {{3, 20, 5}};
  std::vector<int64_t> counts;
  for (const int64_t end : {3, 4, 8, 9, 18, 19, 20, 30}) counts.push_back(delivery.count(end));
  CHECK(counts == std::vector<int64_t>{0, 1, 1, 2, 3, 4, 4, 4});
}

TEST_CASE("seconds count from the first call", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 100;
  TestRun run(job, home.path());
  const auto begin = std::chrono::steady_clock::now();
  const RunOutcome outcome = run.run();
  const std::chrono::duration<double> measured = std::chrono::steady_clock::now() - begin;
  double before = 0;
  for (const Json& line : run.metrics()) {
    const double seconds = line["seconds"];
    CHECK(seconds > 0);
    CHECK(seconds >= before);
    before = seconds;
  }
  CHECK(outcome.seconds >= before);
  CHECK(outcome.seconds <= measured.count());
}

TEST_CASE("a run that is stopped before its first call has made none", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 4);
  plan::Job job = make_job(true, 2);
  job.run.steps = 10;
  TestRun run(job, home.path());
  run.request.stop_signal = [] { return SIGTERM; };
  const RunOutcome outcome = run.run();
  CHECK(outcome.interrupted());
  CHECK(outcome.steps == 0);
  CHECK_FALSE(outcome.last_loss);
  CHECK(outcome.seconds == 0);
  CHECK(run.metrics().empty());
}

TEST_CASE("returns are named by tensor, position or key, and nest as folders", "[exec]") {
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

TEST_CASE("a gradient of the mean is the gradient of the sum times its factor", "[exec]") {
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

TEST_CASE("a tensor that mixes rows cannot be returned while the last batch is padded", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 5);
  plan::Job job = make_job(false, 2);
  job.returns = returns(kLoss);
  TestRun run(job, home.path());
  CHECK_THAT(run.refusal(),
             Catch::StartsWith("job.yaml:10:5: cannot deliver `loss`, which mixes rows") &&
                 Catch::Contains("5 rows") && Catch::Contains("batch size 2"));
  job.returns = returns(kY);
  TestRun rows(job, home.path(), "rows");
  rows.run();
  CHECK(io::read_npy(rows / "returns/y/value.npy").shape() == Shape{5, 2});
  job.tensors[kY.index()].batch_axis = 1;
  TestRun columns(job, home.path(), "columns");
  CHECK_THAT(
      columns.refusal(),
      Catch::StartsWith("job.yaml:10:5: cannot deliver `y`, which has its rows along axis 1") &&
          Catch::EndsWith("\ndeliver `{op: transpose, perm: [1, 0]}` of "
                          "it, with the rows first"));
}

TEST_CASE("a sink that fails ends the run and is told", "[exec]") {
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
  CHECK(run.record()["exit_status"] == 3);
}

TEST_CASE("a run with --steps stops at a global step, whatever comes first", "[exec]") {
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
  job.inputs[0].source = plan::generators::Iota();
  CHECK(steps(job, std::nullopt, "one") == 1);
  CHECK(steps(job, 9, "nine") == 9);
}

TEST_CASE("a dry run prepares everything and writes nothing", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  TestRun run(make_job(true, 2), home.path());
  dry_run(run.backend, run.request);
  CHECK(run.backend.prepared == 1);
  CHECK(files_below(home.path()) == std::set<std::string>{"x.npy"});
}

}  // namespace
}  // namespace flow::exec
