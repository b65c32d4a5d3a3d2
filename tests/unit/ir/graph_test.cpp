// The graph: look-ups, text, and what verify sees.
#include <catch2/catch.hpp>

#include "compiler/ir/call_site.h"
#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "tests/support/graph_maker.h"

namespace flow::test {

using ir::ValueId;

TEST_CASE("Values, ports and entries are found by name, also those added after a look-up", "[ir]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {1, 1, 4, 4});
  CHECK_FALSE(maker.graph.find("pool").valid());
  const ValueId y = maker.add("max_pool2d", "pool", {x}, {{"ksize", std::vector<int64_t>{2}}});
  maker.builder.alias("net", y);
  CHECK(maker.graph.find("pool") == y);
  CHECK(maker.graph.find("net") == y);
  CHECK(maker.graph.find("pool.argmax") == maker.graph[maker.graph[y].producer].results[1]);
}

TEST_CASE("An entry that is called like its value needs no alias", "[ir]") {
  GraphMaker maker;
  const ValueId y = maker.add("relu", "y", {maker.input("x", {4})});
  maker.builder.alias("y", y);
  maker.builder.alias("z", ValueId());
  CHECK(maker.graph.aliases.empty());
}

TEST_CASE("Names that are taken get a number", "[ir]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4});
  maker.add("relu", "y", {x});
  CHECK(maker.graph[maker.add("relu", "y", {x})].name == "y.2");
  CHECK(maker.graph[maker.add("relu", "y", {x})].name == "y.3");
}

TEST_CASE("A graph prints in order with all attributes", "[ir]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.builder.add_variable("w", DType::kFloat32, {4}, plan::initializers::Constant{0.5}, false,
                             false, Span());
  const ValueId y = maker.add("bias_add", "y", {x, maker.graph.find("w")});
  maker.graph.results = {y};
  maker.graph.watched = {x};
  maker.builder.alias("net", y);
  CHECK(ir::print(maker.graph) ==
        "input x: float32[8, 4] rows=0\n"
        "variable w: float32[4] = constant value=0.5, not trained\n"
        "y = bias_add(x, w) axis=1: float32[8, 4] rows=0\n"
        "alias net = y\n"
        "results y\n"
        "watched x\n");
}

TEST_CASE("A graph in shards prints how many, what they combine and what runs once", "[ir]") {
  GraphMaker maker;
  maker.graph.shards = 2;
  const ValueId sum = maker.add("reduce_sum", "sum", {maker.input("x", {8, 4})});
  maker.add("relu", "y", {sum});
  maker.graph.nodes[1].once = true;
  CHECK(ir::print(maker.graph) ==
        "shards 2\n"
        "input x: float32[8, 4] rows=0\n"
        "sum = reduce_sum(x) axes=[0, 1] keepdims=false: float32[] mixed combine=sum\n"
        "once y = relu(sum): float32[] mixed\n");
}

TEST_CASE("A node that is moved before one that runs once runs once, and no shard reads it",
          "[ir]") {
  GraphMaker maker;
  maker.graph.shards = 2;
  const ValueId x = maker.input("x", {8, 4});
  maker.add("relu", "first", {x});
  const ValueId second = maker.add("relu", "second", {x});
  maker.graph.nodes[1].once = true;
  maker.add("abs", "moved", {x});
  maker.add("abs", "last", {x});
  maker.graph.move_last({1, 2});
  for (const ir::Node& node : maker.graph.nodes) CHECK(node.once == (node.name != "first"));
  CHECK_NOTHROW(ir::verify(maker.graph));
  maker.add("tanh", "late", {second});
  CHECK(maker.graph.nodes.back().once);
  maker.graph.nodes.back().once = false;
  CHECK_THROWS_AS(ir::verify(maker.graph), Defect);
}

