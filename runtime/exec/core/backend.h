// What a device must do for the executor: prepare one call of a job function, then launch it.
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
#include "runtime/exec/core/collectives.h"
#include "runtime/io/dataset.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// One thing in a call that stops the run: a label or index out of range.
struct Fault {
  std::string where;    // of the step
  std::string operand;  // the tensor that held it: "labels"
  int64_t row = 0;
  int64_t value = 0;
  int64_t limit = 0;  // values are in [0, limit)
};

/// What differs from call to call.
struct Call {
  int64_t step = 0;          // global, from 0
  double learning_rate = 0;  // of this step
  /// For each tensor of Program::deliverables: is it wanted in this call? A probe runs if it is.
  std::span<const uint8_t> wanted;
  size_t segment = 0;         // of a part of a job: which of its segments is launched
  int64_t pass = 0;           // of a loop, from 0
  bool fingerprints = false;  // takes them, where the program was prepared for that
};

/// A column of a dataset of which each call reads rows into an input.
struct ColumnInput {
  plan::TensorId input;      // [rows of a call, ...]
  io::ColumnReader* column;  // read while the program is prepared
};

class Program;

/// A program of the same backend, which outlives what shares its variables.
struct VariableSource {
  const plan::Job* job;
  const Program* program;
};

/// A tensor that goes from one device to the other, by way of host memory: there it lies, in C
/// order, for both.
struct TransferredTensor {
  plan::TensorId tensor;
  std::byte* memory;
  std::vector<size_t> wanted_by;  // made by a probe: the deliverables for which it is needed
};

/// A device's algorithms are chosen by time.
struct Tuning {
  fs::path kept;  // the run's folder of choices, which come before all others; empty: it has none
  std::function<void(const std::string&)> say = {};  // remarks; may be empty
};

struct PrepareOptions {
  int threads = 0;         // 0: as many as pay
  size_t input_slots = 1;  // buffers of each input: the feed fills one while another is computed on
  size_t output_slots = 1;
  /// Tensors that a call may be asked for. Of a part of a job: invalid where the other part has it.
  std::vector<plan::TensorId> deliverables = {};
  std::vector<uint8_t> always = {};       // for each of them: does every call want it? empty: none
  std::vector<uint8_t> in_parts = {};     // ... are parts of shards wanted, too? empty: of none
  std::vector<ColumnInput> columns = {};  // that the device may keep: all of them, or none
  bool eager = false;    // launch step by step where calls could be launched whole: the same bits
  bool profile = false;  // takes the time of each step: Program::timed_steps; launches step by step
  bool fuse = true;      // false: no step takes over others, of which the device has a choice
  /// Whose variables this program's are too, where they have a name in common: in one memory.
  std::vector<VariableSource> variable_sources = {};
  /// The step after the last one of each segment of a part of a job (multi_device.h). Empty: there
  /// is one segment.
  std::vector<size_t> segments = {};
  std::vector<TransferredTensor> transferred = {};
  Collectives* ranks = nullptr;               // that share the job's shards; null: there is one
  std::vector<plan::TensorId> streamed = {};  // inputs that only rank 0 fills
  bool fingerprints = false;                  // calls may take them: Program::fingerprinted
  /// Is given each tensor that has a fingerprint between its writer and the fingerprint, and may
  /// change it: how checks plant a fault. Empty in other runs, and on other devices than the CPU.
  std::function<void(int64_t step, plan::TensorId, std::span<std::byte>)> made = {};
  const Tuning* tuning = nullptr;  // null: algorithms are those that libraries prefer
};

/// A step that a library of the device computes.
struct LibraryStep {
  std::string step, kernel;  // "conv1", "cuDNN eng62_k2=1, tensor cores"
  size_t workspace = 0;      // bytes of the arena, for the duration of the step
};

struct MemoryReport {
  struct Holder {
    std::string name;
    size_t bytes;
  };
  std::string device = {};               // "cpu", of a part of a job
  std::vector<MemoryReport> parts = {};  // of a job on two devices, whose sum this is
  size_t variables = 0, inputs = 0, outputs = 0, arena = 0;  // bytes, on the device
  size_t columns = 0;                                        // datasets that the device keeps
  size_t sent = 0;    // by a rank to the others in each call, on average; not memory
  size_t pinned = 0;  // of the host's memory, where the device is not the host; not in total()
  std::vector<Holder> at_peak;  // what lives at the arena's fullest step, largest first
  std::string peak_step;
  std::vector<LibraryStep> library_steps = {};
  /// What is left for the workspace of a convolution, where that limited the choice of kernels.
  std::optional<size_t> workspace_limit = {};
  size_t total() const { return variables + inputs + outputs + arena + columns; }
};

/// What a profiling program takes the time of: a step of the plan, or what comes before or after.
struct TimedStep {
  std::string name, op;
  std::string kernel;  // what the device runs for it, where it says: "oneDNN jit:avx512_core"
  size_t segment = 0;  // in which it runs
  bool of_plan = false;
};

