// How tensors lie on the shards of a batch, as far as records of ops tell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <variant>

#include "ops/core/spec.h"

namespace flow::plan {

struct ShardLayout {
  enum class Kind : uint8_t {
    kBroadcast,  // the same on every shard: variables, constants, what is computed from them only
    kSplit,      // each shard has its own rows
    kPartial,    // each shard has a part, computed from its own rows: together they are the whole
    kOwn,        // each shard has a value of its own, which nothing joins or combines
    kWhole       // made once, behind the steps of shards
  };
  Kind kind = Kind::kBroadcast;
  ops::Combine combine = ops::Combine::kNone;  // of parts

  friend bool operator==(const ShardLayout&, const ShardLayout&) = default;
};

/// Why a shard cannot compute a result from its own rows.
struct LayoutFault {
  enum class Kind : uint8_t {
    kReadsWhole,           // an operand is made behind the steps of shards
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

}  // namespace flow::plan
