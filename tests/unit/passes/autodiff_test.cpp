// Gradients as nodes.
#include <catch2/catch.hpp>

#include "tests/support/graph_maker.h"

namespace flow::test {

using ir::ValueId;

TEST_CASE("Backward begins with ones and adds only what is trained needs", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.layer("dense", "d", x, {{"units", int64_t{3}}});
  maker.minimize(y);
  maker.run_passes("autodiff");
  CHECK(maker.nodes() ==
        "d/matmul = matmul(x, d/weight) transpose_a=false transpose_b=true: float32[8, 3] rows=0\n"
        "d/bias_add = bias_add(d/matmul, d/bias) axis=1: float32[8, 3] rows=0\n"
        "d/bias_add:diff = fill() dtype=float32 shape=[8, 3] value=1: float32[8, 3]\n"
        "d/bias:diff = bias_add_grad(d/bias_add:diff) axis=1: float32[3]\n"
        "d/weight:diff = matmul(d/bias_add:diff, x) transpose_a=true transpose_b=false: "
        "float32[3, 4] mixed\n");
  CHECK(maker.graph[maker.graph.gradient_of(maker.graph.find("d/bias"))].name == "d/bias:diff");
  CHECK_FALSE(maker.graph.gradient_of(x).valid());
}

TEST_CASE("A value used several times has the sum of its gradients", "[passes]") {
  GraphMaker maker;
  const ValueId w = maker.variable("w", {4});
  const ValueId square = maker.add("multiply", "square", {w, w});
  const ValueId y = maker.add("multiply", "y", {square, w});
  maker.minimize(y);
  maker.run_passes("autodiff");
  CHECK(maker.nodes() ==
        "square = multiply(w, w): float32[4]\n"
        "y = multiply(square, w): float32[4]\n"
        "y:diff = fill() dtype=float32 shape=[4] value=1: float32[4]\n"
        "square:diff = multiply(y:diff, w): float32[4]\n"
        "w:diff.1 = multiply(y:diff, square): float32[4]\n"
        "w:diff.2 = multiply(square:diff, w): float32[4]\n"
        "w:diff.3 = multiply(square:diff, w): float32[4]\n"
        "w:diff.sum2 = add(w:diff.1, w:diff.2): float32[4]\n"
        "w:diff = add(w:diff.sum2, w:diff.3): float32[4]\n");
}

TEST_CASE("The gradient of what was broadcast sums over the copies", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 3, 4});
  const ValueId w = maker.variable("w", {3, 1});
  maker.minimize(maker.add("multiply", "y", {x, w}));
  maker.run_passes("autodiff");
  CHECK(maker.nodes() ==
        "y = multiply(x, w): float32[8, 3, 4] rows=0\n"
        "y:diff = fill() dtype=float32 shape=[8, 3, 4] value=1: float32[8, 3, 4]\n"
        "w:diff/multiply = multiply(y:diff, x): float32[8, 3, 4] rows=0\n"
        "w:diff/reduce_sum = reduce_sum(w:diff/multiply) axes=[0, 2] keepdims=true: "
        "float32[1, 3, 1] mixed\n"
        "w:diff = reshape(w:diff/reduce_sum) shape=[3, 1]: float32[3, 1] mixed\n");
}

TEST_CASE("On ties the first operand of maximum and minimum receives the gradient", "[passes]") {
  for (const auto& [op, condition] :
       {std::pair{"maximum", "greater_equal"}, {"minimum", "less_equal"}}) {
    GraphMaker maker;
    const ValueId a = maker.variable("a", {3}), b = maker.variable("b", {3});
    maker.minimize(maker.add(op, "y", {a, b}));
    maker.run_passes("autodiff");
    const std::string nodes = maker.nodes();
    INFO(nodes);
    CHECK(nodes.find(std::string("a:diff/condition = ") + condition + "(a, b): bool[3]") !=
          nodes.npos);
    CHECK(nodes.find("a:diff = where(a:diff/condition, y:diff, a:diff/zero)") != nodes.npos);
    CHECK(nodes.find("b:diff = where(b:diff/condition, b:diff/zero, y:diff)") != nodes.npos);
  }
}

