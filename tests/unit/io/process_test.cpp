// Child processes: what they are given, how they are written to, how they end.
#include "runtime/io/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "tests/support/fresh_directory.h"
#include "tests/support/ignored_pipe_signal.h"

namespace flow::io {
namespace {

using Reached = Process::Reached;

/// A test's own directory, and shell lines that run in it.
struct Home {
  ProcessOptions shell(const std::string& line) const {
    ProcessOptions options;
    options.words = {"/bin/sh", "-c", line};
    options.directory = directory.path();
    options.acknowledges = true;
    return options;
  }
  /// What `line` leaves in the file `out`.
  std::string left_by(const std::string& line) const {
    Process process(shell(line));
    process.close_input();
    REQUIRE(process.wait({})->good());
    return read_text(directory / "out");
  }

  FreshDirectory directory;
  IgnoredPipeSignal ignored;
};

TEST_CASE("a child works in its directory, with our environment and what is put before it",
          "[io]") {
  const Home home;
  ::setenv("FLOW_TEST_OURS", "ours", 1);
  ::setenv("FLOW_TEST_BOTH", "ours", 1);
  ProcessOptions options = home.shell(
      "pwd -P > out; echo $FLOW_TEST_OURS $FLOW_TEST_BOTH \"$FLOW_TEST_NEW\" >> out; "
      "tr '\\0' '\\n' < /proc/$$/environ | grep -c FLOW_TEST_BOTH= >> out");
  options.environment = {{"FLOW_TEST_BOTH", "its own"}, {"FLOW_TEST_NEW", "a\nb"}};
  Process process(options);
  REQUIRE(process.wait({})->good());
  CHECK(read_text(home.directory / "out") ==
        fs::canonical(home.directory.path()).string() + "\nours its own a\nb\n1\n");
}

TEST_CASE("a child of a distributed run does not see the launcher's variables", "[io]") {
  const Home home;
  ::setenv("PMI_RANK", "1", 1);
  ::setenv("SLURM_JOB_ID", "7", 1);
  ProcessOptions options = home.shell("echo ${PMI_RANK-none} ${SLURM_JOB_ID-none} >> out");
  CHECK(Process(options).wait({})->good());
  options.hides_launcher = true;
  CHECK(Process(options).wait({})->good());
  options.environment = {{"SLURM_JOB_ID", "given"}};  // by the job file
  CHECK(Process(options).wait({})->good());
  ::unsetenv("PMI_RANK");
  ::unsetenv("SLURM_JOB_ID");
  CHECK(read_text(home.directory / "out") == "1 7\nnone none\nnone given\n");
}

TEST_CASE("a child gets no descriptor but its pipe, output, error and acknowledgements", "[io]") {
  const Home home;
  const int leaking = ::dup2(STDERR_FILENO, 77);  // not closed by exec
  REQUIRE(leaking == 77);
  // A shell's glob opens the folder itself, which is the last one.
  const std::string open =
      home.left_by("cd /proc/self/fd; set -- *; cd - > /dev/null; echo $* > out");
  ::close(leaking);
  CHECK(open.substr(0, 8) == "0 1 2 3 ");
  CHECK(open.find("77") == std::string::npos);
}

TEST_CASE("a child leads a process group of its own and dies of a broken pipe", "[io]") {
  const Home home;
  const std::string text = home.left_by("echo $$ $(cut -d' ' -f5 /proc/$$/stat) > out");
  CHECK(text.substr(0, text.find(' ')) + "\n" == text.substr(text.find(' ') + 1));

  Process process(home.shell("kill -PIPE $$; exit 1"));
  const auto status = process.wait({});
  REQUIRE(status);
  CHECK(status->signal == SIGPIPE);
  CHECK(status->str() == "was killed by signal 13 (Broken pipe)");
}

TEST_CASE("a child that is not there says so when it is started", "[io]") {
  const Home home;
  ProcessOptions options = home.shell("");
  options.words = {"./no-such-program"};
  CHECK_THROWS_WITH(Process(options), Catch::Matchers::Contains("cannot start in ") &&
                                          Catch::Matchers::Contains("No such file or directory"));
}

TEST_CASE("all bytes reach a child, however many they are", "[io]") {
  const Home home;
  Process process(home.shell("wc -c > out"));
  const std::string bytes(10'000'000, 'x');
  CHECK(process.write("head", {}) == Reached::kDone);
  CHECK(process.write(bytes, {}) == Reached::kDone);
  CHECK_FALSE(process.status());
  process.close_input();
  CHECK(process.wait({})->good());
  CHECK(read_text(home.directory / "out") == "10000004\n");
}

TEST_CASE("a child that reads nothing is not waited for beyond the deadline", "[io]") {
  const Home home;
  Process process(home.shell("exec sleep 1000"));
  CHECK(process.write(std::string(1'000'000, 'x'), deadline_in(0.05)) == Reached::kTimeout);
  process.end();
  REQUIRE(process.status());
  CHECK(process.status()->signal == SIGTERM);
}

TEST_CASE("a child that closes its input or ends is noticed while it is written to", "[io]") {
  const Home home;
  const std::string much(1'000'000, 'x');
  Process closing(home.shell("exec <&-; echo >&3; exec sleep 1000"));
  REQUIRE(closing.await_newline({}) == Reached::kDone);
  CHECK(closing.write(much, {}) == Reached::kClosed);
  CHECK_FALSE(closing.status());

  Process ending(home.shell("exit 3"));
  CHECK(ending.write(much, {}) == Reached::kClosed);
  REQUIRE(ending.wait({}));
  CHECK(ending.status()->str() == "exited with status 3");
}

TEST_CASE("a child's end is noticed while another holds its pipe", "[io]") {
  const Home home;
  write_text_atomically(home.directory / "stay", "");  // gone, the one in the background ends
  Process process(home.shell(
      "exec 4<&0; { echo >&3; while [ -e stay ]; do sleep 0.01; done; } <&4 & read line; exit 3"));
  REQUIRE(process.await_newline({}) == Reached::kDone);
  CHECK(process.write("a line\n" + std::string(1'000'000, 'x'), {}) == Reached::kClosed);
  REQUIRE(process.wait({}));
  CHECK(process.status()->code == 3);
}

TEST_CASE("newlines on descriptor 3 are waited for one by one", "[io]") {
  const Home home;
  Process process(home.shell("printf '\\n\\nx\\n' >&3; read line; exec 3>&-; read line"));
  for (int i = 0; i < 3; ++i) CHECK(process.await_newline({}) == Reached::kDone);
  CHECK(process.await_newline(deadline_in(0.02)) == Reached::kTimeout);
  CHECK(process.write("go on\n", {}) == Reached::kDone);
  CHECK(process.await_newline({}) == Reached::kClosed);
  CHECK_FALSE(process.status());
}

TEST_CASE("ending a child ends what it started, even if it does not want to", "[io]") {
  const Home home;
  const fs::path fifo = home.directory / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  {
    Process process(home.shell("trap '' TERM; sleep 1000 > fifo & sleep 0 > fifo; echo >&3; wait"));
    REQUIRE(process.await_newline({}) == Reached::kDone);
    process.end();
    CHECK(process.status()->signal == SIGKILL);
  }
  pollfd gone{reader, 0, 0};  // hung up: nobody holds the other end
  CHECK(::poll(&gone, 1, 10'000) == 1);
  ::close(reader);
}

TEST_CASE("a child that ignores SIGTERM ends with its parent that obeys", "[io]") {
  const Home home;
  const fs::path fifo = home.directory / "fifo";
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  REQUIRE(reader >= 0);
  Process process(
      home.shell("(trap '' TERM; echo > fifo; echo >&3; exec sleep 1000) > fifo & wait"));
  REQUIRE(process.await_newline({}) == Reached::kDone);
  process.end();
  CHECK(process.status()->signal == SIGTERM);
  CHECK(process.group_has_ended());
  pollfd gone{reader, 0, 0};
  CHECK(::poll(&gone, 1, 10'000) == 1);
  ::close(reader);
}

TEST_CASE("what a child started has time to end well, too", "[io]") {
  const Home home;
  Process process(
      home.shell("(trap 'sleep 0.3; echo well > out; exit' TERM; echo >&3; while :; do sleep 0.01; "
                 "done) & wait"));
  REQUIRE(process.await_newline({}) == Reached::kDone);
  process.end();
  CHECK(process.status()->signal == SIGTERM);
  CHECK(read_text(home.directory / "out") == "well\n");
}

TEST_CASE("what a child leaves in the background is seen, and its end", "[io]") {
  const Home home;
  write_text_atomically(home.directory / "stay", "");
  Process process(home.shell("while [ -e stay ]; do sleep 0.01; done & exit 0"));
  REQUIRE(process.wait({})->good());
  CHECK_FALSE(process.group_has_ended());
  fs::remove(home.directory / "stay");
  CHECK(process.await_group(deadline_in(60)));
}

TEST_CASE("a child starts with default signals, and as the user ignores them", "[io]") {
  const Home home;
  const auto before = std::signal(SIGUSR1, SIG_IGN);
  // The mask of ignored signals, bit 0 for signal 1.
  const std::string mask = home.left_by("grep SigIgn /proc/self/status | cut -f 2 > out");
  std::signal(SIGUSR1, before);
  const uint64_t ignored = std::stoull(mask, nullptr, 16);
  CHECK((ignored >> (SIGUSR1 - 1) & 1) == 1);
  CHECK((ignored >> (SIGPIPE - 1) & 1) == 0);
  CHECK(home.left_by("grep SigBlk /proc/self/status | cut -f 2 > out") == "0000000000000000\n");
}

TEST_CASE("a child's words may fill pages, and its program lies in PATH", "[io]") {
  const Home home;
  ProcessOptions options = home.shell("");
  options.words = {"sh", "-c", "echo $# > out", "sh"};
  options.words.insert(options.words.end(), 20'000, "a word");
  Process process(options);
  CHECK(process.wait({})->good());
  CHECK(read_text(home.directory / "out") == "20000\n");
}

}  // namespace
}  // namespace flow::io
