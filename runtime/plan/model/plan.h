// The plan: the contract between the compiler and the runtime. It contains everything that can be
// known before a run: the tensors, the steps of one call of each job function, and, as data, what
// drives the calls (inputs, returns, hooks, schedule, run section). Steps are not unrolled over
// time.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ops/core/attributes.h"
#include "ops/core/limits.h"
#include "ops/core/op_ref.h"
#include "runtime/base/array.h"
#include "runtime/plan/model/dataset.h"
#include "runtime/plan/model/generators.h"
#include "runtime/plan/model/metric.h"
#include "runtime/plan/model/name_rules.h"
#include "runtime/plan/model/schedule.h"

namespace flow {

/// An index into one kind of vector, so that the number of a tensor cannot be used as the number of
/// a step. A negative value means that the id is invalid.
template <typename Tag>
struct Id {
  int32_t value = -1;

  Id() = default;
  explicit Id(size_t index) : value(static_cast<int32_t>(index)) {}
  bool valid() const { return value >= 0; }
  size_t index() const { return static_cast<size_t>(value); }
  friend auto operator<=>(const Id&, const Id&) = default;
};

}  // namespace flow

namespace flow::plan {

using ops::Attribute;
using ops::Attributes;

inline constexpr int kVersion = 1;

/// The largest rank of a tensor; kernels may rely on it. Extents are at least 1.
inline constexpr int kMaxRank = ops::kMaxRank;

/// The limit for the bytes of all tensors of a job together. It is more than any machine can
/// address, and far below where sums would overflow.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 48;

/// The limits for the devices of a job, the steps in flight in an asynchronous job, and the shards
/// of a batch.
inline constexpr int64_t kMaxDevices = 64, kMaxPipeline = 1024, kMaxShards = 4096;

/// The largest number of threads that decode rows.
inline constexpr int64_t kMaxDataThreads = 1024;

/// The largest number of passes of a call.
inline constexpr int64_t kMaxPasses = 1 << 20;

using TensorId = Id<struct TensorTag>;
using StepId = Id<struct StepTag>;

/// A batch axis is the axis of a tensor along which the rows of the batch are stored. It is an axis
/// >= 0, or one of these values.
inline constexpr int kNoBatch = ops::kNoBatch;
inline constexpr int kBatchReduced = ops::kBatchReduced;

enum class Role { kInput, kVariable, kResult };

enum class DeviceKind { kCpu, kGpu };

/// "cpu", "gpu"
std::string_view name_of(DeviceKind device);
/// Returns the device kind that `device` is not.
constexpr DeviceKind other(DeviceKind device) {
  return device == DeviceKind::kCpu ? DeviceKind::kGpu : DeviceKind::kCpu;
}

using ops::Combine;

/// A call in parts. Each of `count` shards runs the first `steps` steps on its part of the batch's
/// rows, one shard after another or on several devices. The remaining steps run once, on the
/// results of the shards.
struct Sharding {
  int64_t count = 1;
  StepId steps;  // the first step after those of the shards
};

/// A call in passes. The steps before `first` run once, the steps from `first` up to `end` run up
/// to `passes` times, and the remaining steps run once.
struct Loop {
  int64_t passes = 1;
  StepId first, end;
  /// The values that a pass leaves to the next one. Each is a variable that a step before `first`
  /// sets and a step of the pass updates.
  std::vector<TensorId> states;
  TensorId until;  // bool: the loop ends once all of it is true; if invalid, only `passes` counts
};

/// A tensor of one call. A variable outlives the call. An input is written before the call. A
/// result is made by a step and lives from `first` to `last`.
struct Tensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Role role = Role::kResult;
  int batch_axis = kNoBatch;
  /// Set for a tensor that each shard computes from its part of the rows: how the steps after those
  /// of the shards combine these parts into the whole.
  std::optional<Combine> combine = {};
  /// The tensor whose memory this one takes over. It is an operand, of equal dtype and size, of the
  /// step that makes this tensor. For an updated variable, the reuse is mandatory. For a reshape or
  /// an elementwise result it is permitted; a backend makes use of it only if no later step reads
  /// the operand.
  TensorId alias;
  /// The steps between which the memory is in use, both included. For variables and inputs, this is
  /// the whole call. Invalid in a job without steps.
  StepId first, last;
  std::string where;  // "lenet.yaml:14:11"
  /// The device that stores the tensor, if it is not the job's device.
  std::optional<DeviceKind> device = {};
};