TEST_CASE("Verify sees broken order, shapes, names and attributes", "[ir]") {
  GraphMaker maker;
  const ValueId y = maker.add("relu", "y", {maker.input("x", {4})});
  const ValueId z = maker.add("argmax", "z", {y});
  CHECK_NOTHROW(ir::verify(maker.graph));
  const auto broken = [&](const std::function<void(ir::Graph&)>& change) {
    ir::Graph graph = maker.graph;
    change(graph);
    CHECK_THROWS_AS(ir::verify(graph), Defect);
  };
  broken([](ir::Graph& graph) { std::swap(graph.nodes[0], graph.nodes[1]); });
  broken([&](ir::Graph& graph) { graph[y].shape = {5}; });
  broken([&](ir::Graph& graph) { graph[z].batch_axis = 0; });
  broken([&](ir::Graph& graph) { graph[z].name = "y"; });
  broken([](ir::Graph& graph) { graph.nodes[1].attributes.set("axis", int64_t{-1}); });
  broken([](ir::Graph& graph) {
    graph.nodes.pop_back();
    graph.results = {ValueId(size_t{2})};
  });
}

TEST_CASE("The chain of shapes goes back entry by entry, layers as one", "[ir]") {
  GraphMaker maker;
  const std::string text = "conv2d\nmax_pool2d\nrelu\n";
  const int32_t file = maker.sources.add("net.yaml", text);
  const auto op = [&](const std::string& name) {
    AttributeSpans spans;
    const auto begin = static_cast<uint32_t>(text.find(name));
    spans.op = {file, begin, begin + static_cast<uint32_t>(name.size())};
    return spans;
  };
  const ValueId x = maker.input("images", {64, 1, 28, 28});
  ir::Attributes conv;
  conv.set("filters", int64_t{20});
  conv.set("kernel_size", std::vector<int64_t>{5});
  conv.set("activation", std::string("relu"));
  const AttributeSpans conv_spans = op("conv2d"), pool_spans = op("max_pool2d");
  const ValueId conv1 =
      maker.builder.add_layer(*ops::find_spec("conv2d"),
                              {maker.builder, "net/conv1", {x}, conv, {}, conv_spans, true, true});
  ir::Attributes pool;
  pool.set("ksize", std::vector<int64_t>{4});
  const ValueId pool1 =
      maker.builder.add(*ops::find_spec("max_pool2d"), "net/pool1", {conv1}, pool, pool_spans)
          .front();
  maker.add("matmul", "net/y", {pool1, conv1});
  CHECK(maker.messages() ==
        "net/y: cannot multiply [64, 20, 6, 6] by [64, 20, 24, 24]: 6 columns against 24 rows\n"
        "  net/pool1 is [64, 20, 6, 6] <- max_pool2d 4 (line 2) <- net/conv1 [64, 20, 24, 24] "
        "(line 1) <- images [64, 1, 28, 28]\n"
        "  net/conv1 is [64, 20, 24, 24] <- conv2d (line 1) <- images [64, 1, 28, 28]\n"
        "  hint: match the columns of the first operand to the rows of the second\n");
  ir::Attributes far;
  far.set("axis", int64_t{9});
  maker.builder.add(*ops::find_spec("argmax"), "net/z", {pool1}, far, op("relu"));
  CHECK(maker.diags.sorted().back()->notes.front() ==
        "net/pool1 is [64, 20, 6, 6] <- max_pool2d 4 (line 2) <- net/conv1 [64, 20, 24, 24] "
        "(line 1) <- images [64, 1, 28, 28]");
}

TEST_CASE("A number as an operand has the dtype that its op accepts", "[ir]") {
  GraphMaker maker;
  const ValueId number =
      maker.add("fill", "number", {},
                {{"value", 1.0}, {"shape", std::vector<int64_t>{2}}, {"dtype", DType::kInt32}});
  CHECK_FALSE(maker.add("relu", "y", {number}).valid());
  CHECK_THAT(maker.messages(), Catch::StartsWith("y: ") && Catch::Contains("int32"));
}

}  // namespace flow::test
