// The batch cut into shards: what each computes, what runs once, and what is refused.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/graph_maker.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::ValueId;
using plan::Combine;

/// A graph whose batches have two shards.
struct ShardMaker : GraphMaker {
  ShardMaker() { graph.shards = 2; }

  void cut() {
    run_passes("cut_shards");
    CHECK(messages().empty());
  }
  const ir::Value& value(const std::string& name) const {
    INFO(name);
    const ValueId id = graph.find(name);
    REQUIRE(id.valid());
    return graph[id];
  }
  const ir::Node* find_node(const std::string& name) const {
    const auto found = std::ranges::find(graph.nodes, name, &ir::Node::name);
    return found == graph.nodes.end() ? nullptr : &*found;
  }
  const ir::Node& node(const std::string& name) const {
    INFO(name);
    REQUIRE(find_node(name));
    return *find_node(name);
  }
  std::vector<std::string> once() const {
    std::vector<std::string> names;
    for (const ir::Node& each : graph.nodes)
      if (each.once) names.push_back(each.name);
    return names;
  }
};

ValueId relu_layer(GraphMaker& maker, const std::string& name, ValueId in) {
  return maker.layer("dense", name, in,
                     {{"units", int64_t{4}}, {"activation", std::string("relu")}});
}

}  // namespace

TEST_CASE("Each shard has its rows of activations and its part of gradients", "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  maker.cut();
  CHECK(maker.value("x").shape == Shape{4, 3});
  CHECK(maker.value("d/matmul").shape == Shape{4, 4});
  CHECK(maker.value("loss").batch_axis == 0);
  CHECK_FALSE(maker.value("loss").combine);
  CHECK(maker.value("d/weight").shape == Shape{4, 3});
  CHECK(maker.value("d/weight:diff").shape == Shape{4, 3});
  CHECK(maker.value("d/weight:diff").combine == Combine::kSum);
  CHECK(maker.value("d/bias:diff").combine == Combine::kSum);
  CHECK(maker.value("minimize/mean_loss").combine == Combine::kMean);
  CHECK_FALSE(maker.value("d/weight:update").combine);
}

TEST_CASE("Updates run once, behind all that shards run, on gradients of the whole batch",
          "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  maker.cut();
  CHECK(maker.once() == std::vector<std::string>{"d/bias:update", "d/weight:update"});
  CHECK(std::ranges::is_partitioned(maker.graph.nodes,
                                    [](const ir::Node& node) { return !node.once; }));
  // 1 / 32 elements of the loss, not 1 / 16.
  CHECK(maker.node("d/weight:update").attributes.get<double>("scale") == 1.0 / 32);
  CHECK(maker.context.loss_elements == 32);
}

TEST_CASE("No update is fused onto a product that makes a part of its gradient", "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  maker.run_passes();
  CHECK(maker.find_node("d/weight:update"));
}

TEST_CASE("One shard leaves a graph as it is", "[passes]") {
  const auto nodes = [](const char* last) {
    GraphMaker maker;
    maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
    maker.run_passes(last);
    return maker.nodes();
  };
  CHECK(nodes("remove_dead") == nodes("cut_shards"));
}

TEST_CASE("The gradient of the loss is made for the rows of a shard", "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  maker.cut();
  CHECK(maker.value("loss:diff:shard0").shape == Shape{4, 4});
  CHECK_FALSE(maker.find_node("loss:diff"));
}

TEST_CASE("The gradient of a mean is cut with all that it is made from", "[passes]") {
  ShardMaker maker;
  const ValueId y = relu_layer(maker, "d", maker.input("x", {8, 3}));
  const ValueId rows = maker.add("reduce_mean", "rows", {y}, {{"axis", Integers{1}}});
  maker.minimize(maker.add("reduce_mean", "loss", {rows}));
  maker.cut();
  CHECK(maker.value("d/bias_add:diff").shape == Shape{4, 4});
  CHECK(maker.value("loss").combine == Combine::kMean);
  // Of the whole batch: 8 rows of 4.
  double factor = 1;
  for (const ir::Node& node : maker.graph.nodes)
    if (const auto* found = node.attributes.find("factor")) factor *= std::get<double>(*found);
  CHECK(factor == 1.0 / 32);
}

