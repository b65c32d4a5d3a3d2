// From graph to plan: tensors, steps, probes, aliases.
#include <catch2/catch.hpp>

#include <algorithm>

#include "compiler/lower/lower.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/lifetimes.h"
#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;
using ir::ValueId;

struct Planned {
  plan::Job job;
  Lowered lowered;

  const plan::Step& step(const std::string& name) const {
    const auto found = std::ranges::find(job.steps, name, &plan::Step::name);
    REQUIRE(found != job.steps.end());
    return *found;
  }
  bool has_step(const std::string& name) const {
    return std::ranges::find(job.steps, name, &plan::Step::name) != job.steps.end();
  }
  const plan::Tensor& tensor(const std::string& name) const {
    const auto found = std::ranges::find(job.tensors, name, &plan::Tensor::name);
    REQUIRE(found != job.tensors.end());
    return *found;
  }
  std::string alias_of(const std::string& name) const {
    const plan::TensorId alias = tensor(name).alias;
    return alias.valid() ? job[alias].name : "";
  }
  std::vector<std::string> order() const {
    std::vector<std::string> names;
    for (const plan::Step& each : job.steps) names.push_back(each.name);
    return names;
  }
};

/// Passes, lowering, and the plan check with everything delivered.
Planned plan_of(GraphMaker& maker) {
  maker.run_passes();
  REQUIRE(maker.messages().empty());
  Planned made;
  made.lowered = lower(maker.graph, maker.sources, made.job);
  made.job.name = "test";
  made.job.train = maker.context.training.has_value();
  made.job.devices = maker.graph.shards;
  const auto tensor = [&](ValueId id) { return made.lowered.tensor_of[id.index()]; };
  for (const ValueId input : maker.graph.inputs)
    made.job.inputs.push_back({tensor(input), plan::FromCommandLine{}, "", ""});
  if (made.job.train) {
    plan::Optimizer optimizer;
    optimizer.type = "sgd";
    optimizer.loss = tensor(maker.context.mean_loss);
    optimizer.loss_name = maker.context.training->loss_name();
    optimizer.learning_rate = {plan::schedules::Constant{0.1}};
    made.job.optimizer = optimizer;
  }
  int number = 0;
  for (const ValueId watched : maker.graph.watched) {
    plan::Hook hook;
    hook.name = "hook" + std::to_string(number++);
    hook.tensor = tensor(watched);
    hook.steps = {{0, 1, 1}};
    hook.sinks = {plan::NoSink{}};
    made.job.hooks.push_back(std::move(hook));
  }
  plan::assign_lifetimes(made.job);
  plan::Plan plan;
  plan.jobs.push_back(made.job);
  plan::check(plan, "test");
  return made;
}

ValueId dense(GraphMaker& maker, const std::string& name, ValueId in) {
  return maker.layer("dense", name, in,
                     {{"units", int64_t{4}}, {"activation", std::string("relu")}});
}

}  // namespace

TEST_CASE("A fused step carries its posts and makes the last value", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.graph.results = {dense(maker, "d", x)};
  const Planned made = plan_of(maker);
  REQUIRE(made.job.steps.size() == 1);
  const plan::Step& step = made.step("d/matmul");
  REQUIRE(step.epilogue.size() == 2);
  CHECK(step.epilogue[0].op == "bias_add");
  CHECK(step.epilogue[0].name == "d/bias_add");
  CHECK(step.epilogue[1].op == "relu");
  CHECK(made.job[step.outputs[0]].name == "d/relu");
  CHECK(made.job[step.outputs[0]].batch_axis == 0);
  CHECK_FALSE(made.lowered.tensor_of[maker.graph.find("d/matmul").index()].valid());
}

TEST_CASE("A second result that nobody reads has no tensor", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {1, 1, 4, 4});
  const ValueId pool = maker.add("max_pool2d", "pool", {x}, {{"ksize", Integers{2}}});
  maker.graph.results = {pool};
  SECTION("unread") {
    const Planned made = plan_of(maker);
    REQUIRE(made.step("pool").outputs.size() == 2);
    CHECK_FALSE(made.step("pool").outputs[1].valid());
  }
  SECTION("watched") {
    maker.graph.watched = {maker.graph.find("pool.argmax")};
    const Planned made = plan_of(maker);
    CHECK(made.job[made.step("pool").outputs[1]].name == "pool.argmax");
  }
}

