// The interface that a device implements for the executor: it prepares a job function once, then
// launches its calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/base/fingerprint.h"
#include "runtime/data/dataset/column.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// One value in a call that stops the run: a label or an index that is out of range.
struct Fault {
  std::string where;    // the step's position in the job file
  std::string operand;  // the name of the tensor that contained the value: "labels"
  int64_t row = 0;
  int64_t value = 0;
  int64_t limit = 0;  // values are in [0, limit)
};

/// The arguments that differ from call to call.
struct Call {
  int64_t step = 0;          // counted from 0 over the whole run
  double learning_rate = 0;  // the learning rate of this step
  /// Indexed like PrepareOptions::deliverables: whether this call requests the tensor. A probe runs
  /// only if one of its tensors is requested.
  std::span<const uint8_t> wanted;
  size_t segment = 0;         // the segment to launch, for a part of a job
  int64_t pass = 0;           // the pass of a loop, counted from 0
  bool fingerprints = false;  // takes fingerprints, if the program was prepared for them
};

/// A column of a dataset; each call reads some of its rows into an input.
struct ColumnInput {
  plan::TensorId input;  // (rows of a call, ...)
  data::Column* column;  // read while the program is prepared
};

class Program;

/// A program of the same backend that outlives the programs that share its variables.
struct VariableSource {
  const plan::Job* job;
  const Program* program;
};

/// A tensor that one device sends to the other through host memory. Both devices see it there in C
/// order.
struct TransferredTensor {
  plan::TensorId tensor;
  std::byte* memory;
  std::vector<size_t> wanted_by;  // the deliverables that need the tensor, if a probe makes it
};

/// The settings for choosing a device's algorithms by measured time.
struct Tuning {
  fs::path kept;  // the run's folder of choices, which override all others; empty if none
  std::function<void(const std::string&)> say = {};  // prints remarks; may be empty
};

struct PrepareOptions {
  int threads = 0;         // 0: as many threads as are useful
  size_t input_slots = 1;  // the feed fills one buffer while the device uses another
  size_t output_slots = 1;
  /// The tensors that a call may request. For a part of a job, a tensor that the other part has is
  /// invalid.
  std::vector<plan::TensorId> deliverables = {};
  std::vector<uint8_t> always = {};    // per deliverable: 1 if every call requests it; empty: none
  std::vector<uint8_t> in_parts = {};  // per deliverable: 1 if parts are requested; empty: none
  std::vector<ColumnInput> columns = {};  // the device may keep either all of these columns or none
  bool eager = false;    // launches single steps even if it could launch whole calls; same results
  bool profile = false;  // launches single steps and times each one (Program::timed_steps)
  bool fuse = true;      // false: no step is fused into another one if the device has a choice
  /// The programs whose variables this program shares. Variables with the same name share memory.
  std::vector<VariableSource> variable_sources = {};
  /// For a part of a job (multi_device.h): the index after the last step of each segment. Empty:
  /// there is one segment.
  std::vector<size_t> segments = {};
  std::vector<TransferredTensor> transferred = {};
  Collectives* ranks = nullptr;  // the ranks that share the job's shards; null: only one
  std::vector<plan::TensorId> streamed = {};  // inputs that only rank 0 fills
  bool fingerprints = false;  // calls may take fingerprints (Program::fingerprinted)
  /// Called for each fingerprinted tensor after it is written and before its fingerprint is taken.
  /// It may change the tensor: checks use it to plant a fault. Empty in other runs, and on devices
  /// other than the CPU.
  std::function<void(int64_t step, plan::TensorId, std::span<std::byte>)> made = {};
  const Tuning* tuning = nullptr;  // null: uses the algorithms that the libraries prefer
};

/// A step that a library of the device computes.
struct LibraryStep {
  std::string step, kernel;  // "conv1", "cuDNN eng62_k2=1, tensor cores"
  size_t workspace = 0;      // bytes of the arena during the step
};

struct MemoryReport {
  struct Holder {
    std::string name;
    size_t bytes;
  };
  std::string device = {};               // "cpu"; set only for a part of a job
  std::vector<MemoryReport> parts = {};  // the reports of two devices, which this one adds up
  size_t variables = 0, inputs = 0, outputs = 0, arena = 0;  // bytes on the device
  size_t columns = 0;  // bytes of the datasets that the device keeps
  size_t sent = 0;     // average bytes that a rank sends to the others per call; not memory
  size_t pinned = 0;   // pinned host memory if the device is not the host; not in total()
  std::vector<Holder> at_peak;  // the tensors in memory at the arena's fullest step, largest first
  std::string peak_step;
  std::vector<LibraryStep> library_steps = {};
  /// The bytes left for the workspace of a convolution, if that limited the choice of kernels.
  std::optional<size_t> workspace_limit = {};
  size_t total() const { return variables + inputs + outputs + arena + columns; }
};

/// An item that a profiling program times: a step of the plan, or the work before or after the
/// steps.
struct TimedStep {
  std::string name, op;
  std::string kernel;  // the kernel that the device reports: "oneDNN jit:avx512_core"
  size_t segment = 0;  // the segment that contains it
  bool of_plan = false;
};

