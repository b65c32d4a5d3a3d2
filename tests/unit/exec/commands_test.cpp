// Runs that give their values to commands.
#include <catch2/catch.hpp>

#include "runtime/base/text.h"
#include "runtime/exec/run/run.h"
#include "runtime/plan/json/json.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/ignored_pipe_signal.h"
#include "tests/support/shell_sink.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

using plan::ReturnValue;
using test::shell_sink;

/// A command that acknowledges the start and each event, a line and a number, and exits with
/// `status` at that of step `last`.
plan::CommandSink until(int64_t last, int status) {
  plan::CommandSink sink = shell_sink(
      "read l; echo >&3; while read l; do read a; case $l in *'\"step\":" + std::to_string(last) +
      ",'*) exit " + std::to_string(status) + ";; esac; echo >&3; done");
  sink.ack = true;
  return sink;
}

/// Where the four rows are that six steps read three times.
struct Home {
  Home() { write_rows(directory / "x.npy", 4); }
  FreshDirectory directory;
  IgnoredPipeSignal ignored;
};

plan::Job train_job(plan::CommandSink sink) {
  plan::Job job = make_job(true, 2);
  job.returns = returns(kLoss, {std::move(sink)});
  job.run.epochs = 3;
  return job;
}

TEST_CASE("a return of several tensors is one event, a hook's value comes before", "[exec]") {
  const Home home;
  const plan::CommandSink sink = shell_sink("cat > events");
  plan::Job job = make_job(false, 2);
  job.returns = returns(kY, {sink});
  const ReturnValue y{ReturnValue::Kind::kNumpy, kY, {}, {}, "y"};
  const ReturnValue x{ReturnValue::Kind::kNumpy, kX, {}, {}, "x"};
  const ReturnValue dict{ReturnValue::Kind::kDict, {}, {y}, {"out"}, ""};
  job.returns->value = {ReturnValue::Kind::kTuple, {}, {x, dict}, {}, ""};
  job.hooks = {watch(kX, "x", {{1, 2, 1}})};
  job.hooks[0].sinks = {sink};
  TestRun(job, home.directory.path()).run();

  std::vector<std::string> lines;
  for (const std::string& line : split(read_text(home.directory / "events"), '\n'))
    if (line.starts_with("{")) lines.push_back(line);
  REQUIRE(lines.size() == 5);
  CHECK(Json::parse(lines[0])["names"] == Json({"x", "returns"}));
  const Json first = Json::parse(lines[1]), hook = Json::parse(lines[2]);
  CHECK(first["event"] == "return");
  CHECK(first["name"] == "returns");
  CHECK(first["value"].dump() == R"([0,{"out":1}])");
  CHECK(first["arrays"][0]["name"] == "x");
  CHECK(first["arrays"][1]["name"] == "y");
  CHECK(hook["event"] == "watch");
  CHECK(hook["step"] == 1);
  CHECK(Json::parse(lines[3])["step"] == 1);
  CHECK(Json::parse(lines[4])["status"] == "done");
}

TEST_CASE("a command that asks to stop ends the run after its step, saved and well", "[exec]") {
  const Home home;
  TestRun run(train_job(until(2, 10)), home.directory.path());
  run.request.save = home.directory / "final";
  const RunOutcome outcome = run.run();
  CHECK(outcome.steps == 3);
  CHECK(outcome.exit_status == 0);
  CHECK(outcome.stop == Stop::kCommand);
  CHECK(fs::exists(run / "checkpoints/000003/checkpoint.json"));
  CHECK(fs::exists(home.directory / "final/checkpoint.json"));
}

TEST_CASE("a command that asks to stop in the last step changes nothing", "[exec]") {
  const Home home;
  TestRun run(train_job(until(5, 10)), home.directory.path());
  CHECK_FALSE(run.run().interrupted());
}

TEST_CASE("a command that fails in a step fails the run in that step", "[exec]") {
  const Home home;
  TestRun run(train_job(until(2, 9)), home.directory.path());
  int exit_status = 0;
  const std::string message = run.refusal(&exit_status);
  CHECK(exit_status == 3);
  CHECK(message.starts_with("job.yaml:10:5: step 2: the command `"));
  CHECK(message.find("of the return exited with status 9") != std::string::npos);
  const Json record = run.record();
  CHECK(record["exit_status"] == 3);
  CHECK(record["last_step"] == 2);
}

TEST_CASE("a command that fails at the end fails a run that is complete and kept", "[exec]") {
  const Home home;
  TestRun run(train_job(shell_sink("cat > all; exit 9")), home.directory.path());
  int exit_status = 0;
  CHECK(run.refusal(&exit_status).starts_with("job.yaml:10:5: the command `cat > all; exit 9` "));
  CHECK(exit_status == 3);
  CHECK(fs::exists(run / "checkpoints/000006/checkpoint.json"));
  CHECK(run.record()["last_step"] == 6);
}

TEST_CASE("a run that was asked for no commands runs none", "[exec]") {
  const Home home;
  TestRun run(train_job(shell_sink("touch ran; exit 9")), home.directory.path());
  run.request.commands = false;
  CHECK(run.run().steps == 6);
  CHECK_FALSE(fs::exists(home.directory / "ran"));
}

}  // namespace
}  // namespace flow::exec
