// The plan: the contract between the compiler and the runtime. Everything that can be known
// before a run: tensors, the steps of one call of each job function, and, as data, what drives
// the calls (inputs, returns, hooks, schedule, run section). Steps are not unrolled over time.
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
#include "runtime/plan/model/generators.h"
#include "runtime/plan/model/metric.h"
#include "runtime/plan/model/name_rules.h"
#include "runtime/plan/model/schedule.h"

namespace flow {

/// An index into one kind of vector, so that a tensor's number is never taken for a step's;
/// negative means none.
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

/// No tensor has more dimensions; kernels may count on it. Extents are at least 1.
inline constexpr int kMaxRank = ops::kMaxRank;

/// Of all tensors of a job: more than any machine addresses, far from where sums would overflow.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 48;

/// Devices of a job, steps under way in an asynchronous one, and shards of a batch.
inline constexpr int64_t kMaxDevices = 64, kMaxPipeline = 1024, kMaxShards = 4096;

/// Passes of a call.
inline constexpr int64_t kMaxPasses = 1 << 20;

using TensorId = Id<struct TensorTag>;
using StepId = Id<struct StepTag>;

/// Which axis of a tensor carries the rows of the batch. An axis >= 0, or one of these.
inline constexpr int kNoBatch = ops::kNoBatch;
inline constexpr int kBatchReduced = ops::kBatchReduced;

enum class Role { kInput, kVariable, kResult };

enum class DeviceKind { kCpu, kGpu };

/// "cpu", "gpu"
std::string_view name_of(DeviceKind device);
/// The one that it is not.
constexpr DeviceKind other(DeviceKind device) {
  return device == DeviceKind::kCpu ? DeviceKind::kGpu : DeviceKind::kCpu;
}

using ops::Combine;

/// A call in parts: each of `count` shards runs the first `steps` steps on its own rows of the
/// batch, one after another or on several devices; the others run once, on what the shards made.
struct Sharding {
  int64_t count = 1;
  StepId steps;  // the first step behind those of shards
};

/// A call in passes: the steps before `first` run once, those before `end` run up to `passes`
/// times, and the others once.
struct Loop {
  int64_t passes = 1;
  StepId first, end;
  /// What a pass leaves to the next one: variables that a step before `first` sets, and one of the
  /// pass updates.
  std::vector<TensorId> states;
  TensorId until;  // bool: a pass that leaves it all true is the last; invalid: `passes` decides
};

/// A tensor of one call. A variable outlives the call; an input is written before it; a result
/// is made by a step and lives from `first` to `last`.
struct Tensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Role role = Role::kResult;
  int batch_axis = kNoBatch;
  /// Of a tensor that each shard computes from its own rows: what makes the whole of these parts,
  /// which steps behind those of shards read.
  std::optional<Combine> combine = {};
  /// The tensor whose memory this one takes over: an operand of the step that makes this one, of
  /// equal dtype and size. For an updated variable an order; for a reshape or an elementwise result
  /// a permission, of which a backend makes use only where no later step reads the operand.
  TensorId alias;
  /// Steps between which the memory is in use, both included. Variables and inputs: the whole call.
  /// Invalid in a job without steps.
  StepId first, last;
  std::string where;  // "lenet.yaml:14:11"
  /// Where it lies, if that is not the job's device.
  std::optional<DeviceKind> device = {};
};

/// An elementwise op fused onto the result of a step, in order: bias_add, relu, sgd_update, ...
/// Its first operand is the running value, which it replaces.
struct EpilogueOp {
  ops::OpRef op;
  std::string name;                // of the primitive: "lenet/conv1/bias_add"
  std::vector<TensorId> operands;  // the others
  Attributes attributes;
};

struct Step {
  ops::OpRef op;     // a primitive
  std::string name;  // unique in the job: "lenet/conv1/conv"
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;  // an invalid id: a second result that nobody reads
  Attributes attributes;
  std::vector<EpilogueOp> epilogue;
  bool probe = false;  // runs only in calls in which one of its readers fires
  std::string where;
  /// What runs it, if that is not the job's device. Its operands and results lie there; of a `copy`
  /// the operand lies on the other device.
  std::optional<DeviceKind> device = {};
  /// Each shard computes it from its own values alone, whatever other shards have. Its results say
  /// themselves where they have rows, or how parts combine; else each shard has its own.
  bool per_shard = false;
};

/// The slot that holds the average of a variable.
inline std::string average_of(const std::string& variable) { return variable + "/ema"; }

struct Variable {
  TensorId tensor;
  Initializer initializer;
  bool trainable = true;
  bool slot = false;  // an optimizer's own state: not part of what `load` reads
};

