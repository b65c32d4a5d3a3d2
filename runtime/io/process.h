// A child process that receives input: its pipe, its acknowledgments and its end. Also the
// watchdog, which ends the commands of a run whose process is killed.
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

/// A small helper process that knows the process groups of commands and ends them when this process
/// ends for any reason. A parent-death signal would only reach the leaders of the groups, and it is
/// bound to the thread that started them.
class Watchdog {
 public:
  /// Forks the watchdog. Call it early, because memory that this process has now is duplicated once
  /// it changes. Throws RunError if the watchdog cannot be started.
  Watchdog();
  /// Waits for the end of the watchdog. REQUIRES: all groups are forgotten or may be ended.
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The descriptor to which a child that leads a process group writes its pid_t.
  int door() const { return door_.get(); }
  /// Tells the watchdog that the group has ended.
  void forget(pid_t group) const;

 private:
  Descriptor door_;
  pid_t pid_ = -1;
};

/// The seconds between asking a process group to end and killing it.
inline constexpr int kGrace = 2;

// A point in time, or nothing if there is no deadline.
using Deadline = std::optional<std::chrono::steady_clock::time_point>;
Deadline deadline_in(std::optional<double> seconds);

/// The way in which a process ended.
struct ExitStatus {
  int code = 0;    // exit status if the process exited
  int signal = 0;  // signal that killed the process, or 0

  bool good() const { return code == 0 && signal == 0; }
  /// Returns "exited with status 1" or "was killed by signal 9 (Killed)".
  std::string str() const;
};

struct ProcessOptions {
  std::vector<std::string> words;  // program, looked up in PATH, and its arguments
  // Overrides and extends the inherited environment.
  std::map<std::string, std::string> environment;
  bool hides_launcher = false;    // hides the launcher's variables from the child
  fs::path directory;             // working directory of the child
  bool output_to_stderr = false;  // redirects standard output to standard error
  bool acknowledges = false;      // the child receives descriptor 3
  /// Tells whether the run is stopping; may be empty. It is called several times a second. Once it
  /// returns true, no wait lasts longer than `patience` seconds.
  std::function<bool()> stopping = {};
  double patience = 0;
  const Watchdog* watchdog = nullptr;  // ends the child if this process is killed; may be null
};

/// A program in a separate process group, so that Ctrl-C at the terminal does not reach it, with a
/// pipe on its standard input. It inherits only standard output and standard error of this process,
/// and SIGPIPE has its default action. REQUIRES: SIGPIPE is ignored in this process. Used by one
/// thread at a time. The first Process makes this process a subreaper (prctl(2)).
class Process {
 public:
  /// Throws RunError, "cannot start ...", if the program cannot be started.
  explicit Process(const ProcessOptions& options);
  /// Ends all processes of the group that still run.
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  enum class Reached {
    kDone,
    kClosed,   // the child reads no more input and may have ended
    kTimeout,  // the deadline passed first
  };
  /// Writes all bytes to the pipe, even if the child reads them slowly.
  Reached write(std::span<const std::byte> bytes, Deadline deadline);
  Reached write(std::string_view text, Deadline deadline);
  /// Waits for a newline on descriptor 3.
  Reached await_newline(Deadline deadline);
  /// Closes the child's standard input.
  void close_input() { input_.close(); }

  /// Returns how the process ended, or nothing if it still runs.
  std::optional<ExitStatus> status();
  /// Waits until the process has ended or the deadline has passed.
  std::optional<ExitStatus> wait(Deadline deadline);
  /// Returns true if the process and all others in its group have ended.
  bool group_has_ended();
  /// Waits until the group has ended or the deadline has passed.
  bool await_group(Deadline deadline);
  /// Asks the group to end.
  void ask_to_end();
  /// Asks the group to end, and kills it if it still runs `kGrace` seconds later.
  void end();

 private:
  Reached await(int descriptor, short events, Deadline deadline);
  /// Returns the earlier of the deadline and the end of `patience`.
  Deadline limited(Deadline deadline);
  std::optional<ExitStatus> look(int options);

  const std::function<bool()> stopping_;
  const double patience_;
  const Watchdog* const watchdog_;
  Deadline out_of_patience_;
  pid_t pid_ = -1;
  Descriptor input_, acknowledgements_;
  size_t newlines_ = 0;  // newlines that were read and not yet awaited
  std::optional<ExitStatus> status_;
  bool group_ended_ = false;
  Deadline asked_;  // when a group that was asked to end is killed
};

}  // namespace flow::io
