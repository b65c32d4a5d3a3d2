// Where the rows of the batch lie in the results of ops.
#include <catch2/catch.hpp>

#include "ops/spec.h"

namespace flow::ops {
namespace {

constexpr DType F = DType::kFloat32, I = DType::kInt32;

struct Typed {
  Shape shape;
  int batch_axis = kNoBatch;
  DType dtype = F;
};

/// The batch axes of the results of a call.
std::vector<int> batch_axes(std::string_view op, const std::vector<Typed>& operands,
                            const Attributes& attributes, int64_t batch = 8) {
  std::vector<Operand> types;
  for (const Typed& operand : operands)
    types.push_back({operand.dtype, operand.shape, operand.batch_axis});
  Call call(types, attributes, {.batch = batch});
  find_spec(op)->infer(call);
  REQUIRE_FALSE(call.failed());
  std::vector<int> axes;
  for (const Result& result : call.results()) axes.push_back(result.batch_axis);
  return axes;
}

using Axes = std::vector<int>;

TEST_CASE("scatter_add keeps the batch axis of slices, not that of indices", "[ops]") {
  const Typed picks{{2, 2}, kNoBatch, I};
  const auto scattered = [](const Typed& in, const Typed& indices, const Typed& updates) {
    return batch_axes("scatter_add", {in, indices, updates}, {{"axis", int64_t{1}}});
  };
  CHECK(scattered({{8, 5, 3}, 0}, picks, {{8, 2, 2, 3}, 0}) == Axes{0});
  CHECK(scattered({{3, 5, 8}}, picks, {{3, 2, 2, 8}, 3}) == Axes{2});
  CHECK(scattered({{3, 8, 5}, 1}, picks, {{3, 2, 2, 5}}) == Axes{kBatchReduced});
  CHECK(scattered({{3, 5}}, {{8, 2}, 0, I}, {{3, 8, 2}, 1}) == Axes{kBatchReduced});
  CHECK(scattered({{3, 5}}, {{8}, 0, I}, {{3, 8}}) == Axes{kBatchReduced});
}

TEST_CASE("gather moves the batch axis by the axes of its indices", "[ops]") {
  const Attributes axis1{{"axis", int64_t{1}}};
  CHECK(batch_axes("gather", {{{8, 5, 3}, 0}, {{2, 2}, kNoBatch, I}}, axis1) == Axes{0});
  CHECK(batch_axes("gather", {{{3, 5, 8}, 2}, {{2, 2}, kNoBatch, I}}, axis1) == Axes{3});
  CHECK(batch_axes("gather", {{{3, 8, 5}, 1}, {{2, 2}, kNoBatch, I}}, axis1) ==
        Axes{kBatchReduced});
  CHECK(batch_axes("gather", {{{3, 5}}, {{8, 2}, 0, I}}, axis1) == Axes{1});
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

}  // namespace
}  // namespace flow::ops
