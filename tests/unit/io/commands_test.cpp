// Commands: who shares a process, and what their ends mean for a run.
#include "runtime/io/commands.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "runtime/base/text.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/ignored_pipe_signal.h"
#include "tests/support/shell_sink.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

using test::shell_sink;
using Mode = plan::CommandSink::Mode;

/// A run's commands in a directory of their own, and a value to give them.
struct Stage {
  explicit Stage(double its_patience = 0.1) : patience(its_patience), commands(context()) {}
  CommandContext context() {
    return {.job = "train",
            .plan_hash = "cafe",
            .directory = directory.path(),
            .run_directory = directory / "out dir",
            .say = [this](const std::string& text) { said.push_back(text); },
            .stopping = [this] { return stopping; },
            .patience = patience};
  }
  /// Gives watch `x` at `step` to a place.
  void deliver(size_t place, int64_t step) {
    CommandEvent event{"watch", "x", "job.yaml:9:7", step};
    event.arrays = {{"x", value.view()}};
    commands.deliver(place, event);
  }
  size_t add(const plan::CommandSink& sink) { return commands.add(sink, "x", "job.yaml:9:7"); }
  std::string left(const std::string& name = "out") const { return read_text(directory / name); }
  /// What the failing of `body` says.
  template <typename Body>
  std::string failure(Body body) {
    try {
      body();
    } catch (const RunError& error) {
      CHECK(error.exit_status() == 3);
      return error.what();
    }
    return "no failure";
  }

  IgnoredPipeSignal ignored;
  FreshDirectory directory;
  std::vector<std::string> said;
  bool stopping = false;
  const double patience;
  Array value = floats({1, 2});
  Commands commands;
};

const std::string kWatch =
    R"({"flow":1,"event":"watch","job":"train","name":"x","step":0,"epoch":0,"value":0,)"
    R"("arrays":[{"name":"x","dtype":"float32","shape":[2],"bytes":8}]})"
    "\n1.0\n2.0\n";

TEST_CASE("a stream reads the start, its events and the end", "[io]") {
  Stage stage;
  const size_t place = stage.add(shell_sink("cat > out; echo $FLOW_RUN_DIR >> out"));
  stage.commands.start();
  stage.deliver(place, 0);
  stage.commands.end("done");
  CHECK(stage.left() ==
        "{\"flow\":1,\"event\":\"start\",\"job\":\"train\",\"plan\":\"cafe\",\"names\":[\"x\"],"
        "\"resumed_from\":null,\"arrays\":[]}\n" +
            kWatch +
            "{\"flow\":1,\"event\":\"end\",\"job\":\"train\",\"status\":\"done\",\"arrays\":[]}\n" +
            (stage.directory / "out dir").string() + "\n");
  CHECK(stage.said.empty());
}

TEST_CASE("streams that are written alike share a process, others have their own", "[io]") {
  Stage stage;
  plan::CommandSink alike = shell_sink("echo started >> log; cat >> out"), other = alike;
  other.env["LR"] = "0.1";
  const size_t a = stage.commands.add(alike, "a", "job.yaml:1:1");
  const size_t b = stage.commands.add(alike, "b", "job.yaml:2:1");
  const size_t c = stage.commands.add(other, "c", "job.yaml:3:1");
  stage.commands.start();
  for (const size_t place : {a, b, c}) stage.deliver(place, 0);
  stage.commands.end("done");
  CHECK(stage.left("log") == "started\nstarted\n");
  CHECK(stage.left().find(R"("names":["a","b"])") != std::string::npos);
}

TEST_CASE("a spawned command is a process an event, and has ended when the event is delivered",
          "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("{ echo $FLOW_STEP $FLOW_NAME; cat; } >> out");
  sink.mode = Mode::kSpawn;
  const size_t place = stage.add(sink);
  stage.commands.start();
  stage.deliver(place, 3);
  CHECK(stage.left() == "3 x\n1.0\n2.0\n");
  stage.deliver(place, 4);
  CHECK(stage.left() == "3 x\n1.0\n2.0\n4 x\n1.0\n2.0\n");
  stage.commands.end("done");
}