TEST_CASE("A dynamic loss scale reaches each shard and moves once", "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  maker.context.training->job = "train";
  maker.context.training->loss_scale = passes::LossScale{.initial = 1024, .dynamic = true};
  maker.cut();
  CHECK(maker.value("loss:diff:shard0").shape == Shape{4, 4});
  CHECK(maker.node("minimize/unscale_factor").once);
  CHECK(maker.node("minimize/move_loss_scale").once);
}

TEST_CASE("Batch normalization is of each shard, and its statistics are averaged", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 1, 6, 6});
  const ValueId conv =
      maker.layer("conv2d", "conv", x, {{"filters", int64_t{2}}, {"kernel_size", Integers{3}}});
  const ValueId norm = maker.layer("batch_normalization", "norm", conv);
  const ValueId pool = maker.add("max_pool2d", "pool", {norm}, {{"ksize", Integers{2}}});
  const ValueId drop = maker.layer("dropout", "drop", pool, {{"rate", 0.5}});
  maker.minimize(maker.add("square", "loss", {drop}));
  maker.cut();
  CHECK(maker.value("norm/normalize").shape == Shape{4, 2, 4, 4});
  CHECK(maker.value("norm/normalize").batch_axis == 0);
  CHECK(maker.value("norm/normalize.mean").combine == Combine::kMean);
  CHECK(maker.value("norm/gamma:diff").combine == Combine::kSum);
  const ir::Node& moved = maker.node("norm/moving_mean:update");
  CHECK(moved.once);
  CHECK(moved.attributes.get<double>("unbias") == 64.0 / 63);
  CHECK(maker.value("conv/weight:diff").combine == Combine::kSum);
  CHECK(maker.graph[maker.graph.find("x")].shape == Shape{4, 1, 6, 6});
}

TEST_CASE("Synchronized batch normalization counts the elements of the whole batch", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.layer("dense", "d", maker.input("x", {8, 3}), {{"units", int64_t{2}}});
  const ValueId norm = maker.layer("batch_normalization", "norm", x, {{"synchronized", true}});
  maker.minimize(maker.add("square", "loss", {norm}));
  maker.cut();
  CHECK(maker.node("norm/normalize").attributes.get<bool>("synchronized"));
  CHECK(maker.node("norm/moving_mean:update").attributes.get<double>("unbias") == 8.0 / 7);
  CHECK(maker.value("norm/normalize.variance").combine == Combine::kMean);
}

TEST_CASE("Rows are cut along the axis on which they lie", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 3, 2});
  const ValueId turned = maker.add("transpose", "turned", {x}, {{"perm", Integers{1, 0, 2}}});
  const ValueId flat = maker.add("reshape", "flat", {turned}, {{"shape", Integers{3, 16}}});
  const ValueId part =
      maker.add("slice", "part", {turned}, {{"index", std::string("[1, :, None]")}});
  maker.graph.results = {flat, part};
  maker.cut();
  CHECK(maker.value("turned").shape == Shape{3, 4, 2});
  CHECK(maker.value("flat").shape == Shape{3, 8});
  CHECK(maker.node("flat").attributes.get<Integers>("shape") == Integers{3, 8});
  CHECK(maker.value("part").shape == Shape{4, 1, 2});
  CHECK(maker.node("part").attributes.get<Integers>("counts") == Integers{1, 4, 2});
}