/// Host memory that copies of a device reach without staging.
using HostMemory = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// One job function, prepared on one device. Buffers are the program's own; `prepare` has done
/// everything that allocates or can fail. Thread use: launch and wait from the compute thread;
/// an input slot is written only while no launched call uses it, an output slot read likewise.
class Program {
 public:
  virtual ~Program() = default;
  /// The program that holds the variables: this one, or the one that it wraps.
  virtual const Program& holder() const { return *this; }
  virtual const MemoryReport& memory() const = 0;
  /// Threads that a call uses, and the instruction set its kernels were chosen for.
  virtual int threads() const = 0;
  virtual void write_variable(plan::TensorId variable, const ArrayView& value) = 0;
  /// Copies the variable's current value; not while a call is in flight. Of a job that ranks share,
  /// all of them call it, in the same order; `into` may be empty on other ranks than 0, which alone
  /// gets what several have parts of.
  virtual void read_variable(plan::TensorId variable, std::span<std::byte> into) const = 0;
  /// Connects the devices of several ranks: all of them call it once, after each has prepared the
  /// program and before its first launch. RunError.
  virtual void connect() {}
  /// Host memory in C order that the feed fills before a launch on that slot.
  virtual std::span<std::byte> input(plan::TensorId input, size_t slot) = 0;
  /// Where the device keeps the columns: which of their rows the call on that slot reads, one for
  /// each row of the batch; their inputs are then not filled. Empty: it keeps none.
  virtual std::span<int64_t> rows([[maybe_unused]] size_t slot) { return {}; }
  /// Starts a call: reads inputs of `input_slot`, leaves what is wanted in `output_slot`. Calls go
  /// round both: there is a number of which the slots are what is left by how many there are.
  virtual void launch(const Call& call, size_t input_slot, size_t output_slot) = 0;
  /// Returns when the call launched on `output_slot` is complete.
  virtual void wait(size_t output_slot) = 0;
  /// Returns when that segment of it is, and what it passes on has come to the host.
  virtual void wait_segment([[maybe_unused]] size_t segment, size_t output_slot) {
    wait(output_slot);
  }
  /// A wanted tensor of the completed call, in C order. (A variable: its value before the update.)
  virtual std::span<const std::byte> delivered(plan::TensorId tensor, size_t output_slot) const = 0;
  /// The same, of one that is asked for in parts: what a shard made; the whole where none did.
  virtual std::span<const std::byte> delivered_part(plan::TensorId tensor,
                                                    [[maybe_unused]] int64_t shard,
                                                    size_t output_slot) const {
    return delivered(tensor, output_slot);
  }
  /// What was out of range in the completed call. Its updates are not to be saved.
  virtual std::optional<Fault> fault(size_t output_slot) const = 0;
  /// The tensors of which calls take fingerprints: inputs and variables as a call finds them, then
  /// what its steps write to memory, in order. Empty where the program was not prepared for that.
  virtual std::vector<plan::TensorId> fingerprinted() const { return {}; }
  /// Of the completed call, which took them: one for each of those.
  virtual std::span<const Fingerprint> fingerprints([[maybe_unused]] size_t output_slot) const {
    return {};
  }
  /// What all of them took until now.
  virtual double fingerprint_seconds() const { return 0; }
  /// What is timed in each call, in the order of a call; empty where the program does not profile.
  virtual std::vector<TimedStep> timed_steps() const { return {}; }
  /// Of the completed call: when the first timed step began and when each ended, in nanoseconds of
  /// the steady clock. One that did not run ended when the one before it did.
  virtual std::span<const int64_t> step_times([[maybe_unused]] size_t output_slot) const {
    return {};
  }
};

/// The number that the call on `slot` left in a scalar of floats.
double delivered_scalar(const Program& program, plan::TensorId tensor, size_t slot);

class Backend {
 public:
  virtual ~Backend() = default;
  /// "cpu", "cuda:0 NVIDIA H100 80GB HBM3"
  virtual std::string device() const = 0;
  virtual std::string instruction_set() const = 0;
  /// "onednn" -> "2.6.3"
  virtual std::map<std::string, std::string> libraries() const = 0;
  /// Does a launch return before its call is complete? Then calls are launched one ahead.
  virtual bool asynchronous() const { return false; }
  /// Do its programs run jobs whose batch is cut? Their inputs and what they deliver are whole.
  virtual bool runs_shards() const { return false; }
  /// May several ranks share the shards of a job (PrepareOptions::ranks)?
  virtual bool runs_ranks() const { return false; }
  /// Through which tensors pass between this device and the host; goes before the backend does.
  /// RunError where there is no more.
  virtual HostMemory host_memory(size_t bytes) = 0;
  /// Chooses kernels and layouts, assigns memory, allocates. RunError naming the job-file line
  /// where a step cannot run on this device or memory does not suffice.
  virtual std::unique_ptr<Program> prepare(const plan::Job& job, const PrepareOptions& options) = 0;
};

/// For each step that is a probe, the indices of the deliverables that cannot be made without it,
/// here or from what is transferred; nothing for the other steps.
std::vector<std::vector<size_t>> readers_of_probes(
    const plan::Job& job, std::span<const plan::TensorId> deliverables,
    std::span<const TransferredTensor> transferred = {});

}  // namespace flow::exec