/// Host memory from and to which the device copies without staging.
using HostMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// One job function, prepared on one device. The program owns its buffers, and `prepare` has done
/// everything that allocates or can fail. Thread use: the compute thread launches and waits; other
/// threads access an input or output slot only while no launched call uses it.
class Program {
 public:
  virtual ~Program() = default;
  /// The program that stores the variables: this one, or the one that it wraps.
  virtual const Program& holder() const { return *this; }
  virtual const MemoryReport& memory() const = 0;
  /// The number of threads that a call uses.
  virtual int threads() const = 0;
  virtual void write_variable(plan::TensorId variable, const ArrayView& value) = 0;
  /// Copies the variable's current value into `into`. Must not be called while a call is in flight.
  /// If ranks share the job, all of them call it in the same order. Only rank 0 receives a variable
  /// whose parts are on several ranks, so `into` may be empty on other ranks.
  virtual void read_variable(plan::TensorId variable, std::span<std::byte> into) const = 0;
  /// Connects the devices of several ranks. Every rank calls it once, after all ranks have prepared
  /// the program and before the first launch. Throws RunError.
  virtual void connect() {}
  /// Host memory in C order that the feed fills before a launch on `slot`.
  virtual std::span<std::byte> input(plan::TensorId input, size_t slot) = 0;
  /// If the device keeps the columns: the row indices that the call on `slot` reads, one for each
  /// row of the batch. The feed then does not fill the inputs of these columns. Empty if the device
  /// keeps no columns.
  virtual std::span<int64_t> rows([[maybe_unused]] size_t slot) { return {}; }
  /// Starts a call, which reads the inputs of `input_slot` and leaves the requested tensors in
  /// `output_slot`. Calls cycle through both kinds of slots: a slot is a running number modulo the
  /// number of slots of its kind.
  virtual void launch(const Call& call, size_t input_slot, size_t output_slot) = 0;
  /// Returns when the call launched on `output_slot` is complete.
  virtual void wait(size_t output_slot) = 0;
  /// Returns when this segment of the call is complete and the tensors that it passes on are in
  /// host memory.
  virtual void wait_segment([[maybe_unused]] size_t segment, size_t output_slot) {
    wait(output_slot);
  }
  /// A requested tensor of the completed call, in C order. A variable has the value from before the
  /// update.
  virtual std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const = 0;
  /// The part of a requested tensor that `shard` made, if the tensor is requested in parts. Returns
  /// the whole tensor if shards did not make it.
  virtual std::span<const std::byte> delivered_part(plan::TensorId tensor,
                                                    [[maybe_unused]] int64_t shard,
                                                    size_t output_slot) const {
    return delivered(tensor, output_slot);
  }
  /// The value that was out of range in the completed call, if any. The updates of that call must
  /// not be saved.
  virtual std::optional<Fault> fault(size_t output_slot) const = 0;
  /// The tensors whose fingerprints calls take: first the inputs and variables as a call finds
  /// them, then the tensors that its steps write to memory, in order. Empty if the program was not
  /// prepared for fingerprints.
  virtual std::vector<plan::TensorId> fingerprinted() const { return {}; }
  /// The fingerprints of the completed call, one for each tensor of `fingerprinted`. REQUIRES: the
  /// call took fingerprints.
  virtual std::span<const Fingerprint> fingerprints([[maybe_unused]] size_t output_slot) const {
    return {};
  }
  /// The seconds spent on all fingerprints so far.
  virtual double fingerprint_seconds() const { return 0; }
  /// The items that each call times, in the order of a call. Empty if the program does not profile.
  virtual std::vector<TimedStep> timed_steps() const { return {}; }
  /// For the completed call: the start of the first timed step, then the end of each one, in
  /// nanoseconds of the steady clock. A step that did not run has the same end as the step before
  /// it.
  virtual std::span<const int64_t> step_times([[maybe_unused]] size_t output_slot) const {
    return {};
  }
};

/// Returns the number that the call on `slot` left in a scalar tensor of floats.
double delivered_scalar(const Program& program, plan::TensorId tensor, size_t slot);

class Backend {
 public:
  virtual ~Backend() = default;
  /// The name of the device: "cpu", "cuda:0 NVIDIA H100 80GB HBM3".
  virtual std::string device() const = 0;
  virtual std::string instruction_set() const = 0;
  /// The versions of the libraries by name: "onednn" -> "2.6.3".
  virtual std::map<std::string, std::string> libraries() const = 0;
  /// Returns true if a launch returns before its call is complete. The executor then launches one
  /// call ahead.
  virtual bool asynchronous() const { return false; }
  /// Returns true if its programs run jobs whose batch is divided into shards. Inputs and delivered
  /// tensors are whole.
  virtual bool runs_shards() const { return false; }
  /// Returns true if several ranks may share the shards of a job (PrepareOptions::ranks).
  virtual bool runs_ranks() const { return false; }
  /// Allocates the host memory through which tensors pass between this device and the host. It must
  /// be freed before the backend is destroyed. Throws RunError if there is not enough memory.
  virtual HostMemory host_memory(size_t bytes) = 0;
  /// Chooses kernels and layouts, plans the memory and allocates it. Throws RunError naming the
  /// line of the job file if a step cannot run on this device or if there is not enough memory.
  virtual std::unique_ptr<Program> prepare(const plan::Job& job, const PrepareOptions& options) = 0;
};

/// For each probe step: the indices of the deliverables that need it, on this device or through
/// transferred tensors. Empty for the other steps.
std::vector<std::vector<size_t>> readers_of_probes(
    const plan::Job& job, std::span<const plan::TensorId> deliverables,
    std::span<const TransferredTensor> transferred = {});

}  // namespace flow::exec
