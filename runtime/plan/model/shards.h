// How a job is spread: the devices that `ids` names, shards of its batch (how often steps run, and
// shapes of the whole batch), and how tensors lie on the shards, as far as records of ops tell.
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

/// A device by its index on a machine. Machines have numbers, not names.
struct DeviceId {
  int64_t machine = 0, device = 0;

  auto operator<=>(const DeviceId&) const = default;
};

/// The devices of the ranges, in their order.
std::vector<DeviceId> devices_of(std::span<const DeviceRange> ids);

/// A device that the ranges name twice, or nothing.
std::optional<DeviceId> device_named_twice(std::span<const DeviceRange> ids);

/// How many machines the ranges name.
size_t machines_of(std::span<const DeviceRange> ids);

/// As a job file writes them: `"0:0-3", "1:0"`.
std::string ids_text(std::span<const DeviceRange> ids);

/// How a tensor lies on the shards of a batch.
struct ShardLayout {
  enum class Kind : uint8_t {
    kBroadcast,  // the same on every shard: variables, constants, what is computed from them only
    kSplit,      // each shard has its own rows
    kPartial,    // each shard has a part, computed from its own rows: together they are the whole
    kOwn,        // each shard has a value of its own, which nothing joins or combines
    kWhole       // made once, after the steps of shards
  };
  Kind kind = Kind::kBroadcast;
  ops::Combine combine = ops::Combine::kNone;  // of parts

  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// Why a shard cannot compute a result from its own rows.
struct LayoutFault {
  enum class Kind : uint8_t {
    kReadsWhole,           // an operand is made after the steps of shards
    kReadsOwn,             // an operand is each shard's own
    kReadsPart,            // an operand is partial, and the op is not linear in it
    kPartsDiffer,          // the op is linear in its operands, whose parts combine otherwise
    kPartialAndBroadcast,  // the same, of a broadcast operand: each shard would add it
    kMixesRows             // no combination of what shards compute makes the result
  };
  Kind kind;
  size_t operand = 0;  // of kMixesRows: none
};

/// The layout of a result of a step that each shard runs. `result` is what the op's shape function
/// makes of a shard's operands.
std::variant<ShardLayout, LayoutFault> layout_of_result(const ops::OpSpec& op,
                                                        std::span<const ShardLayout> operands,
                                                        const ops::Result& result);

/// The layout of a result of a step that each shard computes from its own values alone, whatever
/// these are of the whole batch: as it is declared.
ShardLayout layout_per_shard(int batch_axis, std::optional<ops::Combine> combine);

/// 1 where the batch is not cut.
int64_t shards_of(const Job& job);

/// How often a call runs a step: once for each shard, or once.
int64_t runs_of(const Job& job, StepId step);

/// A tensor's shape for the whole batch.
Shape whole_shape(const Job& job, const Tensor& tensor);

/// By tensor: does each shard have a value of its own, which nothing joins or combines?
std::vector<bool> own_of_shards(const Job& job);

/// The job for the whole batch, without shards.
Job unsharded_job(const Job& job);

/// The job as the executor, inputs and deliveries see it: for the whole batch. Only backends run
/// the job itself. Borrows a job whose batch is not cut.
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
