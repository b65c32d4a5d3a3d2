// What each shard computes from its own rows, by what the record of an op says.
#include "runtime/plan/model/shards.h"

#include <catch2/catch.hpp>

namespace flow::plan {
namespace {

using ops::Combine;
using Kind = ShardLayout::Kind;
using Fault = LayoutFault::Kind;

const ShardLayout kBroadcast{Kind::kBroadcast}, kSplit{Kind::kSplit}, kWhole{Kind::kWhole};

ShardLayout part(Combine combine) { return {Kind::kPartial, combine}; }

ops::OpSpec op_of(std::vector<size_t> linear = {}, bool in_all = false, bool moves = false) {
  ops::OpSpec op;
  op.name = "op";
  op.operands = {{"a", "any shape"}, {"b", "any shape"}};
  op.linear = std::move(linear);
  op.linear_in_all = in_all;
  op.moves_elements = moves;
  return op;
}

/// The layout where there is one.
std::optional<ShardLayout> layout(const ops::OpSpec& op, std::vector<ShardLayout> operands,
                                  int batch_axis = ops::kBatchReduced,
                                  Combine combine = Combine::kNone) {
  const auto found = layout_of_result(op, operands, {DType::kFloat32, {}, batch_axis, combine});
  const auto* made = std::get_if<ShardLayout>(&found);
  return made ? std::optional(*made) : std::nullopt;
}

/// Why there is none, and which operand is at fault.
std::pair<Fault, size_t> fault(const ops::OpSpec& op, std::vector<ShardLayout> operands,
                               int batch_axis = ops::kBatchReduced) {
  const auto found = layout_of_result(op, operands, {DType::kFloat32, {}, batch_axis});
  REQUIRE(std::holds_alternative<LayoutFault>(found));
  return {std::get<LayoutFault>(found).kind, std::get<LayoutFault>(found).operand};
}

TEST_CASE("rows give rows or parts, and what has none is the same on each shard", "[plan]") {
  const ops::OpSpec op = op_of();
  CHECK(layout(op, {kSplit, kBroadcast}, 1) == kSplit);
  CHECK(layout(op, {kSplit, kBroadcast}, ops::kBatchReduced, Combine::kMax) == part(Combine::kMax));
  CHECK(layout(op, {kBroadcast, kBroadcast}, ops::kNoBatch) == kBroadcast);
  CHECK(layout(op, {}, ops::kNoBatch) == kBroadcast);
  CHECK(fault(op, {kSplit, kBroadcast}).first == Fault::kMixesRows);
  CHECK(fault(op, {kBroadcast, kSplit}, ops::kNoBatch).first == Fault::kMixesRows);
  CHECK(fault(op, {kBroadcast, kWhole}, ops::kNoBatch) == std::pair(Fault::kReadsWhole, size_t{1}));
}

TEST_CASE("an op that is linear in an operand makes parts of its parts", "[plan]") {
  const ops::OpSpec op = op_of({1});
  for (const Combine adds : {Combine::kSum, Combine::kMean}) {
    CHECK(layout(op, {kBroadcast, part(adds)}) == part(adds));
    CHECK(fault(op, {part(adds), kBroadcast}) == std::pair(Fault::kReadsPart, size_t{0}));
    CHECK(fault(op, {kSplit, part(adds)}, 0) == std::pair(Fault::kReadsPart, size_t{1}));
    CHECK(fault(op, {part(adds), part(adds)}) == std::pair(Fault::kReadsPart, size_t{0}));
  }
  CHECK(fault(op, {kBroadcast, part(Combine::kMax)}) == std::pair(Fault::kReadsPart, size_t{1}));
  CHECK(fault(op_of({0, 1}), {part(Combine::kSum), part(Combine::kSum)}) ==
        std::pair(Fault::kReadsPart, size_t{0}));
}

TEST_CASE("an op that is linear in all operands wants parts of one kind", "[plan]") {
  const ops::OpSpec op = op_of({}, true);
  const ShardLayout sum = part(Combine::kSum), mean = part(Combine::kMean);
  CHECK(layout(op, {sum, sum}) == sum);
  CHECK(fault(op, {sum, mean}) == std::pair(Fault::kPartsDiffer, size_t{1}));
  CHECK(fault(op, {sum, kBroadcast}) == std::pair(Fault::kPartialAndBroadcast, size_t{1}));
  CHECK(fault(op, {kBroadcast, sum}) == std::pair(Fault::kPartialAndBroadcast, size_t{0}));
  CHECK(fault(op, {sum, kSplit}, 0) == std::pair(Fault::kReadsPart, size_t{0}));
}

TEST_CASE("what only moves elements keeps the parts of a maximum", "[plan]") {
  const ShardLayout max = part(Combine::kMax), min = part(Combine::kMin);
  CHECK(layout(op_of({0}, false, true), {max, kBroadcast}) == max);
  CHECK(layout(op_of({}, true, true), {min, min}) == min);
  CHECK(fault(op_of({}, true, true), {min, max}).first == Fault::kPartsDiffer);
}

TEST_CASE("only steps that are per shard read what each shard has for itself", "[plan]") {
  const ShardLayout own{Kind::kOwn};
  CHECK(fault(op_of(), {kSplit, own}, 0) == std::pair(Fault::kReadsOwn, size_t{1}));
  CHECK(layout_per_shard(1, {}) == kSplit);
  CHECK(layout_per_shard(ops::kBatchReduced, {}) == own);
  CHECK(layout_per_shard(ops::kBatchReduced, Combine::kSum) == part(Combine::kSum));
}

TEST_CASE("a shard reads its own part where the record says so", "[plan]") {
  ops::OpSpec op = op_of();
  op.operands[1].per_shard = true;
  const ShardLayout mean = part(Combine::kMean);
  CHECK(layout(op, {kSplit, mean}, 0) == kSplit);
  CHECK(layout(op, {kSplit, mean}, ops::kBatchReduced, Combine::kSum) == part(Combine::kSum));
  CHECK(fault(op, {kBroadcast, mean}, ops::kNoBatch).first == Fault::kMixesRows);
  CHECK(fault(op, {mean, mean}) == std::pair(Fault::kReadsPart, size_t{0}));
}

}  // namespace
}  // namespace flow::plan
