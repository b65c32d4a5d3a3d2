// Where the rows of the batch lie in the results of ops, and what combines what shards make of
// them.
#include <catch2/catch.hpp>

#include "ops/core/spec.h"

namespace flow::ops {
namespace {

constexpr DType kFloats = DType::kFloat32, kInts = DType::kInt32;

struct Typed {
  Shape shape;
  int batch_axis = kNoBatch;
  DType dtype = kFloats;
};

std::vector<Result> typed_results(std::string_view op, const std::vector<Typed>& operands,
                                  const Attributes& attributes, int64_t shards = 1) {
  std::vector<Operand> types;
  for (const Typed& operand : operands)
    types.push_back({operand.dtype, operand.shape, operand.batch_axis});
  Call call(types, attributes, {.batch = 8, .shards = shards});
  find_spec(op)->infer(call);
  REQUIRE_FALSE(call.failed());
  return call.results();
}

using Axes = std::vector<int>;
using Combines = std::vector<Combine>;

/// The batch axes of the results of a call.
Axes batch_axes(std::string_view op, const std::vector<Typed>& operands,
                const Attributes& attributes, int64_t shards = 1) {
  Axes axes;
  for (const Result& result : typed_results(op, operands, attributes, shards))
    axes.push_back(result.batch_axis);
  return axes;
}

/// What combines the results of shards.
Combines combines(std::string_view op, const std::vector<Typed>& operands,
                  const Attributes& attributes, int64_t shards = 2) {
  Combines found;
  for (const Result& result : typed_results(op, operands, attributes, shards))
    found.push_back(result.combine);
  return found;
}

TEST_CASE("scatter_add keeps the batch axis of slices, not that of indices", "[ops]") {
  const Typed picks{{2, 2}, kNoBatch, kInts};
  const auto scattered = [](const Typed& in, const Typed& indices, const Typed& updates) {
    return batch_axes("scatter_add", {in, indices, updates}, {{"axis", int64_t{1}}});
  };
  CHECK(scattered({{8, 5, 3}, 0}, picks, {{8, 2, 2, 3}, 0}) == Axes{0});
  CHECK(scattered({{3, 5, 8}}, picks, {{3, 2, 2, 8}, 3}) == Axes{2});
  CHECK(scattered({{3, 8, 5}, 1}, picks, {{3, 2, 2, 5}}) == Axes{kBatchReduced});
  CHECK(scattered({{3, 5}}, {{8, 2}, 0, kInts}, {{3, 8, 2}, 1}) == Axes{kBatchReduced});
  CHECK(scattered({{3, 5}}, {{8}, 0, kInts}, {{3, 8}}) == Axes{kBatchReduced});
}

TEST_CASE("Indices along an axis keep the batch axis of others", "[ops]") {
  const Attributes axis1{{"axis", int64_t{1}}};
  const Typed x{{8, 5, 3}, 0}, shared{{8, 5, 3}}, along{{3, 8, 5}, 1};
  const Typed picks{{8, 2, 3}, 0, kInts}, rows{{3, 8, 5}, 1, kInts};
  CHECK(batch_axes("take_along_axis", {x, picks}, axis1) == Axes{0});
  CHECK(batch_axes("take_along_axis", {shared, picks}, axis1) == Axes{0});
  CHECK(batch_axes("take_along_axis", {along, {{3, 2, 5}, kNoBatch, kInts}}, axis1) ==
        Axes{kBatchReduced});
  CHECK(batch_axes("take_along_axis", {{{3, 9, 5}}, rows}, axis1) == Axes{1});
  CHECK(batch_axes("add_along_axis", {shared, picks, {{8, 2, 3}, 0}}, axis1) == Axes{0});
  CHECK(batch_axes("put_along_axis", {{{3, 9, 5}}, rows, {{3, 8, 5}, 1}}, axis1) ==
        Axes{kBatchReduced});
}

TEST_CASE("gather moves the batch axis by the axes of its indices", "[ops]") {
  const Attributes axis1{{"axis", int64_t{1}}};
  CHECK(batch_axes("gather", {{{8, 5, 3}, 0}, {{2, 2}, kNoBatch, kInts}}, axis1) == Axes{0});
  CHECK(batch_axes("gather", {{{3, 5, 8}, 2}, {{2, 2}, kNoBatch, kInts}}, axis1) == Axes{3});
  CHECK(batch_axes("gather", {{{3, 8, 5}, 1}, {{2, 2}, kNoBatch, kInts}}, axis1) ==
        Axes{kBatchReduced});
  CHECK(batch_axes("gather", {{{3, 5}}, {{8, 2}, 0, kInts}}, axis1) == Axes{1});
}

TEST_CASE("bags keep the batch axis before their indices", "[ops]") {
  const Attributes extent{{"extent", int64_t{7}}};
  const Typed rows{{8, 2, 5}, 0, kInts}, inside{{2, 8}, 1, kInts}, table{{7, 3}};
  CHECK(batch_axes("bag_indices", {rows}, extent) == Axes{0});
  CHECK(batch_axes("bag_indices", {inside}, extent) == Axes{1});
  CHECK(batch_axes("bag_indices", {inside, {{2}, kNoBatch, kInts}}, extent) == Axes{kBatchReduced});
  CHECK(batch_axes("bag_indices", {{{8, 5}, kNoBatch, kInts}, {{8}, 0, kInts}}, extent) == Axes{0});
  CHECK(batch_axes("bag_sum", {table, rows}, {}) == Axes{0});
  CHECK(batch_axes("bag_sum", {table, inside}, {}) == Axes{kBatchReduced});
  CHECK(batch_axes("bag_sum", {table, {{2, 8}, kNoBatch, kInts}, {{2, 8}, 1}}, {}) ==
        Axes{kBatchReduced});
  CHECK(batch_axes("bag_sum", {{{7, 8}, 1}, {{4, 5}, kNoBatch, kInts}}, {}) == Axes{1});
  CHECK(batch_axes("bag_sum", {{{8, 3}, 0}, {{4, 5}, kNoBatch, kInts}}, {}) == Axes{kBatchReduced});
  CHECK(batch_axes("bag_max", {table, rows}, {}) == Axes{0, 0});
}

TEST_CASE("group_normalize keeps a batch axis before the channels only", "[ops]") {
  const Attributes groups{{"groups", int64_t{2}}, {"epsilon", 0.1}};
  const auto axes = [&](int batch_axis) {
    return batch_axes("group_normalize", {{{8, 4, 6}, batch_axis}, {{4}}, {{4}}}, groups);
  };
  CHECK(axes(0).front() == 0);
  CHECK(axes(1).front() == kBatchReduced);
  CHECK(axes(2).front() == kBatchReduced);
}

TEST_CASE("a product keeps the batch axis of its rows or columns, and reduces a summed one",
          "[ops]") {
  const Attributes plain{{"transpose_a", false}, {"transpose_b", false}};
  CHECK(batch_axes("matmul", {{{8, 4}, 0}, {{4, 5}}}, plain) == Axes{0});
  CHECK(batch_axes("matmul", {{{4, 8}, 1}, {{8, 5}}}, plain) == Axes{kBatchReduced});
  CHECK(batch_axes("matmul", {{{3, 4}}, {{4, 8}, 1}}, plain) == Axes{1});
  CHECK(batch_axes("matmul", {{{8, 3, 4}, 0}, {{4, 5}}}, plain) == Axes{0});
  CHECK(batch_axes("matmul", {{{8, 4}, 0}, {{4, 8}, 1}}, plain) == Axes{kBatchReduced});
}

TEST_CASE("a reduction shifts the batch axis by the axes that it removes", "[ops]") {
  const auto reduced = [](std::vector<int64_t> axes, bool keepdims, int batch_axis) {
    return batch_axes("reduce_sum", {{{2, 3, 8}, batch_axis}},
                      {{"axes", std::move(axes)}, {"keepdims", keepdims}});
  };
  CHECK(reduced({0}, false, 2) == Axes{1});
  CHECK(reduced({0, 1}, false, 2) == Axes{0});
  CHECK(reduced({0}, true, 2) == Axes{2});
  CHECK(reduced({2}, true, 2) == Axes{kBatchReduced});
}

TEST_CASE("sums, means and extremes over rows are combined as such, and nothing else is", "[ops]") {
  const auto reduced = [](std::string_view op, DType dtype = kFloats) {
    return combines(op, {{{8, 3}, 0, dtype}},
                    {{"axes", std::vector<int64_t>{0}}, {"keepdims", false}});
  };
  CHECK(reduced("reduce_sum") == Combines{Combine::kSum});
  CHECK(reduced("reduce_mean") == Combines{Combine::kMean});
  CHECK(reduced("reduce_max") == Combines{Combine::kMax});
  CHECK(reduced("reduce_min") == Combines{Combine::kMin});
  CHECK(reduced("reduce_any", DType::kBool) == Combines{Combine::kMax});
  CHECK(reduced("reduce_all", DType::kBool) == Combines{Combine::kMin});
  CHECK(reduced("reduce_prod") == Combines{Combine::kNone});
  CHECK(reduced("logsumexp") == Combines{Combine::kNone});
  CHECK(combines("softmax", {{{8, 3}, 0}}, {{"axis", int64_t{0}}}) == Combines{Combine::kNone});
  CHECK(combines("bias_add_grad", {{{8, 3}, 0}}, {{"axis", int64_t{1}}}) ==
        Combines{Combine::kSum});
  CHECK(combines("bias_add_grad", {{{8, 3}, kBatchReduced}}, {{"axis", int64_t{1}}}) ==
        Combines{Combine::kNone});
}

TEST_CASE("a product over rows alone is a sum over shards", "[ops]") {
  const Attributes first{{"transpose_a", true}, {"transpose_b", false}};
  CHECK(combines("matmul", {{{8, 4}, 0}, {{8, 5}, 0}}, first) == Combines{Combine::kSum});
  CHECK(combines("matmul", {{{8, 4}}, {{8, 5}, 0}}, first) == Combines{Combine::kSum});
  CHECK(combines("matmul", {{{8, 8}, 0}, {{8, 8}, 1}}, first) == Combines{Combine::kNone});
  const Attributes plain{{"transpose_a", false}, {"transpose_b", false}};
  CHECK(combines("matmul", {{{8, 4}, 0}, {{4, 8}, 1}}, plain) == Combines{Combine::kNone});
}

TEST_CASE("gradients of what is picked are sums over the rows of the indices", "[ops]") {
  const Attributes axis0{{"axis", int64_t{0}}, {"extent", int64_t{9}}};
  CHECK(combines("gather_grad", {{{8}, 0, kInts}, {{8, 3}, 0}}, axis0) == Combines{Combine::kSum});
  CHECK(combines("gather_grad", {{{8}, 0, kInts}, {{8, 3}}}, axis0) == Combines{Combine::kSum});
  CHECK(batch_axes("gather_grad", {{{8}, 0, kInts}, {{8, 3}}}, axis0) == Axes{kBatchReduced});
  CHECK(batch_axes("gather_grad", {{{5}, kNoBatch, kInts}, {{5, 8}, 1}}, axis0) == Axes{1});
  CHECK(combines("gather_grad", {{{8}, 0, kInts}, {{8, 8}, 1}}, axis0) == Combines{Combine::kNone});
}

TEST_CASE("batch normalization of shards keeps their rows, and the mean of their statistics",
          "[ops]") {
  const Attributes axis1{{"axis", int64_t{1}}, {"epsilon", 0.1}};
  const std::vector<Typed> operands{{{8, 4}, 0}, {{4}}, {{4}}};
  CHECK(batch_axes("batch_norm", operands, axis1) ==
        Axes{kBatchReduced, kBatchReduced, kBatchReduced});
  CHECK(batch_axes("batch_norm", operands, axis1, 2) == Axes{0, kBatchReduced, kBatchReduced});
  CHECK(combines("batch_norm", operands, axis1) ==
        Combines{Combine::kNone, Combine::kMean, Combine::kMean});
}

TEST_CASE("gradients of batch normalization read the statistics and sums of their shard", "[ops]") {
  const Attributes axis1{{"axis", int64_t{1}}, {"epsilon", 0.1}, {"rectified", false}};
  const Typed x{{8, 4}, 0}, given{{4}}, part{{4}, kBatchReduced};
  const std::vector<Typed> sums{x, x, given, given, part, part};
  CHECK(combines("batch_norm_grad_affine", sums, axis1) == Combines{Combine::kSum, Combine::kSum});
  const std::vector<Typed> operands{x, x, given, given, part, part, part, part};
  CHECK(batch_axes("batch_norm_grad", operands, axis1) == Axes{kBatchReduced});
  CHECK(batch_axes("batch_norm_grad", operands, axis1, 2) == Axes{0});
  const OpSpec& gradient = *find_spec("batch_norm_grad");
  for (size_t i = 0; i < operands.size(); ++i) CHECK(gradient.operand(i).per_shard == (i >= 4));
  CHECK_FALSE(find_spec("batch_norm_predict")->operand(3).per_shard);
}

TEST_CASE("the places of rows are unknown in a shard", "[ops]") {
  const Attributes diagonal{{"diagonal", int64_t{0}}};
  CHECK(batch_axes("tril", {{{8, 4}, 0}}, diagonal) == Axes{0});
  CHECK(batch_axes("tril", {{{8, 4}, 0}}, diagonal, 2) == Axes{kBatchReduced});
  CHECK(batch_axes("tril", {{{8, 4, 4}, 0}}, diagonal, 2) == Axes{0});
  const auto attended = [](bool causal) {
    return batch_axes("scaled_dot_product_attention", {{{8, 4}, 0}, {{5, 4}}, {{5, 3}}},
                      {{"causal", causal}, {"scale", 1.0}}, 2);
  };
  CHECK(attended(false) == Axes{0, 0});
  CHECK(attended(true) == Axes{kBatchReduced, kBatchReduced});
}

TEST_CASE("a constant gradient becomes rows beside those of other operands", "[ops]") {
  const Typed dy{{8, 4}}, x{{8, 4}, 0};
  const Attributes axis1{{"axis", int64_t{1}}};
  CHECK(batch_axes("relu_grad", {dy, x}, {}) == Axes{0});
  CHECK(batch_axes("softmax_grad", {dy, x}, axis1) == Axes{0});
  CHECK(batch_axes("reduce_prod_grad", {{{8}}, x},
                   {{"axes", std::vector<int64_t>{1}}, {"keepdims", false}}) == Axes{0});
  CHECK(batch_axes("rms_normalize_grad", {dy, x, {{4}}, {{8}, 0}}, axis1) ==
        Axes{0, kBatchReduced});
}

TEST_CASE("the gradient of a reduction mixes what was reduced", "[ops]") {
  const auto rows = [](int64_t axis, const Typed& dy) {
    return batch_axes("reduce_prod_grad", {dy, {{8, 3}, 0}},
                      {{"axes", std::vector<int64_t>{axis}}, {"keepdims", false}});
  };
  CHECK(rows(0, {{3}}) == Axes{kBatchReduced});
  CHECK(rows(1, {{8}, 0}) == Axes{0});
}

TEST_CASE("updates, and what is computed for them, run once behind the shards", "[ops]") {
  for (const std::string_view op : {"sgd_update", "lamb_update", "clip_factor", "unscale_factor",
                                    "move_loss_scale", "move_statistics", "regularize"}) {
    INFO(op);
    CHECK(find_spec(op)->runs_once());
  }
  CHECK_FALSE(find_spec("reduce_mean")->runs_once());
  CHECK_FALSE(find_spec("batch_norm")->runs_once());
}

}  // namespace
}  // namespace flow::ops
