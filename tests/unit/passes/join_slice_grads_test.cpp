// The gradient of a tensor that slices cut into parts: joined where they are all of it.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/graph_maker.h"
#include "tests/support/sanitized.h"

namespace flow::test {
namespace {

using Texts = std::vector<std::string>;
using ir::ValueId;

ValueId plus(GraphMaker& maker, const std::string& name, ValueId a, ValueId b) {
  return a.valid() ? maker.add("add", name, {a, b}) : b;
}

/// The sum of the squares of what the indices take of `x`: p0, p1, ...
ValueId squares_of_parts(GraphMaker& maker, ValueId x, const Texts& indices) {
  ValueId sum;
  for (size_t i = 0; i < indices.size(); ++i) {
    const std::string number = std::to_string(i);
    const ValueId part = maker.add("slice", "p" + number, {x}, {{"index", indices[i]}});
    const ValueId square = maker.add("multiply", "square" + number, {part, part});
    sum = plus(maker, "sum" + number, sum,
               maker.add("reduce_sum", "sum_of_square" + number, {square}));
  }
  return sum;
}

void minimize_squares(GraphMaker& maker, Shape shape, const Texts& indices) {
  maker.minimize(squares_of_parts(maker, maker.variable("w", std::move(shape)), indices));
}

bool has(const GraphMaker& maker, std::string_view text) {
  return maker.nodes().find(text) != std::string::npos;
}

std::string main_path(const GraphMaker& maker) {
  std::string text;
  for (const ir::Node& node : maker.graph.nodes)
    if (!node.probe) text += node.name + " = " + std::string(node.op->name) + "\n";
  return text;
}

}  // namespace

TEST_CASE("Parts that are taken with steps are not beside one another", "[passes]") {
  GraphMaker maker;
  minimize_squares(maker, {8, 4}, {"[0:8:2]", "[4:]"});
  maker.run_passes();
  CHECK_FALSE(has(maker, "concat"));
}

TEST_CASE("Gradients of slices that are all of a tensor are joined in the order of the parts",
          "[passes]") {
  GraphMaker maker;
  SECTION("along the first axis, the parts in any order") {
    minimize_squares(maker, {6, 4}, {"[1:3]", "[3:]", "[0:1]"});
    maker.run_passes("join_slice_grads");
    CHECK(has(maker, "w:diff = concat(p2:diff, p0:diff, p1:diff) axis=0: float32[6, 4]\n"));
  }
  SECTION("along the last one") {
    minimize_squares(maker, {6, 4}, {"[:, :1]", "[:, 1:]"});
    maker.run_passes("join_slice_grads");
    CHECK(has(maker, "w:diff = concat(p0:diff, p1:diff) axis=1: float32[6, 4]\n"));
  }
  SECTION("places of an axis, which the parts have no more") {
    minimize_squares(maker, {2, 3, 4}, {"[:, 0]", "[:, 1]", "[:, 2]"});
    maker.run_passes("join_slice_grads");
    CHECK(has(maker, "w:diff = stack(p0:diff, p1:diff, p2:diff) axis=1: float32[2, 3, 4]\n"));
  }
  CHECK_FALSE(has(maker, "slice_grad"));
  CHECK_FALSE(has(maker, "w:diff.sum2"));
}

TEST_CASE("Gradients of slices that are not all of a tensor, once, are added up", "[passes]") {
  const Texts indices = GENERATE(Texts{"[0:2]", "[2:5]"},            // not all of it
                                 Texts{"[1:3]", "[3:6]"},            // nor here
                                 Texts{"[0:2]", "[3:6]"},            // a gap
                                 Texts{"[0:4]", "[3:6]"},            // twice
                                 Texts{"[:]", "[:]"},                // all of it twice
                                 Texts{"[0:3]", "[3:6]", "[0:3]"},   // a part twice
                                 Texts{"[::2]", "[1::2]"},           // not side by side
                                 Texts{"[0:3]", "[:2:-1]"},          // backwards
                                 Texts{"[0:3]", "[:, 0:2]"},         // along different axes
                                 Texts{"[0:3, 0:2]", "[3:6, 0:2]"},  // not all of the other axis
                                 Texts{"[0]", "[1:6]"});             // of different ranks
  GraphMaker maker;
  minimize_squares(maker, {6, 4}, indices);
  maker.run_passes("remove_dead");
  const std::string before = maker.nodes();
  GraphMaker again;
  minimize_squares(again, {6, 4}, indices);
  again.run_passes("join_slice_grads");
  if (indices.size() == 2) CHECK(again.nodes() == before);
  CHECK(has(again, "w:diff = add("));
}

TEST_CASE("Tens of thousands of slices are joined too", "[passes]") {
  constexpr size_t kParts = 40'000 / kCasesPerTried;
  GraphMaker maker;
  const ValueId w = maker.variable("w", {int64_t{kParts}});
  ValueId sum;
  for (size_t i = 0; i < kParts; ++i) {
    const std::string number = std::to_string(i);
    sum = plus(maker, "sum" + number, sum,
               maker.add("slice", "p" + number, {w}, {{"index", "[" + number + "]"}}));
  }
  maker.minimize(sum);
  maker.run_passes("join_slice_grads");
  const ir::Node* joined = maker.graph.producer_of(maker.graph.gradient_of(w));
  CHECK(joined->op->name == "stack");
  CHECK(joined->operands.size() == kParts);
}

TEST_CASE("What else is added to gradients of slices is added to their joined gradient",
          "[passes]") {
  GraphMaker maker;
  const ValueId w = maker.variable("w", {6, 4});
  const ValueId whole = maker.add("reduce_sum", "whole", {maker.add("tanh", "t", {w})});
  maker.minimize(plus(maker, "loss", whole, squares_of_parts(maker, w, {"[:2]", "[2:]"})));
  maker.run_passes("join_slice_grads");
  CHECK(has(maker, "w:diff.sum2 = concat(p0:diff, p1:diff) axis=0: float32[6, 4]\n"));
  CHECK(has(maker, "w:diff = add(w:diff.sum2, w:diff.3): float32[6, 4]\n"));
}

TEST_CASE("A slice's gradient that is read elsewhere too, or lies elsewhere, is made", "[passes]") {
  GraphMaker maker;
  const ValueId w = maker.variable("w", {6, 4});
  SECTION("read") {
    const ValueId y = maker.add("add", "y", {w, maker.variable("v", {6, 4})});  // y:diff is v's too
    const ValueId of_y = maker.add("slice", "of_y", {y}, {{"index", std::string("[:3]")}});
    maker.minimize(plus(maker, "loss", maker.add("reduce_sum", "sum", {of_y}),
                        squares_of_parts(maker, w, {"[3:]"})));
  }
  SECTION("of another device") {
    const ValueId first = maker.add("slice", "first", {w}, {{"index", std::string("[:3]")}});
    maker.builder.place_on(plan::DeviceKind::kGpu);
    const ValueId second = maker.add("slice", "second", {w}, {{"index", std::string("[3:]")}});
    maker.minimize(maker.add("multiply", "loss", {first, second}));
  }
  maker.run_passes("join_slice_grads");
  CHECK(has(maker, "w:diff = add("));
}

TEST_CASE("Rows that two ops see along different axes keep a batch of one from being joined",
          "[passes]") {
  const auto joined = [](int64_t batch) {
    GraphMaker maker;
    const ValueId x = maker.input("x", {batch, 2, 4});
    const ValueId y = maker.add("multiply", "y", {x, maker.variable("w", {batch, 2, 4})});
    const ValueId parts =
        maker.add("transpose", "parts", {y}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
    maker.minimize(squares_of_parts(maker, parts, {"[0]", "[1]"}));
    maker.run_passes("join_slice_grads");
    return has(maker, "parts:diff = stack(p0:diff, p1:diff) axis=0");
  };
  CHECK(joined(3));
  CHECK_FALSE(joined(1));
}

TEST_CASE("Watched gradients decide nothing about what is joined, and are delivered", "[passes]") {
  const auto passed = [](bool watch, bool scale) {
    GraphMaker maker;
    const ValueId w = maker.variable("w", {6, 4});
    const ValueId y = maker.add("add", "y", {w, maker.input("x", {6, 4})});
    const ValueId of_y = maker.add("slice", "of_y", {y}, {{"index", std::string("[:3]")}});
    maker.minimize(plus(maker, "loss", maker.add("reduce_sum", "sum", {of_y}),
                        squares_of_parts(maker, w, {"[3:]"})));
    if (scale) maker.context.training->loss_scale = {.dynamic = true};
    if (watch) maker.context.training->gradients_of = {of_y, y, w};
    maker.run_passes("join_slice_grads");
    CHECK(has(maker, "w:diff = concat(of_y:diff, p0:diff) axis=0"));
    CHECK(has(maker, "tap y:diff = slice_grad(of_y:diff)") == watch);
    return main_path(maker);
  };
  const bool scale = GENERATE(false, true);
  CHECK(passed(true, scale) == passed(false, scale));
}

}  // namespace flow::test