TEST_CASE("A value inside a fused step is delivered by a tap before it", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.graph.results = {dense(maker, "d", x)};
  maker.graph.watched = {maker.graph.find("d/matmul"), maker.graph.find("d/bias_add")};
  const Planned made = plan_of(maker);
  CHECK(made.order() == std::vector<std::string>{"d/matmul:tap", "d/bias_add:tap", "d/matmul"});
  CHECK(made.step("d/matmul:tap").epilogue.empty());
  CHECK(made.step("d/matmul:tap").probe);
  CHECK(made.step("d/bias_add:tap").op == "matmul");
  CHECK(made.step("d/bias_add:tap").epilogue.size() == 1);
  CHECK_FALSE(made.step("d/matmul").probe);
  CHECK(made.job[made.step("d/bias_add:tap").outputs[0]].name == "d/bias_add");
}

TEST_CASE("A watched node that reads a fused value reads its tap", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.graph.results = {dense(maker, "d", x)};
  maker.graph.watched = {maker.add("argmax", "largest", {maker.graph.find("d/matmul")})};
  const Planned made = plan_of(maker);
  CHECK(made.order() == std::vector<std::string>{"d/matmul:tap", "d/matmul", "largest"});
  CHECK(made.step("largest").probe);
  CHECK(made.step("largest").inputs == made.step("d/matmul:tap").outputs);
}

TEST_CASE("A watched gradient is tapped beside its fused update, which stays as it was",
          "[lower]") {
  const auto train = [](bool watch) {
    GraphMaker maker;
    const ValueId x = maker.input("x", {8, 4});
    maker.minimize(dense(maker, "b", dense(maker, "a", x)));
    if (watch) maker.context.training->gradients_of = {maker.graph.find("b/weight")};
    return plan_of(maker);
  };
  const Planned plain = train(false), watched = train(true);
  REQUIRE(watched.has_step("b/weight:diff:tap"));
  CHECK(watched.step("b/weight:diff:tap").epilogue.empty());
  CHECK(watched.job[watched.step("b/weight:diff:tap").outputs[0]].name == "b/weight:diff");
  CHECK(watched.step("b/weight:diff").epilogue.size() == 1);
  std::vector<std::string> without_probes;
  for (const plan::Step& step : watched.job.steps)
    if (!step.probe) without_probes.push_back(step.name);
  CHECK(without_probes == plain.order());
}

TEST_CASE("Updated variables lie in the variable's memory", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  maker.minimize(dense(maker, "a", x));
  maker.context.training->update = "momentum_update";
  maker.context.training->attributes.set("momentum", 0.5);
  const Planned made = plan_of(maker);
  CHECK(made.alias_of("a/weight:update") == "a/weight");
  CHECK(made.alias_of("a/weight:update.momentum") == "a/weight/momentum");
}

TEST_CASE("Reshapes and elementwise steps may lie in their operand's memory", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 2, 2});
  const ValueId w = maker.variable("w", {4, 1});
  const ValueId flat = maker.layer("flatten", "flat", x);
  const ValueId bias = maker.add("reshape", "bias", {w}, {{"shape", Integers{4}}});
  const ValueId sum = maker.add("add", "sum", {flat, bias});
  const ValueId first = maker.add("relu", "first", {sum});
  const ValueId second = maker.add("relu", "second", {first});
  const ValueId third = maker.add("relu", "third", {second});
  maker.graph.results = {maker.add("add", "y", {third, second}), first};
  const Planned made = plan_of(maker);
  CHECK(made.alias_of("flat") == "x");
  CHECK(made.alias_of("bias") == "");      // a variable is written in place
  CHECK(made.alias_of("first") == "sum");  // the last to read it
  CHECK(made.alias_of("second") == "");    // `first` is returned
  CHECK(made.alias_of("third") == "");     // `second` is read again
}

