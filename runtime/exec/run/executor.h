// Runs the calls of a prepared job: feed, compute and deliver, each on a thread of its own, joined
// by slots. In a synchronous job a call starts when the deliveries of the one before have reached
// their sinks; where nothing of that one leaves, nobody can tell, and a device that runs beside the
// host gets its call before. In an asynchronous job it starts when there is room for what it
// delivers. Inputs are loaded ahead, but for those of a synchronous job whose maker sees them read.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/run/backend.h"
#include "runtime/exec/run/profile.h"
#include "runtime/exec/run/stop.h"
#include "runtime/exec/run/thread_pool.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Steps that may be under way: 1 in a synchronous job.
int64_t pipeline_of(const plan::Job& job);
/// Two, or four where inputs are small: calls are then short, and the feed is woken for two at
/// once; at least one for each step under way.
size_t input_slots(const plan::Job& job);
/// One for each call and each delivery that may be under way.
size_t output_slots(const plan::Job& job, const Backend& backend);

/// The tensors that a job's calls are asked for: the loss first, then what is delivered.
std::vector<plan::TensorId> list_deliverables(const plan::Job& job,
                                              const std::vector<Delivery>& deliveries);

/// What happened in a completed call, for the record log.
struct StepRecord {
  int64_t step = 0;
  double learning_rate = 0;
  std::optional<double> loss;        // train jobs
  std::optional<double> loss_scale;  // of those with a dynamic one
  bool skipped = false;              // a gradient was not finite: nothing is updated
  double seconds = 0;                // since the first call
  bool saves = false;                // the state after it is captured
  bool delivers = false;             // something of it leaves: the delivery thread's work
  OutputState outputs = {};          // where it saves: what its checkpoint says of them
};

/// Threads of the pool that execute() takes.
constexpr size_t kThreads = 3;

struct Execution {
  const plan::Job& job;
  Program& program;
  InputPipeline& feed;
  const std::vector<Delivery>& deliveries;
  Deliverer& deliverer;
  int64_t first = 0, end = 0;  // global steps
  /// Of the first call of a run that is executed in parts; nothing: these are all.
  std::optional<std::chrono::steady_clock::time_point> since = {};
  size_t output_slots = 1;      // that the program was prepared with
  bool launches_ahead = false;  // may a call be launched before the one before it is complete?
  ThreadPool& pool;
  /// Called on the compute thread after the steps for which `saves` says so: copies what on_step
  /// may then save. Allocates nothing.
  std::function<void()> capture = {};
  std::function<bool(int64_t step)> saves = {};
  /// Called on the delivery thread after the step's deliveries, in order.
  std::function<void(const StepRecord&)> on_step;
  /// Asked on the compute thread before each call: does the run end there? May be empty.
  std::function<Stop()> stop;
  Profile* profile = nullptr;  // of a program that profiles
};

struct RunResult {
  int64_t steps = 0;  // global step reached: calls that are complete
  std::optional<double> last_loss;
  double seconds = 0;  // of all calls and deliveries, since the first
  std::optional<std::chrono::steady_clock::time_point> since;  // when that began
  std::optional<std::chrono::steady_clock::time_point> first_call_done;
  Stop stop = Stop::kNone;
  std::string failure;  // a check failed: a non-finite loss or checked tensor
  /// What the feed, a sink or on_step threw. The calls up to `steps` are complete all the same, and
  /// `delivered` all they left, unless it was a sink or on_step.
  std::exception_ptr error;
  bool delivered = true;

  bool cut_short() const { return stop != Stop::kNone || !failure.empty() || error; }
};

/// Runs steps [first, end), or up to where a stream ends; the deliverer is not told that these were
/// the last. From the second one on the compute thread allocates nothing. Throws RunError: a fault
/// of a call (naming step, row, value and limit), or the device's failure.
RunResult execute(const Execution& execution);

}  // namespace flow::exec