TEST_CASE("Sums, means and extremes over the batch are combined, and linear ops keep them",
          "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 3});
  const ValueId sum = maker.add("reduce_sum", "sum", {x});
  const ValueId count = maker.add("fill", "count", {}, {{"value", 24.0}, {"shape", Integers{}}});
  maker.graph.results = {
      maker.add("divide", "accuracy", {sum, count}),
      maker.add("reduce_mean", "mean", {x}, {{"axis", Integers{0}}}),
      maker.add("reduce_max", "most", {x}),
      maker.add("reduce_min", "least", {x}),
      maker.add("matmul", "gram", {x, x}, {{"transpose_a", true}}),
      maker.add("add", "both",
                {sum, maker.add("reduce_sum", "other", {maker.add("abs", "a", {x})})})};
  maker.cut();
  CHECK(maker.value("accuracy").combine == Combine::kSum);
  CHECK(maker.value("mean").combine == Combine::kMean);
  CHECK(maker.value("most").combine == Combine::kMax);
  CHECK(maker.value("least").combine == Combine::kMin);
  CHECK(maker.value("gram").combine == Combine::kSum);
  CHECK(maker.value("gram").shape == Shape{3, 3});
  CHECK(maker.value("both").combine == Combine::kSum);
  CHECK(maker.once().empty());
}

TEST_CASE("A part of the loss that does not depend on the batch is added once", "[passes]") {
  ShardMaker maker;
  const ValueId rows = relu_layer(maker, "d", maker.input("x", {8, 3}));
  const ValueId loss = maker.add("reduce_mean", "loss", {rows});
  const ValueId squares = maker.add("square", "squares", {maker.graph.find("d/weight")});
  const ValueId penalty = maker.add("reduce_mean", "penalty", {squares});
  maker.minimize(loss);
  maker.context.training->losses.push_back({penalty, "penalty", Span()});
  maker.cut();
  CHECK(maker.value("loss").combine == Combine::kMean);
  CHECK_FALSE(maker.value("penalty").combine);
  CHECK(maker.node("minimize/mean_loss").once);
  CHECK_FALSE(maker.value("minimize/mean_loss").combine);
  CHECK(maker.node("d/weight:diff").once);
  CHECK_FALSE(maker.value("d/weight:diff").combine);
  CHECK(maker.value("d/bias:diff").combine == Combine::kSum);
}

TEST_CASE("Gradients are clipped and regularized once they are whole", "[passes]") {
  ShardMaker maker;
  maker.minimize(maker.add("square", "loss", {relu_layer(maker, "d", maker.input("x", {8, 3}))}));
  for (ir::Variable& variable : maker.graph.variables) variable.l2 = 0.1;
  maker.context.training->clip_norm = 1;
  maker.context.training->clip_value = 0.5;
  maker.cut();
  CHECK(maker.node("minimize/clip_factor").once);
  for (const std::string name : {"d/weight", "d/bias"}) {
    CHECK(maker.value(name + ":diff").combine == Combine::kSum);
    CHECK(maker.node(name + ":regularized").once);
    CHECK(maker.node(name + ":clipped").once);
  }
}

TEST_CASE("An optimizer that needs norms of whole gradients runs once", "[passes]") {
  const plan::Plan plan = flow::plan_of(
      "flow: 1\njobs:\n  j:\n    type: train\n    shards: 4\n"
      "    inputs: {x: {shape: [8, 3], dtype: float32}}\n"
      "    graph:\n      d: {op: dense, units: 2, in: x}\n      loss: {op: square, in: d}\n"
      "    optimizer: {type: lamb, learning_rate: 0.1, minimize: loss}\n");
  const plan::Job& job = plan.jobs[0];
  REQUIRE(job.sharding);
  CHECK(job.sharding->count == 4);
  for (size_t i = 0; i < job.steps.size(); ++i)
    CHECK((job.steps[i].op == "lamb_update") == (i >= job.sharding->steps.index()));
}

