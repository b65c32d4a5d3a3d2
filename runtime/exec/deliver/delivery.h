// The deliveries of a run: the tensors of hooks and of the return, in the order of a step, and the
// sinks that receive them.
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

/// A tensor that goes to sinks in every step or in some steps: that of a hook, or a tensor of the
/// return.
struct Delivery : plan::Hook {
  std::string folder = {};  // relative to the run directory: "watch/lenet/conv1"
  std::string label = {};   // the prefix of printed values: the name, "b/weight/diff", a Dict's key
  bool gradient = false;
  bool every_step = false;                        // true for a tensor of the return
  std::optional<plan::Condition> condition = {};  // the parsed `when`
  /// For ListNumpy: device `device` of `devices` receives its part of the rows. A tensor without
  /// rows is delivered whole, or as the part that a shard made.
  int64_t device = 0, devices = 1;

  /// Returns true if the tensor is delivered in the parts that the shards of the batch made.
  bool is_part_of(const plan::Tensor& of) const {
    return per_device && of.batch_axis == plan::kBatchReduced;
  }
  /// Returns true if it fires in this step, or may fire if it has a condition.
  bool fires(int64_t step) const;
  /// Returns true if it fires in each of the steps [first, end). Returns false if more than one
  /// range is necessary to cover them.
  bool fires_always(int64_t first, int64_t end) const;
  /// Returns the number of steps below `end` in which it fires. This is an upper bound if ranges
  /// overlap or if it has a condition.
  int64_t count(int64_t end) const;
};

/// Lists all deliveries of a job in the order of a step: inputs, values in plan order, gradients in
/// plan order, then the return. Throws RequestError if a tensor cannot be delivered because its
/// rows are mixed and the last batch is padded. `followed` contains the keys of the values that the
/// run follows; hooks that make other values are omitted.
std::vector<Delivery> list_deliveries(const plan::Job& job, const StepIndex& step_index,
                                      const std::set<std::string>& followed = {});

/// Parses "ENTRY@STEP". Throws RequestError for any other text.
CaptureRequest parse_capture(const std::string& text);

/// Lists the deliveries to capture/inputs/NAME and capture/outputs/NAME, one file each. Throws
/// RequestError if the job has no such entry. `job` describes the whole batch. `own` is indexed by
/// tensor and is true if each shard has a different tensor; these tensors are omitted.
std::vector<Delivery> list_captured(const plan::Job& job, const std::vector<bool>& own,
                                    const CaptureRequest& request);

/// Returns the key of the value that the hook makes for runs that follow it, or null for a hook of
/// the job file.
const std::string* made_key(const plan::Hook& hook);

/// Returns the keys of the values of `job` that `main` follows. `job` is either `main` or a job
/// that it calls.
std::set<std::string> followed_keys(const plan::Job& main, const plan::Job& job);

/// Returns the sort key of deliveries in a step, except the return: inputs, values, gradients.
std::tuple<bool, bool, plan::TensorId> order_of(const plan::Job& job, const Delivery& delivery);

/// Returns the most bytes that the .npy sinks of hooks will write in steps [first, end).
uint64_t hook_bytes(const std::vector<Delivery>& deliveries, const plan::Job& job, int64_t first,
                    int64_t end);

/// The sums that print sinks have not printed yet, by sink, and how often conditions have held.
/// They are stored as numbers, for a run that is resumed.
using Sums = std::map<std::string, std::vector<uint64_t>>;

/// The state of the outputs that a checkpoint stores after its step.
struct OutputState {
  Sums sums;
  std::vector<io::GrowingFile> files;
};

/// Returns the files, relative to the run directory, to which these deliveries append.
std::vector<std::string> growing_files(const std::vector<Delivery>& deliveries);

struct SinkOptions : io::JobSinks {
  std::FILE* out = nullptr;
  bool json = false;
  bool run_commands = true;
  io::CommandContext commands = {};
  Sums sums = {};  // the sums in the checkpoint that is resumed
};

/// Passes values that fire to commands. A value of several arrays is passed as a whole.
class CommandDelivery {
 public:
  /// Starts the commands if they are enabled. Throws RunError on failure. REQUIRES: `deliveries`
  /// outlives this object.
  CommandDelivery(const plan::Job& job, const std::vector<Delivery>& deliveries,
                  const SinkOptions& options);

