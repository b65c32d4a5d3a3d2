// The common part of stream and spawned commands: how they are started, how they receive arrays,
// and how their ends are interpreted.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/io/commands.h"
#include "runtime/io/process.h"

namespace flow::io {

class CommandProcess : public Command {
 public:
  CommandProcess(const plan::CommandSink& options, const CommandContext& context,
                 std::atomic<bool>& stop_asked, std::string where)
      : options_(options), context_(context), stop_asked_(stop_asked), where_(std::move(where)) {}

 protected:
  ProcessOptions process_options(std::map<std::string, std::string> environment);
  std::vector<Encoded> encode(const CommandEvent& event) const;
  /// Writes `text`, then the arrays.
  static Process::Reached send(Process& process, std::string text,
                               const std::vector<Encoded>& arrays, Deadline deadline);

  /// Returns the beginning of a message, such as "job.yaml:12:5: step 20: the command `cat` of
  /// watch `lenet`".
  std::string place(const CommandEvent* event) const;
  /// Reports a failure of the command as `on_error` requests: either throws RunError, or prints a
  /// warning and continues without the command. `event` is null at the start and at the end.
  void fail(const CommandEvent* event, const std::string& what, const std::string& hint = {});
  void say(const CommandEvent* event, const std::string& what) const;
  /// Handles a command that missed its deadline and has been ended. If the run was asked to stop,
  /// this is not a failure, because the run still has to save its state.
  void fail_late(const CommandEvent* event, const std::string& missed);
  /// Fails if the command is a Python script that needs NumPy and its Python has no NumPy.
  void check_numpy();
  /// Seconds that an ended process may still take to finish its cleanup, such as closing its pipes.
  static constexpr double kMoment = 1;
  /// Does what the exit status of an ended process requests.
  void heed(const CommandEvent* event, const ExitStatus& status);

  /// Takes over a process that has ended. Its background processes may run until the end of the
  /// run.
  void leave(std::unique_ptr<Process> process);
  /// Waits a moment for the background processes of ended commands. Reports and ends those that
  /// still run.
  void end_left();

  /// Returns true if the run has been asked to stop. It is called while the run waits for a
  /// process; after a second of stopping it prints what the run waits for.
  bool is_stopping();

  const plan::CommandSink options_;
  const CommandContext& context_;
  std::atomic<bool>& stop_asked_;
  const std::string where_;  // place of the first hook or return that it serves
  bool done_ = false;        // true if the command receives no more events
  bool ending_ = false;      // true if the run is over
  Deadline says_so_;         // when a stopping run prints that it still waits
  bool has_said_so_ = false;

 private:
  std::vector<std::unique_ptr<Process>> left_;  // ended processes whose process groups still run
};

}  // namespace flow::io