TEST_CASE("a spawned command need not look at what it is given", "[io]") {
  Stage stage;
  stage.value = Array(DType::kFloat32, {100'000});
  plan::CommandSink sink = shell_sink("echo $FLOW_SHAPE >> out");
  sink.mode = Mode::kSpawn;
  const size_t place = stage.add(sink);
  stage.deliver(place, 0);
  stage.deliver(place, 1);
  CHECK(stage.left() == "100000\n100000\n");
}

TEST_CASE("with ack an event has reached its command when the command says so", "[io]") {
  Stage stage;
  // Each event is a line and two more; the start is a line alone.
  plan::CommandSink sink = shell_sink(
      "read l; echo >&3; while read l; do read a; read b; echo $a >> out; echo >&3; done");
  sink.ack = true;
  const size_t place = stage.add(sink);
  stage.commands.start();
  for (int step = 0; step < 20; ++step) {
    stage.deliver(place, step);
    CHECK(split(stage.left(), '\n').size() == static_cast<size_t>(step) + 2);
  }
  stage.commands.end("done");
}

TEST_CASE("a command that fails names its place, the step, itself and how it ended", "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("read l; echo >&3; read l; exit 7");
  sink.ack = true;
  const size_t place = stage.add(sink);
  stage.commands.start();
  CHECK(stage.failure([&] { stage.deliver(place, 37); }) ==
        "job.yaml:9:7: step 37: the command `read l; echo >&3; read l; exit 7` of watch `x` exited "
        "with status 7");

  Stage other;
  plan::CommandSink spawn = shell_sink("kill -9 $$");
  spawn.mode = Mode::kSpawn;
  const size_t spawned = other.add(spawn);
  CHECK(other.failure([&] { other.deliver(spawned, 5); }) ==
        "job.yaml:9:7: step 5: the command `kill -9 $$` of watch `x` was killed by signal 9 "
        "(Killed)");
}

TEST_CASE("a command that fails may be done without", "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("read l; echo >&3; read l; echo once >> out; exit 7");
  sink.ack = true;
  sink.on_error = plan::CommandSink::OnError::kWarn;
  const size_t place = stage.add(sink);
  stage.commands.start();
  for (int step = 0; step < 3; ++step) stage.deliver(place, step);
  stage.commands.end("done");
  REQUIRE(stage.said.size() == 1);
  CHECK(stage.said[0].ends_with("of watch `x` exited with status 7; continuing without it"));
  CHECK(stage.left() == "once\n");
}

TEST_CASE("a command that cannot be started fails before the first step", "[io]") {
  Stage stage;
  plan::CommandSink sink;
  sink.run = {"./absent", "a word", "it's"};
  stage.add(sink);
  CHECK(stage.failure([&] { stage.commands.start(); }) ==
        "job.yaml:9:7: the command `./absent 'a word' 'it'\\''s'` cannot start in " +
            stage.directory.path().string() + ": No such file or directory");
}

TEST_CASE("a command that ends well or closes its input wants no more, which is said once",
          "[io]") {
  for (const char* line : {"read l; exit 0", "read l; exec <&-; exec sleep 1000"}) {
    Stage stage;
    CAPTURE(line);
    plan::CommandSink sink = shell_sink(line);
    sink.on_error = plan::CommandSink::OnError::kWarn;  // sleeping on after the end
    sink.timeout = 1;
    const size_t place = stage.add(sink);
    stage.commands.start();
    stage.value = Array(DType::kFloat32, {100'000});  // more than a pipe holds
    for (int step = 0; step < 3; ++step) stage.deliver(place, step);
    REQUIRE(stage.said.size() == 1);
    CHECK(stage.said[0].ends_with("of watch `x` closed its input; it receives no more events"));
    CHECK_FALSE(stage.commands.asked_to_stop());
  }
}

TEST_CASE("exit status 10 asks the run to stop", "[io]") {
  for (const Mode mode : {Mode::kStream, Mode::kSpawn}) {
    Stage stage;
    plan::CommandSink sink = shell_sink(mode == Mode::kSpawn ? "exit 10" : "read l; exit 10");
    sink.mode = mode;
    const size_t place = stage.add(sink);
    stage.commands.start();
    stage.value = Array(DType::kFloat32, {100'000});
    stage.deliver(place, 2);
    CHECK(stage.commands.asked_to_stop());
    REQUIRE(stage.said.size() == 1);
    CHECK(stage.said[0].ends_with("asked the run to stop"));
    stage.commands.end("stopped");
  }
}

TEST_CASE("exit status 10 after the last event says nothing", "[io]") {
  Stage stage;
  const size_t place = stage.add(shell_sink("cat > /dev/null; exit 10"));
  stage.commands.start();
  stage.deliver(place, 2);
  stage.commands.end("done");
  CHECK_FALSE(stage.commands.asked_to_stop());
  CHECK(stage.said.empty());
}

TEST_CASE("what commands leave in the background ends with the run, which is said once", "[io]") {
  for (const Mode mode : {Mode::kStream, Mode::kSpawn}) {
    Stage stage;
    // It reads to the end of its input: one that closed it early would be reported for that, too.
    plan::CommandSink sink = shell_sink("sleep 1000 & echo $! >> out; cat > /dev/null");
    sink.mode = mode;
    const size_t place = stage.add(sink);
    stage.commands.start();
    for (int step = 0; step < 3 && mode == Mode::kSpawn; ++step) stage.deliver(place, step);
    stage.commands.end("done");
    CHECK(stage.said ==
          std::vector<std::string>{"job.yaml:9:7: the command `sleep 1000 & echo $! >> out; cat > "
                                   "/dev/null` left background processes, which end with the run"});
    for (const std::string& pid : split(trimmed(stage.left()), '\n'))
      CHECK(::kill(std::stoi(pid), 0) != 0);
  }
}

TEST_CASE("a script that needs NumPy fails before the run when its Python has none", "[io]") {
  const bool has_numpy = GENERATE(true, false);
  const std::string line =
      GENERATE("import numpy as np", "from flowhook import events", "import os");
  CAPTURE(has_numpy, line);
  Stage stage;
  const fs::path python = stage.directory / "python3";
  std::ofstream(python) << "#!/bin/sh\n[ \"$1\" = -c ] && exit " << (has_numpy ? 0 : 3)
                        << "\ncat > /dev/null\n";
  fs::permissions(python, fs::perms::owner_all);
  std::ofstream(stage.directory / "hook.py") << "# A hook.\n" << line << "\n";
  plan::CommandSink sink = shell_sink("");
  sink.shell = false;
  sink.run = {python.string(), "hook.py"};
  sink.mode = GENERATE(Mode::kStream, Mode::kSpawn);
  stage.add(sink);
  if (has_numpy || line == "import os") {
    CHECK_NOTHROW(stage.commands.start());
    stage.commands.end("done");
  } else {
    CHECK_THAT(stage.failure([&] { stage.commands.start(); }),
               Catch::EndsWith("needs NumPy, which `" + python.string() + "` cannot import"));
  }
}

TEST_CASE("what a command leaves in the background for a moment may end by itself", "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("(sleep 0.2; echo whole > out) &");
  sink.mode = Mode::kSpawn;
  stage.deliver(stage.add(sink), 0);
  stage.commands.end("done");
  CHECK(stage.left() == "whole\n");
  CHECK(stage.said.empty());
}

TEST_CASE("a hung command fails after its timeout, and is ended", "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("exec sleep 1000");
  sink.timeout = 0.05;
  SECTION("reading nothing") {
    const size_t place = stage.add(sink);
    stage.commands.start();
    stage.value = Array(DType::kFloat32, {100'000});
    CHECK(stage.failure([&] { stage.deliver(place, 1); }) ==
          "job.yaml:9:7: step 1: the command `exec sleep 1000` of watch `x` did not read its input "
          "within 0.05 s");
  }
  SECTION("acknowledging nothing") {
    sink.ack = true;
    stage.add(sink);
    CHECK(stage.failure([&] { stage.commands.start(); }) ==
          "job.yaml:9:7: the command `exec sleep 1000` did not acknowledge within 0.05 s");
  }
  SECTION("spawned") {
    sink.mode = Mode::kSpawn;
    const size_t place = stage.add(sink);
    CHECK(stage.failure([&] { stage.deliver(place, 1); }) ==
          "job.yaml:9:7: step 1: the command `exec sleep 1000` of watch `x` did not exit within "
          "0.05 s");
  }
  SECTION("not ending") {
    stage.add(sink);
    stage.commands.start();
    CHECK(stage.failure([&] { stage.commands.end("done"); }) ==
          "job.yaml:9:7: the command `exec sleep 1000` did not exit within 0.05 s after the end of "
          "its "
          "input");
  }
}

TEST_CASE("a run that is to stop says what it waits for", "[io]") {
  Stage stage(20);
  plan::CommandSink sink = shell_sink("sleep 1.3");
  sink.mode = Mode::kSpawn;
  stage.stopping = true;
  stage.deliver(stage.add(sink), 1);
  CHECK(stage.said == std::vector<std::string>{
                          "job.yaml:9:7: the command `sleep 1.3` is still running; the run waits "
                          "up to 20 s for it"});
}

TEST_CASE("a hung command does not keep a run that is asked to stop from its end", "[io]") {
  Stage stage;
  plan::CommandSink sink = shell_sink("exec sleep 1000");
  stage.stopping = true;
  SECTION("a stream") {
    const size_t place = stage.add(sink);
    stage.commands.start();
    stage.value = Array(DType::kFloat32, {100'000});
    stage.deliver(place, 1);
    stage.deliver(place, 2);
    CHECK(stage.said == std::vector<std::string>{
                            "job.yaml:9:7: step 1: the command `exec sleep 1000` of watch `x` did "
                            "not read its input within 0.1 s after the stop request, and was "
                            "ended; it missed this event"});
    stage.commands.end("stopped");
  }
  SECTION("a process an event") {
    sink.mode = Mode::kSpawn;
    stage.deliver(stage.add(sink), 1);
    CHECK(stage.said.size() == 1);
  }
  SECTION("within a timeout of its own") {
    sink.timeout = 0.05;
    sink.ack = true;
    stage.add(sink);
    CHECK_THAT(stage.failure([&] { stage.commands.start(); }),
               Catch::EndsWith("did not acknowledge within 0.05 s"));
  }
}

TEST_CASE("a command that ends badly at the end fails the run, after all have ended", "[io]") {
  Stage stage;
  stage.add(shell_sink("cat > /dev/null; exit 4"));
  stage.add(shell_sink("cat > /dev/null; echo ended > out"));
  stage.commands.start();
  CHECK(stage.failure([&] { stage.commands.end("done"); }) ==
        "job.yaml:9:7: the command `cat > /dev/null; exit 4` exited with status 4");
  CHECK(stage.left() == "ended\n");
}

TEST_CASE("commands of a run that fails are told so", "[io]") {
  FreshDirectory directory;
  IgnoredPipeSignal ignored;
  {
    Commands commands({.job = "a", .plan_hash = "b", .directory = directory.path()});
    commands.add(shell_sink("tail -n 1 > out"), "x", "");
    commands.start();
  }
  CHECK(read_text(directory / "out") ==
        "{\"flow\":1,\"event\":\"end\",\"job\":\"a\",\"status\":\"failed\",\"arrays\":[]}\n");
}

}  // namespace
}  // namespace flow::io
