// The memory of a program: on the device, and pinned where host and device meet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/fingerprint.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/exec/core/memory.h"

namespace flow::cuda {

/// What is written for a call: call blocks, one a shard, row numbers, inputs. The device has one
/// call block, and of inputs that are cut the rows of one shard. Inputs that the device makes of
/// its columns come last there.
struct InputLayout {
  /// `kept`: inputs that are columns which the device keeps.
  InputLayout(const plan::Job& job, std::span<const plan::TensorId> kept);

  /// From the host to the device.
  struct Copy {
    size_t to = 0, from = 0, bytes = 0;
    size_t per_shard = 0;  // in `from`
  };
  Copy whole;                   // what all shards read; without shards everything, in one piece
  std::vector<Copy> of_shards;  // what each shard has its own of

  std::vector<size_t> offsets;       // on the device, by tensor, of inputs
  std::vector<size_t> host_offsets;  // of those that the host writes; 0: of no other
  size_t rows = 0, host_rows = 0;    // where the row numbers are
  int64_t row_count = 0;             // 0: no column is kept
  size_t shards = 1;
  size_t bytes = 0, host_bytes = 0;  // of all

 private:
  void place(const plan::Job& job, plan::TensorId input);
  void place_on_device(const plan::Job& job, plan::TensorId input);
};

/// What a call leaves for the host: the fault block, what is delivered, of the whole batch, and
/// fingerprints.
struct OutputLayout {
  /// `taken`: fingerprints of a call.
  OutputLayout(const plan::Job& job, const exec::PrepareOptions& options, size_t taken = 0);

  struct Output {
    size_t offset = 0;
    std::optional<size_t> parts = {};  // the offset of the first shard's, where they are wanted
    size_t part_bytes = 0;
    /// The whole is made of the parts, of which each rank has some, when a call is complete.
    bool spread = false;
  };
  std::vector<Output> outputs;                     // by deliverable
  size_t fingerprints = 0, fingerprint_count = 0;  // where they are
  size_t bytes = 0;
};

/// By tensor: does each shard have its own, rows of an input or what its steps make?
std::vector<bool> tensors_of_shards(const plan::Job& job);

/// Allocated once. Variables, and what the host writes, are zero at first.
class ProgramMemory {
 public:
  struct Sizes {
    size_t variables = 0, arena = 0;  // bytes
    size_t input_slots = 1, output_slots = 1;
  };
  /// `variable_sources`: where variables of other programs lie, as Place::offset counts them;
  /// `transferred`: where tensors lie that pass through host memory.
  ProgramMemory(Driver& driver, Stream stream, const Sizes& sizes, InputLayout inputs,
                OutputLayout outputs, std::vector<std::byte*> variable_sources,
                std::vector<std::byte*> transferred = {});
  /// What the constructor takes from the device.
  static size_t device_bytes(const Sizes& sizes, const InputLayout& inputs);
  static size_t pinned_bytes(const Sizes& sizes, const InputLayout& inputs,
                             const OutputLayout& outputs);

  // On the device, except what is transferred.
  std::byte* address(const exec::Place& place) const;
  std::byte* arena() const { return arena_.get(); }
  std::byte* device_inputs() const { return inputs_.get(); }
  CallBlock* call() const { return reinterpret_cast<CallBlock*>(inputs_.get()); }
  const int64_t* rows() const {
    return reinterpret_cast<const int64_t*>(inputs_.get() + input_layout_.rows);
  }

  // Pinned, by slot.
  std::byte* host_inputs(size_t slot) const;
  /// By shard.
  std::span<CallBlock> calls(size_t slot) const {
    return {reinterpret_cast<CallBlock*>(host_inputs(slot)), input_layout_.shards};
  }
  std::span<int64_t> rows(size_t slot) const;
  std::byte* host_outputs(size_t slot) const;
  std::span<Fingerprint> fingerprints(size_t slot) const {
    return {reinterpret_cast<Fingerprint*>(host_outputs(slot) + output_layout_.fingerprints),
            output_layout_.fingerprint_count};
  }
  FaultBlock& fault(size_t slot) const {
    return *reinterpret_cast<FaultBlock*>(host_outputs(slot));
  }

  const InputLayout& input_layout() const { return input_layout_; }
  const OutputLayout& output_layout() const { return output_layout_; }

 private:
  InputLayout input_layout_;
  OutputLayout output_layout_;
  DeviceBytes variables_, arena_, inputs_;
  PinnedBytes host_inputs_, host_outputs_;
  std::vector<std::byte*> shared_, transferred_;
};

}  // namespace flow::cuda
