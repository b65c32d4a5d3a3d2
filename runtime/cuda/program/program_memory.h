// The memory of a program: device memory, and pinned host memory that is exchanged with the device.
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

/// The layout of the data that is written for a call: call blocks, one for each shard, row numbers
/// and inputs. The device has one call block, and one shard's rows of the inputs that are cut.
/// Inputs that the device gathers from its columns come last on the device.
struct InputLayout {
  /// `kept` lists the inputs that are columns kept on the device.
  InputLayout(const plan::Job& job, std::span<const plan::TensorId> kept);

  /// A copy from the host to the device.
  struct Copy {
    size_t to = 0, from = 0, bytes = 0;
    size_t per_shard = 0;  // bytes from one shard to the next in `from`
  };
  // The data that all shards read; without shards, all data in one copy.
  Copy whole;
  std::vector<Copy> of_shards;  // the data that differs from shard to shard

  std::vector<size_t> offsets;  // offsets on the device, indexed by tensor; set for inputs
  // Offsets on the host, indexed by tensor. They are set for inputs that the host writes, and 0
  // otherwise.
  std::vector<size_t> host_offsets;
  size_t rows = 0, host_rows = 0;  // the offsets of the row numbers
  int64_t row_count = 0;           // 0 if no column is kept
  size_t shards = 1;
  size_t bytes = 0, host_bytes = 0;  // the sizes of all data

 private:
  void place(const plan::Job& job, plan::TensorId input);
  void place_on_device(const plan::Job& job, plan::TensorId input);
};

/// The layout of the data that a call leaves for the host: the fault block, the deliverables of the
/// whole batch, and fingerprints.
struct OutputLayout {
  /// `taken` is the number of fingerprints of a call.
  OutputLayout(const plan::Job& job, const exec::PrepareOptions& options, size_t taken = 0);

  struct Output {
    size_t offset = 0;
    // The offset of the first shard's part, if parts are requested.
    std::optional<size_t> parts = {};
    size_t part_bytes = 0;
    /// True if the whole tensor is assembled from its parts when a call is complete, because each
    /// rank has only some of them.
    bool spread = false;
  };
  std::vector<Output> outputs;                     // indexed by deliverable
  size_t fingerprints = 0, fingerprint_count = 0;  // their offset and number
  size_t bytes = 0;
};

/// Returns, for each tensor, whether it differs from shard to shard, as the rows of an input and
/// the results of a shard's steps do.
std::vector<bool> tensors_of_shards(const plan::Job& job);

/// The memory is allocated once. Variables, and memory that the host writes, are zero at first.
class ProgramMemory {
 public:
  struct Sizes {
    size_t variables = 0, arena = 0;  // bytes
    size_t input_slots = 1, output_slots = 1;
  };
  /// `variable_sources` contains the addresses of other programs' variables, which Place::offset
  /// indexes. `transferred` contains the addresses of the tensors that pass through host memory.
  ProgramMemory(Driver& driver, Stream stream, const Sizes& sizes, InputLayout inputs,
                OutputLayout outputs, std::vector<std::byte*> variable_sources,
                std::vector<std::byte*> transferred = {});
  /// Returns the bytes of device memory that the constructor allocates.
  static size_t device_bytes(const Sizes& sizes, const InputLayout& inputs);
  static size_t pinned_bytes(const Sizes& sizes, const InputLayout& inputs,
                             const OutputLayout& outputs);

  // Returns an address on the device, or in host memory for a transferred tensor.
  std::byte* address(const exec::Place& place) const;
  std::byte* arena() const { return arena_.get(); }
  std::byte* device_inputs() const { return inputs_.get(); }
  CallBlock* call() const { return reinterpret_cast<CallBlock*>(inputs_.get()); }
  const int64_t* rows() const {
    return reinterpret_cast<const int64_t*>(inputs_.get() + input_layout_.rows);
  }

  // Pinned host memory, by slot.
  std::byte* host_inputs(size_t slot) const;
  /// Returns the call blocks, indexed by shard.
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