TEST_CASE("Watched gradients are made, and join what is watched", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.layer("dense", "d", x, {{"units", int64_t{3}}});
  maker.minimize(y);
  const ValueId aside = maker.add("relu", "aside", {x});
  maker.context.training->gradients_of = {x, aside};
  maker.run_passes("autodiff");
  REQUIRE(maker.graph.watched.size() == 1);
  CHECK(maker.graph[maker.graph.watched[0]].name == "x:diff");
  CHECK(maker.graph.gradient_of(x) == maker.graph.watched[0]);
  CHECK_FALSE(maker.graph.gradient_of(aside).valid());
}

TEST_CASE("A variable that the loss does not depend on is worth a warning, all of them an error",
          "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.layer("dense", "aside", x, {{"units", int64_t{3}}, {"use_bias", false}});
  SECTION("some") {
    maker.minimize(maker.layer("dense", "d", x, {{"units", int64_t{3}}}));
    maker.run_passes("autodiff");
    CHECK_FALSE(maker.diags.has_errors());
    CHECK(maker.messages() ==
          "`aside/weight` is not trained: the loss `d/bias_add` does not depend on it\n"
          "  hint: write `trainable: false` on its entry if this is intended\n");
  }
  SECTION("all") {
    maker.minimize(maker.add("relu", "loss", {x}));
    maker.run_passes("autodiff");
    CHECK(maker.messages() == "the loss `loss` depends on no trainable variable\n");
  }
  SECTION("all, though one is watched that does") {
    const ValueId frozen = maker.variable("frozen", {4}, false);
    maker.minimize(maker.add("add", "loss", {x, frozen}));
    maker.context.training->gradients_of = {frozen};
    maker.run_passes("autodiff");
    CHECK(maker.messages() == "the loss `loss` depends on no trainable variable\n");
  }
}

TEST_CASE("An op without a gradient between the loss and all variables is named", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.layer("dense", "d", x, {{"units", int64_t{3}}});
  const ValueId digit = maker.add("argmax", "digit", {y});
  maker.minimize(maker.add("cast", "loss", {digit}, {{"dtype", DType::kFloat32}}));
  maker.run_passes("autodiff");
  CHECK(maker.messages() == "digit: `argmax` from float32 to int64 has no gradient\n");
}

TEST_CASE("No gradient passes integers", "[passes]") {
  GraphMaker maker;
  const ValueId y = maker.layer("dense", "d", maker.input("x", {8, 4}), {{"units", int64_t{3}}});
  const ValueId whole = maker.add("cast", "whole", {y}, {{"dtype", DType::kInt32}});
  maker.minimize(maker.add("cast", "loss", {whole}, {{"dtype", DType::kFloat32}}));
  maker.run_passes("autodiff");
  CHECK(maker.messages() == "whole: `cast` from float32 to int32 has no gradient\n");
}

TEST_CASE("A loss through a port without a gradient, or of another precision, is refused",
          "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.layer("dense", "d", x, {{"units", int64_t{3}}});
  SECTION("port") {
    maker.add("sparse_softmax_cross_entropy_with_logits", "loss",
              {maker.input("labels", {8}, DType::kInt32), y});
    maker.minimize(maker.add("relu", "again", {maker.graph.find("loss.prob")}));
    maker.run_passes("autodiff");
    CHECK(maker.messages() == "`again` depends on `loss.prob`, which has no gradient\n");
  }
  SECTION("precision") {
    maker.minimize(maker.add("cast", "wide", {y}, {{"dtype", DType::kFloat64}}));
    maker.run_passes("autodiff");
    CHECK(maker.messages() ==
          "the loss `wide` is float64; expected float32, the dtype of the job\n"
          "  hint: convert with `{op: cast, dtype: float32}`\n");
  }
}

}  // namespace flow::test