TEST_CASE("What is per shard is made of the rows of each shard", "[passes]") {
  ShardMaker maker;
  maker.builder.compute_per_shard(ir::PerShard::kWhereAsked);
  const ValueId x = maker.input("x", {8, 3});
  const ValueId share = maker.add("softmax", "share", {x}, {{"axis", int64_t{0}}});
  const ValueId most = maker.add("reduce_max", "most", {x}, {{"axis", Integers{0}}});
  const ValueId last = maker.add("slice", "last", {x}, {{"index", std::string("[-1]")}});
  const ValueId pairs = maker.add("matmul", "pairs", {x, x}, {{"transpose_b", true}});
  const ValueId below = maker.add("subtract", "below", {x, most});
  const ValueId y = maker.add("relu", "y", {x});
  for (const ValueId own : {most, last, pairs}) CHECK(maker.graph.is_own(own));
  CHECK(maker.graph[share].shape == Shape{8, 3});
  CHECK(maker.graph[pairs].shape == Shape{4, 4});
  maker.graph.results = {share, most, last, pairs, below, y};
  maker.cut();
  CHECK(maker.value("share").shape == Shape{4, 3});
  CHECK(maker.value("share").batch_axis == 0);
  CHECK(maker.value("below").shape == Shape{4, 3});
  CHECK(maker.node("last").attributes.get<Integers>("starts") == Integers{3, 0});
  CHECK(maker.node("below").per_shard);
  CHECK_FALSE(maker.node("y").per_shard);
  CHECK(maker.once().empty());
}

TEST_CASE("A loss of each shard gives parts of gradients, and its mean is minimized", "[passes]") {
  ShardMaker maker;
  const ValueId y = relu_layer(maker, "d", maker.input("x", {8, 3}));
  maker.builder.compute_per_shard(ir::PerShard::kWhereAsked);
  const ValueId most = maker.add("reduce_max", "most", {y}, {{"axis", Integers{0}}});
  const ValueId off = maker.add("subtract", "off", {y, most});
  maker.minimize(maker.add("reduce_mean", "loss", {off}));
  maker.cut();
  CHECK(maker.value("loss").combine == Combine::kMean);
  CHECK(maker.node("loss:diff").attributes.get<double>("value") == 0.5);
  CHECK(maker.value("d/weight:diff").combine == Combine::kSum);
  CHECK(maker.value("d/bias:diff").combine == Combine::kSum);
  CHECK(maker.value("d/relu:diff").shape == Shape{4, 4});
  CHECK(maker.value("d/relu:diff").batch_axis == 0);
}

TEST_CASE("What all shards share and each reads for itself has a sum of gradients", "[passes]") {
  ShardMaker maker;
  maker.builder.compute_per_shard(ir::PerShard::kWhereAsked);
  const ValueId w = maker.variable("w", {3});
  const ValueId x = maker.input("x", {8, 3});
  const ValueId most = maker.add("reduce_max", "most", {x}, {{"axis", Integers{0}}});
  const ValueId sum = maker.add("add", "sum", {most, w});
  maker.minimize(maker.add("reduce_mean", "loss", {sum}));
  maker.cut();
  CHECK(maker.value("w:diff").combine == Combine::kSum);
  CHECK(maker.value("w:diff").shape == Shape{3});
}

TEST_CASE("Gradients of weights read gradients of weights once these are whole", "[passes]") {
  ShardMaker maker;
  const ValueId w = maker.variable("w", {3}), v = maker.variable("v", {3});
  const ValueId most = maker.add("maximum", "most", {w, v});
  maker.minimize(maker.add("multiply", "loss", {maker.input("x", {8, 3}), most}));
  maker.cut();
  CHECK(maker.value("most:diff").combine == Combine::kSum);
  CHECK(maker.node("w:diff").once);
  CHECK(maker.node("v:diff").once);
}

