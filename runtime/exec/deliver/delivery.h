// What a run delivers: hooks and the return, in the order of a step, and where each goes.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/input/source.h"
#include "runtime/io/commands.h"
#include "runtime/io/reduction.h"
#include "runtime/io/sink.h"
#include "runtime/plan/model/condition.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// One tensor that goes to sinks, in every step or in some: a hook, or what is alike of a return.
struct Delivery : plan::Hook {
  std::string folder = {};  // below the run directory: "watch/lenet/conv1"
  std::string label = {};   // before what is printed: the name, "b/weight/diff", or a Dict's key
  bool gradient = false;
  bool every_step = false;                        // a return
  std::optional<plan::Condition> condition = {};  // that `when` writes
  /// ListNumpy: device `device` of `devices` gets its part of the rows; one without rows whole, or
  /// what a shard made of it.
  int64_t device = 0, devices = 1;

  /// Is it delivered as shards of the batch made it?
  bool is_part_of(const plan::Tensor& of) const {
    return per_device && of.batch_axis == plan::kBatchReduced;
  }
  /// Does it fire in that step, or where it has a condition: may it?
  bool fires(int64_t step) const;
  /// The same in each of the steps [first, end)? Seen where one range has all of them.
  bool fires_always(int64_t first, int64_t end) const;
  /// In how many steps below `end` it fires (where ranges overlap or it has a condition, at most).
  int64_t count(int64_t end) const;
};

/// All deliveries of a job in the order of a step: inputs, values in plan order, gradients in plan
/// order, the return last. RequestError where a tensor cannot be delivered: its rows are mixed and
/// the last batch is padded. `followed`: keys of the values that the run follows; hooks that make
/// others are left out.
std::vector<Delivery> list_deliveries(const plan::Job& job, const StepIndex& step_index,
                                      const std::set<std::string>& followed = {});

/// "ENTRY@STEP"; RequestError for other text.
CaptureRequest parse_capture(const std::string& text);

/// Deliveries to capture/inputs/NAME and capture/outputs/NAME, one file each. RequestError where
/// the job has no such entry. `job`: for the whole batch. `own`: by tensor, does each shard have
/// its own? Those are left out.
std::vector<Delivery> list_captured(const plan::Job& job, const std::vector<bool>& own,
                                    const CaptureRequest& request);

/// The key of the value that the hook makes for runs that follow it; null for a hook that the job
/// file has.
const std::string* made_key(const plan::Hook& hook);

/// Keys of the values of `job` that `main` follows: the same job, or one that it calls.
std::set<std::string> followed_keys(const plan::Job& main, const plan::Job& job);

/// By which deliveries of a step are ordered, the return apart: inputs, values, gradients.
std::tuple<bool, bool, plan::TensorId> order_of(const plan::Job& job, const Delivery& delivery);

/// The bytes that the .npy sinks of hooks will write in steps [first, end), at most.
uint64_t hook_bytes(const std::vector<Delivery>& deliveries, const plan::Job& job, int64_t first,
                    int64_t end);

/// What print sinks have summed up and not told, by sink, and how often a condition has held:
/// numbers for a run that goes on.
using Sums = std::map<std::string, std::vector<uint64_t>>;

/// What a checkpoint says of the outputs after its step.
struct OutputState {
  Sums sums;
  std::vector<io::GrowingFile> files;
};

/// The files below the run directory to which these deliveries append.
std::vector<std::string> growing_files(const std::vector<Delivery>& deliveries);

struct SinkOptions : io::JobSinks {
  std::FILE* out = nullptr;
  bool json = false;
  bool run_commands = true;
  io::CommandContext commands = {};
  Sums sums = {};  // of the checkpoint, when resuming
};

/// What fires, on its way to commands: as the whole that it is, not array by array.
class CommandDelivery {
 public:
  /// Starts the commands, where they are wanted. RunError when that fails. REQUIRES: `deliveries`
  /// outlive this.
  CommandDelivery(const plan::Job& job, const std::vector<Delivery>& deliveries,
                  const SinkOptions& options);

  bool takes(const Delivery& delivery) const;
  /// A value that fired. The last one of a return, or of the parts of ListNumpy, hands all over;
  /// until then the others stay where they are.
  void take(const Delivery& delivery, const io::Event& event);
  /// A call of the job is complete; `step`: its last one.
  void end_pass(int64_t step, int64_t epoch, const std::optional<plan::CallPlace>& call);
  bool asked_to_stop() const { return commands_.asked_to_stop(); }
  /// `status`: done, stopped or failed.
  void end(std::string_view status) { commands_.end(status); }