/// A column of a dataset: rows of a file, each converted as (x * scale - mean) / std.
struct Column {
  std::string name;
  std::string format;                // idx npy npz
  std::string path;                  // as written
  std::optional<std::string> array;  // npz: which of its arrays
  Shape row_shape;                   // of one row, as the job sees it
  double scale = 1;
  std::vector<double> mean, std;                  // empty, one, or one per leading channel
  std::vector<std::pair<int64_t, int64_t>> rows;  // [first, end); INT64_MAX: the last; empty: all
  std::string where;
};

struct Dataset {
  std::string name;
  std::vector<Column> columns;
  std::string where;
};

struct FromDataset {
  std::string dataset, column;
};
struct FromNpy {
  std::string path;
};
/// nothing in the file says where it comes from: `--input` must
struct FromCommandLine {};
using InputSource = std::variant<FromCommandLine, FromDataset, FromNpy, FromGenerator>;

struct Input {
  TensorId tensor;
  InputSource source;
  std::string where;
  std::string from_where;                                 // of the `from:` key; empty when absent
  std::optional<std::pair<int64_t, int64_t>> range = {};  // smallest and largest value, of integers
};

struct NpySink {
  bool per_step = false;
};
enum class Reduce { kNone, kMean, kSum, kMin, kMax, kNorm };
enum class Over { kStep, kEpoch, kRun };
struct PrintSink {
  std::optional<std::string> label;  // default: the tensor's name
  Reduce reduce = Reduce::kNone;
  Over over = Over::kStep;
  double scale = 1;
  std::string format = "numpy";  // or one printf conversion of a double: "%.6g"
  int64_t every = 1;
  std::optional<Metric> metric = {};  // in the place of `reduce`
  std::optional<bool> step = {};      // lines begin with it; absent: on a terminal
};
constexpr double kLongestTimeout = 1e6;  // seconds
/// A program that is given values: one process for all of them, or one for each.
struct CommandSink {
  enum class Mode { kStream, kSpawn };
  enum class Format { kNpy, kText };
  enum class OnError { kFail, kWarn };

  std::vector<std::string> run;  // the program and its arguments; of a shell its one line
  bool shell = false;
  std::map<std::string, std::string> env;
  Mode mode = Mode::kStream;
  Format format = Format::kNpy;
  OnError on_error = OnError::kFail;
  std::optional<double> timeout;  // seconds, of one event
  bool ack = false;               // it says on descriptor 3 that it is done with an event
  friend bool operator==(const CommandSink&, const CommandSink&) = default;
};
/// A line of CSV for each value: moments, extremes, and a histogram of `bins` bins.
struct StatsSink {
  int64_t bins = 10;
};
constexpr int64_t kMostBins = 1000;
struct NoSink {};
/// Makes a value that a run follows, the mean of all elements or a metric: `value` is its key.
struct MeanSink {
  std::string value;
  std::optional<Metric> metric = {};
};
using Sink = std::variant<NpySink, PrintSink, CommandSink, StatsSink, NoSink, MeanSink>;

/// The nested value of a return: a leaf names a tensor; List and Tuple have items; Dict has keys.
struct ReturnValue {
  enum class Kind { kNumpy, kListNumpy /* an array a device */, kList, kTuple, kDict };
  Kind kind = Kind::kNumpy;
  TensorId tensor;  // of a leaf: kNumpy, kListNumpy
  std::vector<ReturnValue> items;
  std::vector<std::string> keys;  // kDict, one for each item
  std::string name = {};          // of a leaf: the tensor's, as the file calls it; names its output

  bool is_leaf() const { return kind == Kind::kNumpy || kind == Kind::kListNumpy; }
};

struct Returns {
  std::string type;       // as declared or inferred: "Callback[Tuple[Numpy, Numpy]]"
  bool callback = false;  // asynchronous: steps follow each other without waiting for sinks
  ReturnValue value;
  std::vector<Sink> sinks;
  std::string where;
};

/// A range of steps: first, first + stride, ... below end.
struct StepRange {
  int64_t first = 0, end = 0, stride = 1;
};

struct Hook {
  enum class Kind { kWatch, kWatchDiff };
  Kind kind = Kind::kWatch;
  std::string name;   // the watched tensor's, as delivered
  TensorId tensor;    // the tensor itself; for watch_diff its gradient of the summed loss
  double factor = 1;  // of: mean -> 1/elements of the loss
  std::vector<StepRange> steps;  // in which it fires
  /// A condition (condition.h): it fires in those of the steps in which this holds.
  std::optional<std::string> when = {};
  bool stops = false;  // where the condition holds, the run stops after the step
  bool check_finite = false;
  bool per_device = false;  // ListNumpy: an array a device
  /// Of `watch_scope`: the scope, and the op that makes the tensor or `variable`; else empty.
  std::string scope, op;
  std::vector<Sink> sinks;
  std::string where;
};