TEST_CASE("Nothing is overwritten through a reshape that is read later", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = maker.add("add", "y", {x, x});
  const ValueId flat = maker.add("reshape", "flat", {y}, {{"shape", Integers{32}}});
  const ValueId positive = maker.add("relu", "positive", {flat});
  const ValueId sum = maker.add("reduce_sum", "sum", {y});
  maker.graph.results = {positive, sum};
  const Planned made = plan_of(maker);
  CHECK(made.alias_of("flat") == "y");
  CHECK(made.alias_of("positive") == "");
}

TEST_CASE("Nothing is overwritten that a later step's epilogue reads", "[lower]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4, 4});
  const ValueId bias = maker.add("sigmoid", "bias", {maker.variable("v", {4})});
  const ValueId positive = maker.add("relu", "positive", {bias});
  const ValueId product = maker.add("matmul", "product", {x, maker.variable("w", {4, 4})});
  maker.graph.results = {positive, maker.add("bias_add", "y", {product, bias})};
  const Planned made = plan_of(maker);
  CHECK(made.job.steps.back().epilogue.size() == 1);
  CHECK(made.alias_of("positive") == "");
}

TEST_CASE("The plan says which steps shards run, and what is combined behind them", "[lower]") {
  GraphMaker maker;
  maker.graph.shards = 2;
  const ValueId x = maker.input("x", {8, 4});
  const ValueId y = dense(maker, "d", x);
  const ValueId most = maker.add("reduce_max", "most", {y});
  const ValueId seen = maker.add("reduce_sum", "seen", {y});
  const ValueId unseen = maker.add("reduce_sum", "unseen", {y});
  maker.graph.results = {most, maker.add("scale", "half", {unseen}, {{"factor", 0.5}})};
  maker.graph.watched = {seen, y};
  maker.minimize(maker.add("square", "loss", {y}));
  const Planned made = plan_of(maker);
  REQUIRE(made.job.sharding);
  CHECK(made.job.sharding->count == 2);
  const auto order = made.order();
  const auto border = order.begin() + static_cast<std::ptrdiff_t>(made.job.sharding->steps.index());
  CHECK(std::vector<std::string>(border, order.end()) ==
        std::vector<std::string>{"d/bias:update", "d/weight:update"});
  CHECK(made.tensor("x").shape == Shape{4, 4});
  CHECK(made.tensor("d/weight:diff").combine == plan::Combine::kSum);
  CHECK(made.tensor("minimize/mean_loss").combine == plan::Combine::kMean);
  CHECK(made.tensor("most").combine == plan::Combine::kMax);
  CHECK(made.tensor("seen").combine == plan::Combine::kSum);
  CHECK(made.tensor("half").combine == plan::Combine::kSum);
  CHECK_FALSE(made.tensor("unseen").combine);
  CHECK_FALSE(made.tensor("d/relu").combine);
}

TEST_CASE("A job in one shard says nothing of shards", "[lower]") {
  GraphMaker maker;
  maker.minimize(maker.add("square", "loss", {dense(maker, "d", maker.input("x", {8, 4}))}));
  const Planned made = plan_of(maker);
  CHECK_FALSE(made.job.sharding);
  for (const plan::Tensor& tensor : made.job.tensors) CHECK_FALSE(tensor.combine);
}

TEST_CASE("A step says where the file asked for it", "[lower]") {
  GraphMaker maker;
  const int32_t file = maker.sources.add("net.yaml", "a\nbc: relu\n");
  const ValueId x = maker.input("x", {8, 4});
  const Span at{file, 6, 10};
  maker.graph.results = {maker.builder.add("relu", "y", {x}, {}, at)};
  const Planned made = plan_of(maker);
  CHECK(made.step("y").where == "net.yaml:2:5");
  CHECK(made.tensor("y").where == "net.yaml:2:5");
}

TEST_CASE("Ten thousand nodes compile in no time", "[lower]") {
  GraphMaker maker;
  ValueId value = maker.input("x", {2, 2});
  for (int i = 0; i < 2500; ++i) value = dense(maker, "d" + std::to_string(i), value);
  maker.minimize(value);
  for (const passes::Pass& pass : passes::pipeline())
    pass.run(maker.graph, maker.context, maker.diags);
  plan::Job job;
  lower(maker.graph, maker.sources, job);
  CHECK(job.steps.size() > 10000);
}

}  // namespace flow::test
