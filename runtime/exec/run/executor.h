// Runs the calls of a prepared job on three threads (see the diagram in executor.cpp). In a
// synchronous job, a call starts when the deliveries of the previous call have reached their sinks.
// If the previous call delivers nothing, a device other than the host receives the next call
// earlier. In an asynchronous job, a call starts when an output slot is free. Inputs are loaded
// ahead, except those of a synchronous job that come from a pipe, because the writer of the pipe
// can see when they are read.
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

/// The number of steps that may be in flight: 1 in a synchronous job.
int64_t pipeline_of(const plan::Job& job);
/// The number of input slots: two, or four for small inputs, whose calls are short, so that the
/// feed is woken once for two calls. At least one for each step in flight.
size_t input_slots(const plan::Job& job);
/// The number of output slots: one for each call and each delivery that may be in flight.
size_t output_slots(const plan::Job& job, const Backend& backend);

/// The tensors by which the loss, or a part of it, is divided: the weight of the labels that count.
std::vector<plan::TensorId> divisors_of_loss(const plan::Job& job);

/// The tensors that the host reads after every call: first the loss, then its divisors, then the
/// condition that ends a loop.
std::vector<plan::TensorId> read_in_each_call(const plan::Job& job);

/// The tensors that a job's calls may request: first those that the host reads after each call,
/// then those that are delivered.
std::vector<plan::TensorId> list_deliverables(const plan::Job& job,
                                              const std::vector<Delivery>& deliveries);

/// The results of a completed call, for the record log.
struct StepRecord {
  int64_t step = 0;
  double learning_rate = 0;
  std::optional<double> loss;                // only in train jobs
  bool without_labels = false;               // a divisor of the loss is 0: no label counts
  std::optional<double> loss_scale;          // only if it is dynamic
  std::optional<double> gradient_norm = {};  // the norm before clipping, if it is computed
  bool skipped = false;      // a gradient was not finite, so that nothing was updated
  double seconds = 0;        // time since the first call
  bool saves = false;        // the state after the step is captured
  bool delivers = false;     // the delivery thread delivers something of the step
  OutputState outputs = {};  // the state for the checkpoint, if the step saves one
};

/// The number of threads of the pool that execute() uses.
constexpr size_t kThreads = 3;

/// A job with its data and its program: the job of a run, or a job that it calls.
struct PreparedJob {
  /// Opens the data. `given` contains the `--input` flags for this job. `learned` and `draws` are
  /// passed to InputPipeline.
  PreparedJob(const plan::Job& planned, const RunRequest& request,
              const std::vector<std::pair<std::string, std::string>>& given,
              const data::Learned& learned, std::string draws = "", Misreading misread = {});

  const plan::Job& job;      // the job as prepared; its batch may be divided into shards
  plan::UnshardedJob whole;  // describes the whole batch, for everything except the program
  std::unique_ptr<InputPipeline> input_pipeline;
  std::vector<Delivery> deliveries = {};
  std::unique_ptr<Program> program = {};
  size_t output_slots = 1;      // the number that the program was prepared with
  bool launches_ahead = false;  // a call may be launched before the previous one is complete
};

struct Execution {
  PreparedJob& prepared;
  Deliverer& deliverer;
  int64_t first = 0, end = 0;                // global steps
  std::optional<double> learning_rate = {};  // the current base rate, if it falls on a plateau
  /// The time when the first call started, if the run is executed in parts.
  std::optional<std::chrono::steady_clock::time_point> since = {};
  ThreadPool& pool;
  /// Called on the compute thread after the steps for which `saves` returns true: copies the state
  /// that on_step then saves. Allocates nothing. All ranks call it after the steps that rank 0
  /// selects.
  std::function<void()> capture = {};
  std::function<bool(int64_t step)> saves = {};
  /// Called on the delivery thread after the deliveries of each step, in order.
  std::function<void(const StepRecord&)> on_step = {};
  /// Called on the compute thread before each call: returns the reason to end the run here, if any.
  /// May be empty.
  std::function<Stop()> stop = {};
  Profile* profile = nullptr;  // null if the program does not profile
  /// Called on the compute thread with the fingerprints that the program took, in every step that
  /// is a multiple of `fingerprint_every`. If `fingerprint_every` is 0, it is never called.
  std::function<void(int64_t step, std::span<const Fingerprint>)> keep_fingerprints = {};
  int64_t fingerprint_every = 0;
  /// The ranks that run the same steps; null if this process is the only rank. Either all ranks
  /// launch a call or none does, and all stop after the same step.
  Ranks* ranks = nullptr;
};

struct RunResult {
  int64_t steps = 0;  // the global step reached, which is the number of complete calls
  std::optional<double> last_loss;
  bool without_labels = false;  // the value in the last step's record
  double seconds = 0;           // time of all calls and deliveries, since the first call
  /// The time when the first call started.
  std::optional<std::chrono::steady_clock::time_point> since;
  std::optional<std::chrono::steady_clock::time_point> first_call_done;
  Stop stop = Stop::kNone;
  std::string failure;  // the text of a failed check: a non-finite loss or checked tensor
  /// An exception from the feed, a sink or on_step. The calls up to `steps` are complete
  /// nevertheless. `delivered` is true if their deliveries are complete, too; it is false after an
  /// error of a sink or of on_step.
  std::exception_ptr error;
  bool delivered = true;

  bool cut_short() const { return stop != Stop::kNone || !failure.empty() || error; }
};

/// Runs steps [first, end), or fewer if a stream ends earlier. The deliverer stays open for more
/// steps. From the second call on, the compute thread allocates nothing. Throws RunError for a
/// fault of a call (naming step, row, value and limit) and for a failure of the device.
RunResult execute(const Execution& execution);

/// Runs the steps on all ranks if the execution has several: rank 0 orders the others to run the
/// steps of job `job`, a number as in Order. An error on any rank becomes the error of rank 0's
/// result. Without ranks, the same as execute.
RunResult execute_on_ranks(const Execution& execution, int64_t job);

/// Sets the loss, whether its divisor is 0, the loss scale, and whether the call skipped its
/// update. REQUIRES: a train job.
void read_losses(const Program& program, size_t slot, const plan::Job& job, StepRecord& record);
/// Returns a text such as "the loss `loss` is nan", with the reason if it is known.
std::string text_of_loss(const plan::Optimizer& optimizer, const StepRecord& record);

/// Returns an error that names the step, the place in the job file, the value and its limit, and
/// the position of the value in the data: "step 3: `label` contains 10 at row 13 (row 3900 of
/// data/labels.npy)".
RunError fault_error(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline);

/// Returns where the steps of a job with a loop are divided: PrepareOptions::segments.
std::vector<size_t> segments_of(const plan::Job& job);

/// Returns a program that runs the first segment of `program`, its second segment once for each
/// pass, and its last segment. States stay on the device. The host reads `until` after each pass.
/// REQUIRES: `program` was prepared from `job`, which has a loop, with segments_of(job).
std::unique_ptr<Program> make_loop(const plan::Job& job, std::unique_ptr<Program> program);

/// Wraps a program so that its inputs and results have the rows of the batch in the order of the
/// data, while the program itself receives them in a random order drawn from `seed`. `options` are
/// those of the program. Throws RequestError if the job has no rows, or if its results depend on
/// their order: if it draws a random number for each row, or delivers parts of shards.
std::unique_ptr<Program> permute_rows(const plan::Job& job, const PrepareOptions& options,
                                      uint64_t seed, std::unique_ptr<Program> program);

}  // namespace flow::exec
