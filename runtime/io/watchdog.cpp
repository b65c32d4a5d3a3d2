// The process that outlives a killed run for a moment and ends its commands. It is forked from a
// program that may have had threads, so it only makes system calls.
#include "runtime/io/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/process.h"

namespace flow::io {

namespace {

constexpr const char* kWatchdogName = "flow-watchdog";

/// The process groups that still run. A group that exceeds the capacity ends only if the run ends
/// normally.
struct Groups {
  std::array<pid_t, 65536> ids;
  size_t count = 0;

  void add(pid_t group) {
    if (count < ids.size()) ids[count++] = group;
  }
  void remove(pid_t group) {
    pid_t* const end = ids.data() + count;
    pid_t* const found = std::find(ids.data(), end, group);
    if (found == end) return;
    *found = end[-1];
    --count;
  }
  void signal(int signal) const {
    for (size_t i = 0; i < count; ++i) ::kill(-ids[i], signal);
  }
  bool have_ended() const {
    for (size_t i = 0; i < count; ++i)
      if (::kill(-ids[i], 0) == 0) return false;
    return true;
  }
};
Groups groups;  // used by the watchdog process

/// Detaches from the terminal and from pipes that other programs read to their end, and changes the
/// name by which the run may be killed.
void stand_aside(int door, std::span<char> shown) {
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_IGN);
  ::dup2(door, STDIN_FILENO);
  ::closefrom(STDOUT_FILENO);
  if (::chdir("/") != 0) {
    // If this fails, the current folder stays in use.
  }
  ::prctl(PR_SET_NAME, kWatchdogName);
  std::ranges::fill(shown, '\0');
  if (!shown.empty()) std::strncpy(shown.data(), kWatchdogName, shown.size() - 1);
}

[[noreturn]] void keep(int door, std::span<char> shown) {
  stand_aside(door, shown);
  // Each read returns a whole id, because writes of fewer than PIPE_BUF bytes to a pipe are atomic.
  pid_t group = 0;
  while (::read(STDIN_FILENO, &group, sizeof group) == sizeof group)
    group > 0 ? groups.add(group) : groups.remove(-group);
  groups.signal(SIGTERM);
  constexpr timespec kPause{0, 10'000'000};
  for (int i = 0; i < kGrace * 100 && !groups.have_ended(); ++i) ::nanosleep(&kPause, nullptr);
  groups.signal(SIGKILL);
  ::_exit(0);
}

}  // namespace

Watchdog::Watchdog() {
  const auto require = [](int result) {
    if (result < 0)
      throw RunError(
          fmt::format("cannot start the process that cleans up commands after a killed run: {}",
                      std::generic_category().message(errno)),
          "run without commands: --no-commands");
    return result;
  };
  int ends[2];
  require(::pipe2(ends, O_CLOEXEC));
  const Descriptor inside(ends[0]);
  door_ = Descriptor(ends[1]);
  const std::span<char> shown = shown_words();
  pid_ = require(::fork());
  if (pid_ == 0) keep(inside.get(), shown);
}

Watchdog::~Watchdog() {
  door_.close();
  ::waitpid(pid_, nullptr, 0);
}

void Watchdog::forget(pid_t group) const {
  const pid_t gone = -group;
  if (::write(door_.get(), &gone, sizeof gone) < 0) {
    // The watchdog was killed.
  }
}

}  // namespace flow::io