TEST_CASE("A constant is cut next to rows, and whole where it is returned", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 3});
  const ValueId ones = maker.add("fill", "ones", {}, {{"value", 1.0}, {"shape", Integers{8, 1}}});
  const ValueId weights =
      maker.add("broadcast_to", "weights", {maker.variable("w", {3})}, {{"shape", Integers{8, 3}}});
  const ValueId y = maker.add("add", "y", {maker.add("multiply", "scaled", {x, ones}), weights});
  maker.graph.results = {y, ones};
  maker.cut();
  CHECK(maker.value("y").shape == Shape{4, 3});
  CHECK(maker.value("ones").shape == Shape{8, 1});
  CHECK(maker.value("ones:shard0").shape == Shape{4, 1});
  CHECK(maker.value("weights:shard0").shape == Shape{4, 3});
  CHECK_FALSE(maker.find_node("weights"));
}

TEST_CASE("Next to rows, a variable as long as the batch is read by their numbers", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 3});
  const ValueId w = maker.variable("w", {8, 3});
  const ValueId y = maker.add("add", "y", {x, w});
  maker.minimize(maker.add("multiply", "loss", {y, w}));
  maker.cut();
  CHECK(maker.value("batch:rows").shape == Shape{4});
  CHECK(maker.value("w:rows0").shape == Shape{4, 3});
  CHECK(maker.node("y").operands[1] == maker.graph.find("w:rows0"));
  CHECK(maker.node("loss").operands[1] == maker.graph.find("w:rows0"));
  CHECK(maker.value("w:diff").shape == Shape{8, 3});
  CHECK(maker.value("w:diff").combine == Combine::kSum);
}

TEST_CASE("A value whose rows follow one another is computed whole, and sliced", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8});
  const ValueId ones = maker.add("fill", "ones", {}, {{"value", 1.0}, {"shape", Integers{8}}});
  const ValueId numbers = maker.add("cumsum", "numbers", {ones}, {{"axis", int64_t{0}}});
  maker.graph.results = {maker.add("add", "y", {x, numbers})};
  maker.cut();
  CHECK(maker.value("numbers").shape == Shape{8});
  CHECK(maker.value("numbers:rows0").shape == Shape{4});
}

TEST_CASE("A variable with several slices for each row cannot be cut", "[passes]") {
  ShardMaker maker;
  const ValueId x = maker.input("x", {8, 2, 3});
  const ValueId rows = maker.add("reshape", "rows", {x}, {{"shape", Integers{16, 3}}});
  maker.graph.results = {maker.add("add", "y", {rows, maker.variable("w", {16, 3})})};
  maker.run_passes("cut_shards");
  CHECK_THAT(maker.messages(), Catch::StartsWith("y: `w` [16, 3] has a slice for each row"));
}

TEST_CASE("One error is reported where many values follow from it", "[passes]") {
  ShardMaker maker;
  const ValueId y = relu_layer(maker, "d", maker.input("x", {8, 3}));
  const ValueId mixed = maker.add("softmax", "mixed", {y}, {{"axis", int64_t{0}}});
  maker.minimize(maker.add("square", "loss", {mixed}));
  maker.run_passes("cut_shards");
  CHECK(maker.diags.error_count() == 1);
  CHECK_THAT(maker.messages(), Catch::StartsWith("mixed: `softmax` works along the batch axis"));
}

TEST_CASE("A gradient that reads no whole value runs on each shard, watched or not", "[passes]") {
  const auto shown = [](bool watch) {
    ShardMaker maker;
    const ValueId y = relu_layer(maker, "d", maker.input("x", {8, 3}));
    maker.minimize(maker.add("square", "loss", {y}));
    if (watch) {
      maker.context.training->gradients_of = {y, maker.graph.find("d/weight"),
                                              maker.graph.find("x")};
      maker.graph.watched = {y, maker.graph.find("d/bias_add")};
    }
    maker.cut();
    if (watch) CHECK(maker.value("x:diff").shape == Shape{4, 3});
    std::string main_path;
    for (const ir::Node& node : maker.graph.nodes)
      if (!node.probe) main_path += node.name + "\n";
    return main_path;
  };
  CHECK(shown(true) == shown(false));
}

}  // namespace flow::test
