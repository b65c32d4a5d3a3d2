// A child process that is written to: its pipe, its acknowledgements, its end; and the watchdog,
// which ends the commands of a run whose own process is killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::io {

/// A small process next to this one. It knows the process groups that commands lead, and ends them
/// once this process is gone, however that came. A parent-death signal would reach the leaders of
/// the groups only, and follows the thread that started them.
class Watchdog {
 public:
  /// Forks, so do this early: what this process holds now stays in memory twice once it changes.
  /// RunError when it cannot.
  Watchdog();
  /// Waits for its end. REQUIRES: all groups are forgotten or may be ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// A child writes its pid_t here when it has a group of its own.
  int door() const { return door_.get(); }
  /// The group has ended.
  void forget(pid_t group) const;

 private:
  Descriptor door_;
  pid_t pid_ = -1;
};

/// Seconds between asking a group to end and killing it.
inline constexpr int kGrace = 2;

using Deadline = std::optional<std::chrono::steady_clock::time_point>;  // nothing: never
Deadline deadline_in(std::optional<double> seconds);

/// How a process ended.
struct ExitStatus {
  int code = 0;    // of one that exited
  int signal = 0;  // that killed it, or 0

  bool good() const { return code == 0 && signal == 0; }
  /// "exited with status 1", "was killed by signal 9 (Killed)"
  std::string str() const;
};

struct ProcessOptions {
  std::vector<std::string> words;  // the program, looked up in PATH, and its arguments
  std::map<std::string, std::string> environment;  // in addition to ours, and before it
  bool hides_launcher = false;                     // ours without the launcher's variables
  fs::path directory;                              // where it works
  bool output_to_stderr = false;                   // its standard output goes to standard error
  bool acknowledges = false;                       // it is given descriptor 3
  /// Once this is true (looked at several times a second), nothing is awaited for longer than
  /// `patience` seconds. May be empty.
  std::function<bool()> stopping = {};
  double patience = 0;
  const Watchdog* watchdog = nullptr;  // ends it when this process is killed; may be null
};

/// A program in a process group of its own, so that Ctrl-C at the terminal does not reach it, with
/// a pipe on its standard input. It gets no other descriptor of ours than output and error, and
/// SIGPIPE as programs expect it. REQUIRES: SIGPIPE is ignored here. One thread at a time. The
/// first one makes this process a subreaper (prctl(2)).
class Process {
 public:
  /// RunError, "cannot be started ...", when it cannot.
  explicit Process(const ProcessOptions& options);
  /// Ends what still runs.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  enum class Reached {
    kDone,
    kClosed,   // it reads no more, and may have ended
    kTimeout,  // not until the deadline
  };
  /// Hands all bytes to the pipe, however slowly they are read.
  Reached write(std::span<const std::byte> bytes, Deadline deadline);
  Reached write(std::string_view text, Deadline deadline);
  /// Waits for a newline on descriptor 3.
  Reached await_newline(Deadline deadline);
  /// Ends its standard input.
  void close_input() { input_.close(); }

  /// How it ended, or nothing: it runs.
  std::optional<ExitStatus> status();
  /// Waits until it has ended.
  std::optional<ExitStatus> wait(Deadline deadline);
  /// Has everything in its group ended, too?
  bool group_has_ended();
  /// Waits until it has.
  bool await_group(Deadline deadline);
  /// Asks its group to end.
  void ask_to_end();
  /// The same, and kills what has not ended `kGrace` seconds after that.
  void end();

 private:
  Reached await(int descriptor, short events, Deadline deadline);
  /// The deadline, or the end of `patience` if that comes first.
  Deadline limited(Deadline deadline);
  std::optional<ExitStatus> look(int options);

  const std::function<bool()> stopping_;
  const double patience_;
  const Watchdog* const watchdog_;
  Deadline out_of_patience_;
  pid_t pid_ = -1;
  Descriptor input_, acknowledgements_;
  size_t newlines_ = 0;  // that were read and not yet waited for
  std::optional<ExitStatus> status_;
  bool group_ended_ = false;
  Deadline asked_;  // what was asked to end is killed then
};

}  // namespace flow::io