  bool takes(const Delivery& delivery) const;
  /// Takes a value that fired. The arrays of a return, or the parts of a ListNumpy, are passed on
  /// together with the last of them; until then they must stay in place.
  void take(const Delivery& delivery, const io::Event& event);
  /// Reports that a call of the job is complete; `step` is its last step.
  void end_pass(int64_t step, int64_t epoch, const std::optional<plan::CallPlace>& call);
  bool asked_to_stop() const { return commands_.asked_to_stop(); }
  /// `status` is done, stopped or failed.
  void end(std::string_view status) { commands_.end(status); }

 private:
  /// A return, or the tensor that a hook watches: consecutive deliveries for the same commands.
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

/// Passes the results of completed calls to the sinks. Only one thread may use it at a time.
class Deliverer {
 public:
  /// Makes the sinks: creates files, or truncates them when resuming, and starts commands. Throws
  /// RunError on failure.
  Deliverer(const plan::Job& job, const StepIndex& step_index,
            const std::vector<Delivery>& deliveries, const SinkOptions& options);

  /// Delivers step `step` of the call that is complete on `slot`. Returns what a `check: finite`
  /// found, or nothing if all values are finite. Throws RunError if a sink fails.
  std::optional<std::string> deliver(const Program& program, int64_t step, size_t slot);
  /// Returns true if delivering this step writes and checks nothing and only adds to a few small
  /// sums.
  bool absorbs(int64_t step) const;
  /// Returns true if the step ends an epoch and a sink reports values of epochs.
  bool reports_epoch_at(int64_t step) const {
    return reports_epochs_ && step_index_.at(step).last_of_epoch;
  }
  /// begin_call and end_call enclose the steps of a call if another job calls this job.
  void begin_call(const plan::CallPlace& place) { call_ = place; }
  /// `steps` is the number of steps that the job has completed in all calls.
  void end_call(int64_t steps);
  /// Returns the mean with this key over all values since the last call of this function, or
  /// nothing if there were none.
  std::optional<double> take_mean(const std::string& key);
  OutputState outputs() const;
  /// Adds how often conditional hooks fired. outputs() includes these numbers.
  void add_fired(Sums& sums, const std::string& prefix) const;
  /// Called after the last step. If `goes_on`, unfinished sums are not printed, because the run
  /// will be resumed from a checkpoint that contains them.
  void finish(bool goes_on);
  /// Closes the sinks' files. Throws RunError if the system could not store what was written.
  void close();
  /// Returns the reason to stop: a command or the condition of a hook, if one has requested it.
  Stop stop_asked() const;
  /// Describes the first hook that requested a stop: "job.yaml:9:9: step 5: `max > 1` holds for
  /// `loss`". Must not be called while a step is delivered.
  const std::string& stopping_hook() const { return stopping_hook_; }
  CommandDelivery& commands() { return commands_; }
  const CommandDelivery& commands() const { return commands_; }

 private:
  /// The events that passed the condition of a hook, for sinks that count them.
  struct Fired {
    std::string name = {};           // the name among the sums; empty if no sink counts them
    int64_t events = 0, epochs = 0;  // `epochs` counts the epochs with an event
    int64_t last_epoch = -1;
  };
  struct Route {
    const Delivery* delivery;
    const plan::Tensor* tensor;
    std::vector<std::unique_ptr<io::Sink>> sinks;
    Array scaled;     // used if there is a factor
    ArrayView value;  // the value of the last event
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
  std::vector<ArrayView> parts_;                 // the parts of the value that a condition tests
  std::optional<plan::TensorId> gradient_norm_;  // read by conditions
  std::string stopping_hook_;
  std::atomic<bool> hook_stops_ = false;
  bool reports_epochs_ = false;
  std::map<std::string, io::Sink*> sums_;  // the sinks of the routes, by the name of their sums
  std::map<std::string, io::MeanSink*> means_;  // the mean sinks of the routes, by key
  std::optional<plan::CallPlace> call_;         // set if another job calls this job
  CommandDelivery commands_;
};

}  // namespace flow::exec