/// An elementwise op that is fused onto the result of a step: bias_add, relu, sgd_update, ... Fused
/// ops run in order. The first operand of each is the running value, which its result replaces.
struct EpilogueOp {
  ops::OpRef op;
  std::string name;                // the name of the primitive: "lenet/conv1/bias_add"
  std::vector<TensorId> operands;  // the operands after the first
  Attributes attributes;
};

struct Step {
  ops::OpRef op;     // a primitive
  std::string name;  // unique in the job: "lenet/conv1/conv"
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;  // an id is invalid if it is a second result that no step reads
  Attributes attributes;
  std::vector<EpilogueOp> epilogue;
  bool probe = false;  // runs only in calls in which a hook that reads it fires
  std::string where;
  /// The device that runs the step, if it is not the job's device. Operands and results are stored
  /// on the same device, except that the operand of a `copy` is on the other one.
  std::optional<DeviceKind> device = {};
  /// True if each shard computes the step from its local values only, regardless of other shards.
  /// The results declare whether they have rows or how their parts combine; otherwise each shard
  /// has a separate value.
  bool per_shard = false;
};

/// Returns the name of the slot that stores the average of a variable.
inline std::string average_of(const std::string& variable) { return variable + "/ema"; }

struct Variable {
  TensorId tensor;
  Initializer initializer;
  bool trainable = true;
  bool slot = false;  // state of an optimizer, which `load` does not read
};

/// Rows of a column. `part` names a part of the dataset's `split`; empty: the dataset itself, which
/// keeps the rows of no part.
struct FromDataset {
  std::string dataset, part, column;

  /// The rows that are read, "houses" or "houses/validation": the name of draws and of messages.
  std::string rows_name() const { return part.empty() ? dataset : dataset + "/" + part; }
};
struct FromNpy {
  std::string path;
};
/// The job file gives no source for the input; `--input` must give one.
struct FromCommandLine {};
using InputSource = std::variant<FromCommandLine, FromDataset, FromNpy, FromGenerator>;

struct Input {
  TensorId tensor;
  InputSource source;
  std::string where;
  std::string from_where;                                 // the place of the `from:` key, or empty
  std::optional<std::pair<int64_t, int64_t>> range = {};  // the limits of an integer input
};

struct NpySink {
  bool per_step = false;
};
enum class Reduce { kNone, kMean, kSum, kMin, kMax, kNorm };
enum class Over { kStep, kEpoch, kRun };
struct PrintSink {
  std::optional<std::string> label;  // if absent, the name of the tensor
  Reduce reduce = Reduce::kNone;
  Over over = Over::kStep;
  double scale = 1;
  std::string format = "numpy";  // "numpy", or one printf conversion of a double: "%.6g"
  int64_t every = 1;
  std::optional<Metric> metric = {};  // replaces `reduce` if set
  std::optional<bool> step = {};      // lines begin with the step; if absent, only on a terminal
};
constexpr double kLongestTimeout = 1e6;  // seconds
/// A program that receives values: one process for all of them, or one process for each.
struct CommandSink {
  enum class Mode { kStream, kSpawn };
  enum class Format { kNpy, kText };
  enum class OnError { kFail, kWarn };

