// The commands of a run: which values go to which process, and what happens to the run if a command
// ends. For each event a command receives a line of JSON, then the arrays that the line lists. Used
// by one thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/io/elements.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/plan.h"

namespace flow::io {

struct NamedArray {
  std::string name;
  ArrayView value;
};

/// An event of a step, such as the delivery of a watched value, or the end of a pass.
struct CommandEvent {
  std::string kind = {};   // return, watch, watch_diff or pass_end
  std::string name = {};   // name of the tensor, or `returns` if a return contains several
  std::string where = {};  // place of the hook or return: "lenet.yaml:14:11"
  int64_t step = 0, epoch = 0;
  std::optional<plan::CallPlace> call = {};  // set if another job calls this job
  std::string value = "0";                   // nested value with indices into `arrays`: [0,{"a":1}]
  std::string scope = {}, op = {}, placement = {};  // describe a value that a `watch_scope` watches
  std::vector<NamedArray> arrays = {};
};

/// Returns the nested value of a return with indices, counted from 0, in place of its tensors. For
/// ListNumpy it is a list of `devices` such values.
std::string structure_of(const plan::ReturnValue& value, int64_t devices = 1);

/// An array as it is written to the pipe: `head`, then `body`.
struct Encoded {
  Encoded(const NamedArray& array, plan::CommandSink::Format format);
  Encoded(Encoded&&) = default;  // A copy's body would alias the data of the original.
  size_t bytes() const { return head.size() + (body.data ? body.bytes() : 0); }

  std::string name;
  DType dtype;
  Shape shape;
  std::string head;  // header of a .npy, or the whole text with one row per line
  ArrayView body;    // its data is null if the head contains the whole array

 private:
  Delivered delivered_;
};

/// Returns {"flow":1,"event":"watch","job":...} and a newline.
std::string event_line(const std::string& job, const CommandEvent& event,
                       const std::vector<Encoded>& arrays);
/// Returns the line for a completed call of the job. `event` belongs to its last step.
std::string pass_end_line(const std::string& job, const CommandEvent& event);
/// Returns the first event of a stream. `names` lists the values that may be delivered.
std::string start_line(const std::string& job, const std::string& plan_hash,
                       const std::vector<std::string>& names, std::optional<int64_t> resumed_from);
/// Returns the last event of a stream. `status` is done, stopped or failed.
std::string end_line(const std::string& job, std::string_view status);

/// Returns the environment variables of an event: FLOW_EVENT, FLOW_SHAPE and so on.
std::map<std::string, std::string> event_environment(const std::string& job,
                                                     const CommandEvent& event,
                                                     const std::vector<Encoded>& arrays);

class Watchdog;

/// The settings that all commands of a run share.
struct CommandContext {
  std::string job = {}, plan_hash = {};
  fs::path directory = {};      // their working directory: that of the job file
  fs::path run_directory = {};  // FLOW_RUN_DIR
  std::optional<int64_t> resumed_from = {};
  bool output_to_stderr = false;
  std::function<void(const std::string&)> say = {};  // prints a remark; may be empty
  // Returns true if the run was asked to stop; may be empty.
  std::function<bool()> stopping = {};
  double patience = 30;                // seconds that a stopping run waits for commands
  const Watchdog* watchdog = nullptr;  // ends them when this process is killed; may be null
  bool hides_launcher = false;         // as in ProcessOptions; set for a distributed run
};

/// A command: one process for the whole run, or one for each event.
class Command {
 public:
  virtual ~Command() = default;
  /// Called before the first event.
  virtual void start() = 0;
  /// Delivers an event. On return, the event is in the pipe or acknowledged, or the process has
  /// ended.
  virtual void deliver(const CommandEvent& event) = 0;
  /// Called when a call of the job is complete. Only a process for the whole run receives this
  /// event.
  virtual void end_pass(CommandEvent) {}
  /// Tells the command that no more events follow, and how the run ended.
  virtual void close(std::string_view status) = 0;
  /// Waits for the end of the command, after close(). Throws RunError if it ended badly.
  virtual void await_end() = 0;
};

class StreamCommand;

class Commands {
 public:
  explicit Commands(CommandContext context);
  /// Ends the commands that still run, as at the end of a failed run.
  ~Commands();

  /// Returns the index to deliver to, for a new destination. Streams with equal options share one
  /// process. `name` and `where` describe the value that will be delivered.
  size_t add(const plan::CommandSink& options, const std::string& name, const std::string& where);
  /// Starts the processes that live for the whole run.
  void start();
  /// Delivers an event. Throws RunError, which states the place, step, command and cause, if the
  /// command fails and `on_error` does not request otherwise.
  void deliver(size_t place, const CommandEvent& event) { places_[place]->deliver(event); }
  /// Tells all commands that a call of the job is complete. Fails as deliver() does.
  void end_pass(const CommandEvent& event);
  /// Returns true if a command has asked the run to stop. May be called from any thread.
  bool asked_to_stop() const { return stop_asked_; }
  /// Closes all pipes, then waits for all commands. Throws the first failure.
  void end(std::string_view status);

 private:
  const CommandContext context_;
  std::atomic<bool> stop_asked_ = false;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<StreamCommand*> streams_;  // those of `commands_` that can be shared
  std::vector<Command*> places_;
  bool ended_ = false;
};

/// Returns a command as a user would type it, with quotes around the words that need them.
std::string command_text(const plan::CommandSink& options);

}  // namespace flow::io
