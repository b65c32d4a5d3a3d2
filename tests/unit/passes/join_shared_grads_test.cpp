// The gradient of a weight that several products read: one product, where that copies less.
#include <catch2/catch.hpp>

#include "tests/support/graph_maker.h"
#include "tests/support/sanitized.h"

namespace flow::test {
namespace {

using ir::ValueId;

/// Cells c0, c1, ... on one weight and bias, each reading the one before.
struct ChainOfCells {
  GraphMaker maker;
  ValueId weight, bias, last;

  ChainOfCells(int64_t rows, int64_t units, int cells)
      : weight(maker.variable("w", {units, units})), bias(maker.variable("b", {units})) {
    last = maker.input("x", {rows, units});
    for (int i = 0; i < cells; ++i) add_cell("c" + std::to_string(i));
  }

  void add_cell(const std::string& name) {
    const ValueId y = maker.add("matmul", name, {last, weight}, {{"transpose_b", true}});
    last = maker.add("tanh", name + "/tanh", {maker.add("bias_add", name + "/bias", {y, bias})});
  }

  void minimize() { maker.minimize(maker.add("reduce_sum", "loss", {last})); }

  std::string op_of_gradient(ValueId value) const {
    return std::string(maker.graph.producer_of(maker.graph.gradient_of(value))->op->name);
  }
};

}  // namespace

TEST_CASE("The gradient of a weight that several products read is one product", "[passes]") {
  ChainOfCells cells(2, 8, 3);
  cells.minimize();
  cells.maker.run_passes("join_shared_grads");
  const std::string nodes = cells.maker.nodes();
  CHECK_THAT(nodes, Catch::Contains("b:diff/rows = concat(c2/bias:diff, c1/bias:diff, "
                                    "c0/bias:diff) axis=0: float32[6, 8]"));
  CHECK_THAT(nodes, Catch::Contains("b:diff = bias_add_grad(b:diff/rows) axis=1: float32[8]"));
  CHECK_THAT(nodes, Catch::Contains("w:diff/rows = concat(c1/tanh, c0/tanh, x) axis=0: "
                                    "float32[6, 8]"));
  CHECK_THAT(nodes, Catch::Contains("w:diff = matmul(b:diff/rows, w:diff/rows) "));
  CHECK_THAT(nodes, !Catch::Contains(" = add("));
}

TEST_CASE("Products are joined where that copies no more than their sum writes", "[passes]") {
  const auto is_joined = [](int64_t rows, int cells) {
    ChainOfCells chain(rows, 8, cells);
    chain.minimize();
    chain.maker.run_passes("join_shared_grads");
    const bool joined = chain.op_of_gradient(chain.weight) == "matmul";
    CHECK(chain.op_of_gradient(chain.bias) == (joined ? "bias_add_grad" : "add"));
    return joined;
  };
  CHECK(is_joined(2, 2));        // 64 elements are copied, and 64 written
  CHECK_FALSE(is_joined(3, 2));  // 96 and 64
  CHECK(is_joined(3, 4));        // 192 and 192
  CHECK_FALSE(is_joined(4, 4));  // 256 and 192
}

TEST_CASE("Sums of more than products, or of those of another device, stay sums", "[passes]") {
  ChainOfCells cells(1, 8, 2);
  SECTION("more") {
    const ValueId square = cells.maker.add("square", "square", {cells.weight});
    cells.last = cells.maker.add("add", "sum", {cells.last, square});
  }
  SECTION("another device") {
    cells.maker.builder.place_on(plan::DeviceKind::kGpu);
    cells.add_cell("elsewhere");
  }
  cells.minimize();
  cells.maker.run_passes("join_shared_grads");
  CHECK(cells.op_of_gradient(cells.weight) == "add");
}

TEST_CASE("A sum stays a sum when one of its products has another reader", "[passes]") {
  const bool has_reader = GENERATE(false, true);
  GraphMaker maker;
  const auto product = [&](const std::string& name) {
    return maker.add("matmul", name,
                     {maker.input(name + "/a", {2, 8}), maker.input(name + "/b", {2, 8})},
                     {{"transpose_a", true}});
  };
  const ValueId first = product("p"), sum = maker.add("add", "sum", {first, product("q")});
  maker.graph.results = {sum};
  if (has_reader) maker.graph.results.push_back(maker.add("tanh", "reader", {first}));
  maker.run_passes("join_shared_grads");
  CHECK(maker.graph.producer_of(sum)->op->name == (has_reader ? "add" : "matmul"));
}

TEST_CASE("A product of a variable, which may be updated before the sum is made, is added to it",
          "[passes]") {
  GraphMaker maker;
  const ValueId weight = maker.variable("w", {8, 8}), first = maker.variable("v", {2, 8});
  ValueId y = first;
  for (const char* name : {"c0", "c1", "c2"})
    y = maker.add("tanh", std::string(name) + "/tanh",
                  {maker.add("matmul", name, {y, weight}, {{"transpose_b", true}})});
  maker.minimize(maker.add("reduce_sum", "loss", {y}));
  maker.run_passes("join_shared_grads");
  const ir::Node& sum = *maker.graph.producer_of(maker.graph.gradient_of(weight));
  CHECK(sum.op->name == "add");
  CHECK(maker.graph.producer_of(sum.operands[0])->op->name == "matmul");
  CHECK_THAT(maker.nodes(), Catch::Contains(" = concat(c1/tanh, c0/tanh) axis=0"));
}

TEST_CASE("A regularizer is added to the gradient that is one product", "[passes]") {
  ChainOfCells cells(2, 8, 3);
  cells.maker.graph.variables[0].l2 = 0.1;
  cells.minimize();
  cells.maker.run_passes("join_shared_grads");
  CHECK(cells.op_of_gradient(cells.weight) == "matmul");
}

TEST_CASE("Watching decides nothing about which products are joined", "[passes]") {
  const auto joined = [](bool watch) {
    ChainOfCells cells(2, 8, 3);
    cells.minimize();
    if (watch) cells.maker.context.training->gradients_of = {cells.weight, cells.last};
    cells.maker.run_passes("join_shared_grads");
    return cells.maker.nodes();
  };
  CHECK(joined(true) == joined(false));
}

TEST_CASE("Thousands of cells are joined too", "[passes]") {
  constexpr int kCells = 5'000 / kCasesPerTried;
  ChainOfCells cells(1, 4, kCells);
  cells.minimize();
  cells.maker.run_passes("join_shared_grads");
  const ir::Node& product =
      *cells.maker.graph.producer_of(cells.maker.graph.gradient_of(cells.weight));
  CHECK(cells.maker.graph[product.operands[0]].shape == Shape{kCells, 4});
}

}  // namespace flow::test