  std::vector<std::string> run;  // the program and its arguments, or the line of a shell
  bool shell = false;
  std::map<std::string, std::string> env;
  Mode mode = Mode::kStream;
  Format format = Format::kNpy;
  OnError on_error = OnError::kFail;
  std::optional<double> timeout;  // in seconds, for one event
  bool ack = false;               // the program reports the end of an event on descriptor 3
  friend bool operator==(const CommandSink&, const CommandSink&) = default;
};
/// Writes a line of CSV for each value: moments, extremes, and a histogram of `bins` bins.
struct StatsSink {
  int64_t bins = 10;
};
constexpr int64_t kMostBins = 1000;
struct NoSink {};
/// Computes a value that a run follows: the mean of all elements, or a metric. `value` is the key
/// of the followed value.
struct MeanSink {
  std::string value;
  std::optional<Metric> metric = {};
};
using Sink = std::variant<NpySink, PrintSink, CommandSink, StatsSink, NoSink, MeanSink>;

/// A return value, which may be nested. A leaf names a tensor, List and Tuple have items, and Dict
/// has keys.
struct ReturnValue {
  enum class Kind { kNumpy, kListNumpy /* one array per device */, kList, kTuple, kDict };
  Kind kind = Kind::kNumpy;
  TensorId tensor;  // only for the leaves kNumpy and kListNumpy
  std::vector<ReturnValue> items;
  std::vector<std::string> keys;  // only for kDict, one for each item
  std::string name = {};          // for a leaf, its name in the job file and the name of its output

  bool is_leaf() const { return kind == Kind::kNumpy || kind == Kind::kListNumpy; }
};

struct Returns {
  std::string type;       // declared or inferred: "Callback[Tuple[Numpy, Numpy]]"
  bool callback = false;  // asynchronous; steps follow each other without waiting for sinks
  ReturnValue value;
  std::vector<Sink> sinks;
  std::string where;
};

/// The steps first, first + stride, ... below end.
struct StepRange {
  int64_t first = 0, end = 0, stride = 1;
};

struct Hook {
  enum class Kind { kWatch, kWatchDiff };
  Kind kind = Kind::kWatch;
  std::string name;   // the name of the watched tensor, as delivered
  TensorId tensor;    // the tensor itself; for watch_diff, its gradient of the summed loss
  double factor = 1;  // `of: mean` makes it 1 / (number of elements of the loss)
  std::vector<StepRange> steps;  // the steps in which the hook fires
  /// A condition (condition.h). If it is set, the hook fires in those of the steps in which the
  /// condition holds.
  std::optional<std::string> when = {};
  bool stops = false;  // the run stops after a step in which the condition holds
  bool check_finite = false;
  bool per_device = false;  // true for ListNumpy: one array per device
  /// Set for `watch_scope` only: the scope, and the op that makes the tensor, or `variable`.
  std::string scope, op;
  std::vector<Sink> sinks;
  std::string where;
};

/// A loss scale that adapts to the gradients.
struct DynamicLossScale {
  TensorId scale;   // the variable that stores the scale
  TensorId factor;  // a factor for the gradients of this call; if it is NaN, nothing is updated
};

struct Optimizer {
  std::string type;  // "sgd", ...; the updates are steps of the plan
  Schedule learning_rate;
  TensorId loss;  // a scalar: the mean loss that is minimized
  std::string loss_name;
  std::optional<DynamicLossScale> loss_scale = {};
  /// A scalar: the norm of all gradients of the mean loss, before they are clipped.
  std::optional<TensorId> gradient_norm = {};
  std::string where;
};

/// Calls visit(id) with each tensor of the optimizer that is read after every call, the loss first.
template <typename AnyOptimizer, typename Visit>
void visit_tensors(AnyOptimizer& optimizer, const Visit& visit) {
  visit(optimizer.loss);
  if (optimizer.gradient_norm) visit(*optimizer.gradient_norm);
  if (!optimizer.loss_scale) return;
  visit(optimizer.loss_scale->scale);
  visit(optimizer.loss_scale->factor);
}