 private:
  /// A return, or what a hook watches: deliveries that follow one another, for the same commands.
  struct Whole {
    io::CommandEvent event;
    std::vector<size_t> places;
    size_t parts = 0;
  };
  void add(io::CommandEvent event, const std::vector<plan::Sink>& sinks);

  io::Commands commands_;
  std::vector<Whole> wholes_;
  std::map<const Delivery*, size_t> whole_of_;
};

/// Takes what a completed call left and hands it to the sinks. Used by one thread at a time.
class Deliverer {
 public:
  /// Makes the sinks: files are created, or cut when resuming, and commands are started. RunError
  /// when that fails.
  Deliverer(const plan::Job& job, const StepIndex& step_index,
            const std::vector<Delivery>& deliveries, const SinkOptions& options);

  /// Delivers step `step` of the call that is complete on `slot`. Returns what a `check: finite`
  /// found, nothing when all is well. RunError when a sink fails.
  std::optional<std::string> deliver(const Program& program, int64_t step, size_t slot);
  /// Will nothing be written or checked of this step, and delivering it be a matter of a few small
  /// sums?
  bool absorbs(int64_t step) const;
  /// Does the step end an epoch of which a sink reports something?
  bool reports_epoch_at(int64_t step) const {
    return reports_epochs_ && step_index_.at(step).last_of_epoch;
  }
  /// Around the steps of a call, where the job is called by another one.
  void begin_call(const plan::CallPlace& place) { call_ = place; }
  /// `steps`: that the job has made then, over all calls.
  void end_call(int64_t steps);
  /// The value of that key, of all that was delivered since it was last taken; nothing where that
  /// is nothing.
  std::optional<double> take_mean(const std::string& key);
  OutputState outputs() const;
  /// Adds how often hooks with a condition fired, which outputs() has, too.
  void add_fired(Sums& sums, const std::string& prefix) const;
  /// After the last step. Where the run goes on from a checkpoint, sums are told there.
  void finish(bool goes_on);
  /// Closes the sinks' files. RunError where the system could not keep what was written.
  void close();
  /// What asks the run to stop: a command, or the condition of a hook.
  Stop stop_asked() const;
  /// "job.yaml:9:9: step 5: `max > 1` holds for `loss`", of the first hook that asked for a stop.
  /// Called when no step is delivered.
  const std::string& stopping_hook() const { return stopping_hook_; }
  CommandDelivery& commands() { return commands_; }
  const CommandDelivery& commands() const { return commands_; }

 private:
  /// What the condition of a hook let through, for sinks that count it.
  struct Fired {
    std::string name = {};           // among the sums; empty: nothing counts it
    int64_t events = 0, epochs = 0;  // epochs with an event
    int64_t last_epoch = -1;
  };
  struct Route {
    const Delivery* delivery;
    const plan::Tensor* tensor;
    std::vector<std::unique_ptr<io::Sink>> sinks;
    Array scaled;     // where there is a factor
    ArrayView value;  // of the last event
    Fired fired = {};
  };
  std::unique_ptr<io::Sink> make_sink(const plan::Sink& sink, const io::SinkContext& context,
                                      const SinkOptions& options);
  void resume(const Delivery& delivery, io::Sink& sink, const Sums& sums);
  void write_scopes(const plan::Job& job, const SinkOptions& options) const;
  Fired fired_before(const Delivery& delivery, const SinkOptions& options) const;
  void take_value(Route& route, const Program& program, const Position& position, size_t slot);
  bool holds(std::span<const Route> parts, const Program& program, size_t slot);
  void hand_over(Route& route, int64_t step, const Position& position);

  const StepIndex step_index_;
  std::vector<Route> routes_;
  std::vector<ArrayView> parts_;                 // of the value that a condition is on
  std::optional<plan::TensorId> gradient_norm_;  // that conditions read
  std::string stopping_hook_;
  std::atomic<bool> hook_stops_ = false;
  bool reports_epochs_ = false;
  std::map<std::string, io::Sink*> sums_;       // the routes' sinks, by name of what they sum up
  std::map<std::string, io::MeanSink*> means_;  // likewise, by key
  std::optional<plan::CallPlace> call_;         // of a job that another one calls
  CommandDelivery commands_;
};

}  // namespace flow::exec
