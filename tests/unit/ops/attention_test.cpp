// Attention's shapes, its default scale, and which axis carries rows.
#include <catch2/catch.hpp>

#include <cmath>

#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using ir::kBatchReduced;
using ir::kNoBatch;
using ir::ValueId;

constexpr std::string_view kOp = "scaled_dot_product_attention";
constexpr DType F = DType::kFloat32;

/// The row axis of attention over operands of these row axes.
int rows_of(int query, int key, int value, int mask = kNoBatch) {
  GraphMaker maker;
  const ValueId y = maker.add(
      kOp, "y",
      {maker.input("q", {2, 3, 4, 5}, F, query), maker.input("k", {2, 3, 6, 5}, F, key),
       maker.input("v", {2, 3, 6, 7}, F, value), maker.input("m", {3, 4, 6}, DType::kBool, mask)});
  CHECK(maker.graph[y].shape == Shape{2, 3, 4, 7});
  return maker.graph[y].batch_axis;
}

}  // namespace

TEST_CASE("Attention keeps rows along its batch and its queries, and mixes keys and depths",
          "[ops]") {
  CHECK(rows_of(0, 0, 0) == 0);
  CHECK(rows_of(1, 1, 1) == 1);
  CHECK(rows_of(2, kNoBatch, kNoBatch) == 2);
  CHECK(rows_of(kNoBatch, kNoBatch, 3) == 3);
  CHECK(rows_of(1, 1, 1, 0) == 1);
  CHECK(rows_of(kNoBatch, kNoBatch, kNoBatch, 1) == 2);
  CHECK(rows_of(kNoBatch, kNoBatch, kNoBatch) == kNoBatch);
  CHECK(rows_of(3, kNoBatch, kNoBatch) == kBatchReduced);
  CHECK(rows_of(kNoBatch, 2, kNoBatch) == kBatchReduced);
  CHECK(rows_of(kNoBatch, kNoBatch, 2) == kBatchReduced);
  CHECK(rows_of(kNoBatch, kNoBatch, kNoBatch, 2) == kBatchReduced);
  CHECK(rows_of(0, 1, 0) == kBatchReduced);
}

TEST_CASE("Gradients of keys and values sum over the rows of queries", "[ops]") {
  GraphMaker maker;
  const auto input = [&](const char* name, Shape shape) { return maker.input(name, shape, F, 1); };
  const ValueId dquery = maker.add(
      "scaled_dot_product_attention_grad", "grad",
      {input("dy", {3, 4, 7}), input("q", {3, 4, 5}), maker.input("k", {3, 6, 5}, F, kNoBatch),
       maker.input("v", {3, 6, 7}, F, kNoBatch), input("y", {3, 4, 7}), input("lse", {3, 4})},
      {{"scale", 1.0}});
  REQUIRE(dquery.valid());
  const ir::Node& node = *maker.graph.producer_of(dquery);
  CHECK(maker.graph[node.results[0]].batch_axis == 1);
  CHECK(maker.graph[node.results[1]].batch_axis == kBatchReduced);
  CHECK(maker.graph[node.results[2]].batch_axis == kBatchReduced);
}

TEST_CASE("Heads that share keys are computed together", "[ops]") {
  GraphMaker maker;
  const auto rows_of_groups = [&](const std::string& name, int batch_axis) {
    const ValueId y = maker.add(kOp, name,
                                {maker.input(name + "q", {2, 4, 5, 3}, F, batch_axis),
                                 maker.input(name + "k", {2, 2, 6, 3}, F, batch_axis),
                                 maker.input(name + "v", {2, 2, 6, 7}, F, batch_axis)});
    CHECK(maker.graph[y].shape == Shape{2, 4, 5, 7});
    return maker.graph[y].batch_axis;
  };
  CHECK(rows_of_groups("a", 0) == 0);
  CHECK(rows_of_groups("b", 1) == kBatchReduced);
}

TEST_CASE("Biases and lengths carry rows too", "[ops]") {
  GraphMaker maker;
  const auto rows_with = [&](const std::string& name, ValueId other) {
    return maker
        .graph[maker.add(kOp, name,
                         {maker.input(name + "q", {2, 3, 4, 5}, F, 0),
                          maker.input(name + "k", {2, 3, 6, 5}, F, 0),
                          maker.input(name + "v", {2, 3, 6, 7}, F, 0), other})]
        .batch_axis;
  };
  CHECK(rows_with("a", maker.input("bias", {2, 1, 4, 6}, F, 0)) == 0);
  CHECK(rows_with("b", maker.input("column", {4, 6}, F, 1)) == kBatchReduced);
  CHECK(rows_with("c", maker.input("lengths", {2}, DType::kInt32, 0)) == 0);
  CHECK(rows_with("d", maker.input("same", {2}, DType::kInt32, kNoBatch)) == 0);
}

TEST_CASE("The gradient of a bias is reduced where its elements serve several rows", "[ops]") {
  GraphMaker maker;
  const auto rows_of_gradient = [&](const std::string& name, Shape bias, int batch_axis) {
    const auto input = [&](const char* part, Shape shape) {
      return maker.input(name + part, shape, F, 0);
    };
    return maker
        .graph[maker.add(
            "scaled_dot_product_attention_grad_bias", name,
            {input("dy", {2, 3, 4, 7}), input("q", {2, 3, 4, 5}), input("k", {2, 3, 6, 5}),
             input("v", {2, 3, 6, 7}), input("y", {2, 3, 4, 7}), input("lse", {2, 3, 4}),
             maker.input(name + "bias", bias, F, batch_axis)},
            {{"scale", 1.0}})]
        .batch_axis;
  };
  CHECK(rows_of_gradient("a", {2, 1, 1, 6}, 0) == 0);
  CHECK(rows_of_gradient("b", {3, 4, 6}, kNoBatch) == kBatchReduced);
  CHECK(rows_of_gradient("c", {1, 3, 4, 6}, kNoBatch) == kBatchReduced);
}

TEST_CASE("The default scale of attention is one over the root of the depth", "[ops]") {
  GraphMaker maker;
  const ValueId q = maker.input("q", {3, 16});
  const auto scale = [&](const char* name, std::initializer_list<ir::Attributes::Entry> entries) {
    const ValueId y = maker.add(kOp, name, {q, q, q}, entries);
    return maker.graph[maker.graph[y].producer].attributes.get<double>("scale");
  };
  CHECK(scale("y", {}) == 0.25);
  CHECK(scale("z", {{"scale", 2.0}}) == 2);
}

}  // namespace flow::test
