// The commands of a run: which values go to which process, and what becomes of a run whose
// commands end. What a command is told: a line of JSON, then the arrays that the line counts. Used
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

/// What fired in a step, or the end of a pass.
struct CommandEvent {
  std::string kind = {};   // return, watch, watch_diff, pass_end
  std::string name = {};   // the tensor's, or `returns` where a return holds several
  std::string where = {};  // "lenet.yaml:14:11"
  int64_t step = 0, epoch = 0;
  std::optional<plan::CallPlace> call = {};  // of a job that another one calls
  std::string value = "0";                   // nested, with indices into the arrays: [0,{"a":1}]
  std::string scope = {}, op = {}, placement = {};  // of what `watch_scope` watches
  std::vector<NamedArray> arrays = {};
};

/// The nested value of a return with indices in the place of tensors, counted from 0; of ListNumpy
/// a list of `devices` of them.
std::string structure_of(const plan::ReturnValue& value, int64_t devices = 1);

/// An array as it goes into the pipe: `head`, then `body`.
struct Encoded {
  Encoded(const NamedArray& array, plan::CommandSink::Format format);
  Encoded(Encoded&&) = default;  // a copy's body would be the original's
  size_t bytes() const { return head.size() + (body.data ? body.bytes() : 0); }

  std::string name;
  DType dtype;
  Shape shape;
  std::string head;  // the header of a .npy, or the whole text: a row a line
  ArrayView body;    // without data: there is none

 private:
  Delivered delivered_;
};

/// {"flow":1,"event":"watch","job":...}, with a newline.
std::string event_line(const std::string& job, const CommandEvent& event,
                       const std::vector<Encoded>& arrays);
/// A call of the job is complete. `event`: of its last step.
std::string pass_end_line(const std::string& job, const CommandEvent& event);
/// The first event of a stream. `names`: of what may come.
std::string start_line(const std::string& job, const std::string& plan_hash,
                       const std::vector<std::string>& names, std::optional<int64_t> resumed_from);
/// The last one. `status`: done, stopped or failed.
std::string end_line(const std::string& job, std::string_view status);

/// FLOW_EVENT, FLOW_SHAPE and so on.
std::map<std::string, std::string> event_environment(const std::string& job,
                                                     const CommandEvent& event,
                                                     const std::vector<Encoded>& arrays);

class Watchdog;

/// What all commands of a run share.
struct CommandContext {
  std::string job = {}, plan_hash = {};
  fs::path directory = {};      // in which they work: the job file's
  fs::path run_directory = {};  // FLOW_RUN_DIR
  std::optional<int64_t> resumed_from = {};
  bool output_to_stderr = false;
  std::function<void(const std::string&)> say = {};  // remarks; may be empty
  std::function<bool()> stopping = {};               // has the run been asked to stop? May be empty
  double patience = 30;                // seconds that commands have then for what they are at
  const Watchdog* watchdog = nullptr;  // ends them when this process is killed; may be null
  bool hides_launcher = false;         // as in ProcessOptions: of a distributed run
};

/// One command: a process for the whole run, or one for each event.
class Command {
 public:
  virtual ~Command() = default;
  /// Before the first event.
  virtual void start() = 0;
  /// "Reached" on return: the event is in the pipe, or was acknowledged, or its process has ended.
  virtual void deliver(const CommandEvent& event) = 0;
  /// A call of the job is complete. Only a process for the whole run hears of it.
  virtual void end_pass(CommandEvent) {}
  /// Tells it that nothing more will come, and that the run has ended so.
  virtual void close(std::string_view status) = 0;
  /// After close(): waits for its end. RunError when it ended badly.
  virtual void await_end() = 0;
};

class StreamCommand;

class Commands {
 public:
  explicit Commands(CommandContext context);
  /// Ends those that still run, as at the end of a failed run.
  ~Commands();

  /// Makes a place to deliver to. Streams that are written alike share one process. `name` and
  /// `where`: of what will be delivered.
  size_t add(const plan::CommandSink& options, const std::string& name, const std::string& where);
  /// Starts what runs for the whole run.
  void start();
  /// RunError, which names place, step, command and what happened, when the command fails and
  /// `on_error` does not say otherwise.
  void deliver(size_t place, const CommandEvent& event) { places_[place]->deliver(event); }
  /// Tells all that a call of the job is complete; fails as deliver() does.
  void end_pass(const CommandEvent& event);
  /// Has a command asked the run to stop? From any thread.
  bool asked_to_stop() const { return stop_asked_; }
  /// Closes all pipes, then waits for all; throws what the first one failed with.
  void end(std::string_view status);

 private:
  const CommandContext context_;
  std::atomic<bool> stop_asked_ = false;
  std::vector<std::unique_ptr<Command>> commands_;
  std::vector<StreamCommand*> streams_;  // those of them that can be shared
  std::vector<Command*> places_;
  bool ended_ = false;
};

/// A command as a person would type it: words that need it are quoted.
std::string command_text(const plan::CommandSink& options);

}  // namespace flow::io
