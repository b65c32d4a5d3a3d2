// How a job is distributed: the devices that `ids` names, the shards of its batch (how often steps
// run, and the shapes for the whole batch), and the layout of tensors on the shards, as far as it
// follows from the records of ops.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// A device by its index on a machine. Machines are numbered, not named.
struct DeviceId {
  int64_t machine = 0, device = 0;

  auto operator<=>(const DeviceId&) const = default;
};

/// Returns the devices of the ranges, in their order.
std::vector<DeviceId> devices_of(std::span<const DeviceRange> ids);

/// Returns a device that the ranges name twice, or nothing.
std::optional<DeviceId> device_named_twice(std::span<const DeviceRange> ids);

/// Returns how many machines the ranges name.
size_t machines_of(std::span<const DeviceRange> ids);

/// Writes the ranges in the form that a job file uses: `"0:0-3", "1:0"`.
std::string ids_text(std::span<const DeviceRange> ids);

/// The layout of a tensor on the shards of a batch.
struct ShardLayout {
  enum class Kind : uint8_t {
    kBroadcast,  // equal on every shard: variables, constants, and what is computed only from them
    kSplit,      // each shard has some of the rows
    kPartial,    // a part on each shard, computed from its rows; the parts combine into the whole
    kOwn,        // each shard has a separate value; the values are neither joined nor combined
    kWhole       // made once, after the steps of the shards
  };
  Kind kind = Kind::kBroadcast;
  ops::Combine combine = ops::Combine::kNone;  // how parts combine

  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// The reason why a shard cannot compute a result from its rows only.
struct LayoutFault {
  enum class Kind : uint8_t {
    kReadsWhole,           // an operand is made after the steps of the shards
    kReadsOwn,             // an operand has a separate value on each shard
    kReadsPart,            // an operand is partial, and the op is not linear in it
    kPartsDiffer,          // the op is linear, but its operands' parts combine in different ways
    kPartialAndBroadcast,  // the op is linear, but each shard would add a broadcast operand
    kMixesRows             // no combination of the shards' results makes the whole result
  };
  Kind kind;
  size_t operand = 0;  // the operand at fault; not used for kMixesRows
};

/// Returns the layout of a result of a step that each shard runs. `result` is the result of the
/// op's shape function for the operands of one shard.
std::variant<ShardLayout, LayoutFault> layout_of_result(const ops::OpSpec& op,
                                                        std::span<const ShardLayout> operands,
                                                        const ops::Result& result);

/// Returns the declared layout of a result of a step that each shard computes from its local values
/// only, regardless of what part of the whole batch these are.
ShardLayout layout_per_shard(int batch_axis, std::optional<ops::Combine> combine);

/// Returns the number of shards, or 1 if the batch is not split.
int64_t shards_of(const Job& job);

/// Returns how often a call runs a step: once for each shard, or once.
int64_t runs_of(const Job& job, StepId step);

/// Returns the shape of a tensor for the whole batch.
Shape whole_shape(const Job& job, const Tensor& tensor);

/// Returns, indexed by TensorId, whether each shard has a separate value that is neither joined nor
/// combined.
std::vector<bool> own_of_shards(const Job& job);

/// Returns the job for the whole batch, without shards.
Job unsharded_job(const Job& job);

/// The job for the whole batch, which the executor, inputs and deliveries use. Only backends run
/// the original job. If the batch is not split, this class borrows the original job.
class UnshardedJob {
 public:
  explicit UnshardedJob(const Job& job)
      : job_(job),
        made_(job.sharding ? std::make_unique<const Job>(unsharded_job(job)) : nullptr) {}

  const Job& operator*() const { return made_ ? *made_ : job_; }

 private:
  const Job& job_;
  std::unique_ptr<const Job> made_;
};

}  // namespace flow::plan
