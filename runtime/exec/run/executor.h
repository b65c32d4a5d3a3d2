// Runs the calls of a prepared job on three threads (see the diagram in executor.cpp). In a
// synchronous job, a call starts when the deliveries of the previous call have reached their sinks.
// Where that call delivers nothing, a device that runs beside the host gets the next call earlier.
// In an asynchronous job, a call starts when an output slot is free. Inputs are loaded ahead,
// except those of a synchronous job that come from a pipe, whose writer sees when they are read.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/exec/core/backend.h"
#include "runtime/exec/core/profile.h"
#include "runtime/exec/core/run_request.h"
#include "runtime/exec/core/thread_pool.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/input/input_pipeline.h"
#include "runtime/exec/ranks/ranks.h"
#include "runtime/plan/model/plan.h"
#include "runtime/plan/model/shards.h"

namespace flow::exec {

/// Steps that may be in flight: 1 in a synchronous job.
int64_t pipeline_of(const plan::Job& job);
/// Two, or four where inputs are small: calls are then short, and the feed is woken for two at
/// once. At least one for each step in flight.
size_t input_slots(const plan::Job& job);
/// One for each call and each delivery that may be in flight.
size_t output_slots(const plan::Job& job, const Backend& backend);

/// What the loss, or a part of it, is divided by: the weight of the labels that count.
std::vector<plan::TensorId> divisors_of_loss(const plan::Job& job);

/// What runs read of every call: the loss first, what it is divided by, and what ends a loop.
std::vector<plan::TensorId> read_in_each_call(const plan::Job& job);

/// The tensors that a job's calls are asked for: those that each call reads, then what is
/// delivered.
std::vector<plan::TensorId> list_deliverables(const plan::Job& job,
                                              const std::vector<Delivery>& deliveries);

/// What happened in a completed call, for the record log.
struct StepRecord {
  int64_t step = 0;
  double learning_rate = 0;
  std::optional<double> loss;                // train jobs
  bool without_labels = false;               // a divisor of the loss is 0: no label counts
  std::optional<double> loss_scale;          // of those with a dynamic one
  std::optional<double> gradient_norm = {};  // before clipping, where it is computed
  bool skipped = false;                      // a gradient was not finite: nothing is updated
  double seconds = 0;                        // since the first call
  bool saves = false;                        // the state after it is captured
  bool delivers = false;                     // the delivery thread delivers something of it
  OutputState outputs = {};                  // where it saves: for its checkpoint
};

/// Threads of the pool that execute() takes.
constexpr size_t kThreads = 3;

/// A job with its data and its program: that of a run, or one that it calls.
struct PreparedJob {
  /// Opens the data. `given`: what `--input` says for this job. `draws`: as of InputPipeline.
  PreparedJob(const plan::Job& planned, const RunRequest& request,
              const std::vector<std::pair<std::string, std::string>>& given, std::string draws = "",
              Misreading misread = {});

  const plan::Job& job;      // as it is prepared: its batch may be cut
  plan::UnshardedJob whole;  // for the whole batch: what all but the program is of
  std::unique_ptr<InputPipeline> input_pipeline;
  std::vector<Delivery> deliveries = {};
  std::unique_ptr<Program> program = {};
  size_t output_slots = 1;      // that the program was prepared with
  bool launches_ahead = false;  // may a call be launched before the one before it is complete?
};

struct Execution {
  PreparedJob& prepared;
  Deliverer& deliverer;
  int64_t first = 0, end = 0;                // global steps
  std::optional<double> learning_rate = {};  // what a run made of the base of a plateau
  /// When the first call started, in a run that is executed in parts.
  std::optional<std::chrono::steady_clock::time_point> since = {};
  ThreadPool& pool;
  /// Called on the compute thread after the steps that `saves` names: copies what on_step then
  /// saves. Allocates nothing. All ranks call it in the steps that `saves` names on rank 0.
  std::function<void()> capture = {};
  std::function<bool(int64_t step)> saves = {};
  /// Called on the delivery thread after the step's deliveries, in order.
  std::function<void(const StepRecord&)> on_step = {};
  /// Asked on the compute thread before each call: does the run end here? May be empty.
  std::function<Stop()> stop = {};
  Profile* profile = nullptr;  // of a program that profiles
  /// Called on the compute thread with those that the program took, in every step that is a
  /// multiple of `fingerprint_every`; 0: never.
  std::function<void(int64_t step, std::span<const Fingerprint>)> keep_fingerprints = {};
  int64_t fingerprint_every = 0;
  /// Those that run the same steps; null: this process is alone. They launch a call together or not
  /// at all, and stop after the same step.
  Ranks* ranks = nullptr;
};

struct RunResult {
  int64_t steps = 0;  // global step reached: calls that are complete
  std::optional<double> last_loss;
  bool without_labels = false;  // of the last step, as in its record
  double seconds = 0;           // of all calls and deliveries, since the first
  std::optional<std::chrono::steady_clock::time_point> since;  // when that began
  std::optional<std::chrono::steady_clock::time_point> first_call_done;
  Stop stop = Stop::kNone;
  std::string failure;  // a check failed: a non-finite loss or checked tensor
  /// What the feed, a sink or on_step threw. The calls up to `steps` are complete all the same.
  /// `delivered`: so are their deliveries, which is false after an error of a sink or on_step.
  std::exception_ptr error;
  bool delivered = true;

  bool cut_short() const { return stop != Stop::kNone || !failure.empty() || error; }
};

/// Runs steps [first, end), or up to where a stream ends. The deliverer stays open for more. From
/// the second call on, the compute thread allocates nothing. Throws RunError for a fault of a call
/// (naming step, row, value and limit) and for a failure of the device.
RunResult execute(const Execution& execution);

/// Runs the steps on all ranks, where the execution has several: rank 0 tells the others to run
/// those of job `job`, as Order counts them. What fails on one rank is the error of rank 0's
/// result. Without ranks: as execute.
RunResult execute_on_ranks(const Execution& execution, int64_t job);

/// Fills in the loss and why it may be NaN, the loss scale and whether the call skipped its update.
/// REQUIRES: a train job.
void read_losses(const Program& program, size_t slot, const plan::Job& job, StepRecord& record);
/// "the loss `loss` is nan", and why where that is known.
std::string text_of_loss(const plan::Optimizer& optimizer, const StepRecord& record);

/// Names the step, the place in the job file, the value and its limit, and where in the data the
/// value is: "step 3: `label` contains 10 at row 13 (row 3900 of data/labels.npy)".
RunError fault_error(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline);

}  // namespace flow::exec