struct Checkpointing {
  std::vector<std::string> load;              // paths as written; later files override earlier ones
  std::optional<std::string> save;            // the path as written
  int64_t every_steps = 0, every_epochs = 0;  // 0 if not set
  std::optional<double> every_minutes = {};   // an interval in time instead; only in train jobs
  bool rolls = false;                         // a checkpoint by time replaces the previous one
  int64_t keep = 3;
  std::optional<FollowedValue> keep_best = {};  // keeps the state in which this value is best
  std::vector<NameRule> names = {};             // rules for the arrays that `load` reads
  std::vector<std::string> load_where = {};     // the place of each path of `load` in the job file
  std::string save_where;
};

/// Another job that is called while this one runs, on the same variables. It is called when N, 2N,
/// ... steps or epochs of this job are complete.
struct SubJob {
  std::string job;
  int64_t every_steps = 0, every_epochs = 0;  // one of them is set, the other is 0
  std::string where;
  bool averaged = false;  // the called job reads averages instead of the variables that have one
};

struct Run {
  std::vector<SubJob> also;
  std::optional<int64_t> epochs, steps;
  bool shuffle = false;
  std::optional<ShuffleBuffer> shuffle_buffer = {};  // shuffles through a buffer instead
  std::optional<Sampling> sampling = {};             // draws rows instead; excludes shuffling
  std::optional<int64_t> data_threads = {};          // threads that decode; default: half the cores
  int64_t pipeline = 4;  // the number of steps in flight in an asynchronous job
  int64_t log_every = 1;
  bool fail_on_nonfinite = true;
  Checkpointing checkpoint;
  std::optional<EarlyStopping> early_stopping = {};
};

/// The devices `first` to `last` of a machine.
struct DeviceRange {
  int64_t machine = 0, first = 0, last = 0;

  bool operator==(const DeviceRange&) const = default;
};

struct Job {
  std::string name;
  bool train = false;
  DeviceKind device = DeviceKind::kCpu;  // the default for tensors and steps
  int64_t devices = 1;                   // the number of devices that share the rows of a batch
  /// The devices of the ranks, in the order of the ranks. If empty, each rank takes the next device
  /// of its host.
  std::vector<DeviceRange> ids = {};
  /// How the batch is split. Shapes of tensors with a batch axis are those of one shard.
  std::optional<Sharding> sharding = {};
  std::optional<Loop> loop = {};      // only in predict jobs
  std::string precision = "float32";  // see precision.h
  bool deterministic = true;          // results are bit-identical in every run on the same device
  uint64_t seed = 0;
  std::vector<Tensor> tensors;
  std::vector<Variable> variables;
  std::vector<Dataset> datasets;  // the datasets that the inputs read
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::optional<Returns> returns;
  std::vector<Hook> hooks;
  std::optional<Optimizer> optimizer;  // only in train jobs
  Run run;
  std::string where;

  const Tensor& operator[](TensorId id) const { return tensors[id.index()]; }
  /// Returns the device that stores a tensor or runs a step.
  DeviceKind device_of(const Tensor& tensor) const { return tensor.device.value_or(device); }
  DeviceKind device_of(const Step& step) const { return step.device.value_or(device); }
};

/// Calls visit(value) with each value that the job follows.
template <typename AnyJob, typename Visit>
void visit_followed(AnyJob& job, const Visit& visit) {
  if (job.run.early_stopping) visit(job.run.early_stopping->value);
  if (job.run.checkpoint.keep_best) visit(*job.run.checkpoint.keep_best);
  if (job.optimizer && job.optimizer->learning_rate.follows)
    visit(*job.optimizer->learning_rate.follows);
}

/// Returns true if the job keeps an average of that variable.
bool has_average(const Job& job, const std::string& variable);

/// Returns true if a tensor or step of the job is not on the job's device.
bool has_two_devices(const Job& job);

struct Plan {
  int version = kVersion;
  std::string source;  // the path of the job file as written: "jobs/lenet.yaml"
  std::string root;    // the directory of the job file; not part of the hash
  std::vector<Job> jobs;
  std::vector<std::string> notes;  // the texts of `note:` keys
};

}  // namespace flow::plan
