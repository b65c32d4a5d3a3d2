// What a stream and a spawned command have in common: how they are started, given arrays, and what
// their ends mean.
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
  /// `text`, then the arrays.
  static Process::Reached send(Process& process, std::string text,
                               const std::vector<Encoded>& arrays, Deadline deadline);

  /// "job.yaml:12:5: step 20: the command `cat` of watch `lenet`"
  std::string place(const CommandEvent* event) const;
  /// Throws, or is done with the command, as `on_error` says. `event`: null at the start and at
  /// the end.
  void fail(const CommandEvent* event, const std::string& what, const std::string& hint = {});
  void say(const CommandEvent* event, const std::string& what) const;
  /// It did not do what it should in its time, and has been ended. A run that is asked to stop does
  /// not fail of that: it has its state to save.
  void fail_late(const CommandEvent* event, const std::string& missed);
  /// Fails when the command is a Python script that needs NumPy and its Python has none.
  void check_numpy();
  /// What a process leaves undone for a moment after its end, such as closing of pipes. In seconds.
  static constexpr double kMoment = 1;
  /// Does what the exit status of an ended process asks for.
  void heed(const CommandEvent* event, const ExitStatus& status);

  /// The process has ended. What it left in the background may stay until the end of the run.
  void leave(std::unique_ptr<Process> process);
  /// Ends that, and says so, unless it ends within a moment by itself.
  void end_left();

  /// Asked while a process is awaited: is the run to stop? After a second of that says what it is
  /// waiting for.
  bool is_stopping();

  const plan::CommandSink options_;
  const CommandContext& context_;
  std::atomic<bool>& stop_asked_;
  const std::string where_;  // of the first hook or return that it serves
  bool done_ = false;        // it is given no more
  bool ending_ = false;      // the run is over
  Deadline says_so_;         // when the run has been stopping for a while
  bool has_said_so_ = false;

 private:
  std::vector<std::unique_ptr<Process>> left_;  // that have ended, but not their groups
};

}  // namespace flow::io