/// A loss scale that follows the gradients.
struct DynamicLossScale {
  TensorId scale;   // the variable
  TensorId factor;  // what this call's gradients are multiplied by; NaN: nothing is updated
};

struct Optimizer {
  std::string type;  // "sgd", ...: its updates are steps
  Schedule learning_rate;
  TensorId loss;  // scalar: the mean that is minimized
  std::string loss_name;
  std::optional<DynamicLossScale> loss_scale = {};
  /// A scalar: the norm of all gradients of the mean loss, before they are clipped.
  std::optional<TensorId> gradient_norm = {};
  std::string where;
};

/// Calls visit(id) with those of its tensors that are read after every call, the loss first.
template <typename AnyOptimizer, typename Visit>
void visit_tensors(AnyOptimizer& optimizer, const Visit& visit) {
  visit(optimizer.loss);
  if (optimizer.gradient_norm) visit(*optimizer.gradient_norm);
  if (!optimizer.loss_scale) return;
  visit(optimizer.loss_scale->scale);
  visit(optimizer.loss_scale->factor);
}

struct Checkpointing {
  std::vector<std::string> load;    // paths as written; of what several have, the last counts
  std::optional<std::string> save;  // as written
  int64_t every_steps = 0, every_epochs = 0;  // 0: not
  std::optional<double> every_minutes = {};   // of a train job's time, instead
  bool rolls = false;                         // each checkpoint by time replaces the one before
  int64_t keep = 3;
  std::optional<FollowedValue> keep_best = {};  // by this value
  std::vector<NameRule> names = {};             // of arrays that `load` reads
  std::vector<std::string> load_where = {};     // one for each path, in the job file
  std::string save_where;
};

/// Another job that is called while this one runs, on the same variables: when N, 2N, ... steps or
/// epochs of this one are complete.
struct SubJob {
  std::string job;
  int64_t every_steps = 0, every_epochs = 0;  // one of them; 0: not
  std::string where;
  bool averaged = false;  // it reads averages in the place of the variables that have one
};

struct Run {
  std::vector<SubJob> also;
  std::optional<int64_t> epochs, steps;
  bool shuffle = false;
  int64_t pipeline = 4;  // steps under way in an asynchronous job
  int64_t log_every = 1;
  bool fail_on_nonfinite = true;
  Checkpointing checkpoint;
  std::optional<EarlyStopping> early_stopping = {};
};

/// Devices `first` to `last` of a machine.
struct DeviceRange {
  int64_t machine = 0, first = 0, last = 0;

  bool operator==(const DeviceRange&) const = default;
};

struct Job {
  std::string name;
  bool train = false;
  DeviceKind device = DeviceKind::kCpu;  // of all that does not say another
  int64_t devices = 1;                   // that share the rows of a batch
  /// The devices of ranks, in the order of ranks. None: each rank takes the next one of its host.
  std::vector<DeviceRange> ids = {};
  /// Where the batch is cut: shapes of tensors with a batch axis are those of one shard.
  std::optional<Sharding> sharding = {};
  std::optional<Loop> loop = {};      // of predict jobs
  std::string precision = "float32";  // see precision.h
  bool deterministic = true;          // the same bits in every run on the same device
  uint64_t seed = 0;
  std::vector<Tensor> tensors;
  std::vector<Variable> variables;
  std::vector<Dataset> datasets;  // those that the inputs read
  std::vector<Input> inputs;
  std::vector<Step> steps;
  std::optional<Returns> returns;
  std::vector<Hook> hooks;
  std::optional<Optimizer> optimizer;  // train jobs
  Run run;
  std::string where;

  const Tensor& operator[](TensorId id) const { return tensors[id.index()]; }
  /// Where a tensor lies, or what runs a step.
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

/// Does the job keep an average of that variable?
bool has_average(const Job& job, const std::string& variable);

/// Is something of the job not on the job's device?
bool has_two_devices(const Job& job);

struct Plan {
  int version = kVersion;
  std::string source;  // the job file as written: "jobs/lenet.yaml"
  std::string root;    // the job file's directory; outside the hash
  std::vector<Job> jobs;
  std::vector<std::string> notes;  // `note:` texts
};

}  // namespace flow::plan
