// Ops of shape and data as a job file calls them: ports, lists of operands, attributes of their
// own, variables, and what gradients pass through.
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

std::string data_job(const std::string& graph, const std::string& value) {
  return "flow: 1\njobs:\n  j:\n    type: predict\n    inputs:\n"
         "      x: {shape: [4, 3, 6], dtype: float32}\n      n: {shape: [4], dtype: int32}\n"
         "    graph:\n" +
         graph + "    returns: {value: " + value + "}\n";
}

/// Trains w [3] on the loss that `graph` makes.
std::string train_with(const std::string& graph) {
  return "flow: 1\njobs:\n  j:\n    type: train\n    inputs: {n: {shape: [4], dtype: int32}}\n"
         "    graph:\n      w: {op: variable, shape: [3], initializer: ones}\n" +
         graph +
         "    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}\n    run: {steps: 1}\n";
}

const plan::Step& step(const plan::Plan& plan, const std::string& name) {
  const auto& steps = plan.jobs[0].steps;
  const auto found = std::ranges::find(steps, name, &plan::Step::name);
  INFO(name);
  REQUIRE(found != steps.end());
  return *found;
}

TEST_CASE("ports are operands and results, the first by its own name too", "[job]") {
  const plan::Plan plan =
      plan_of(data_job("      s: {op: split, in: x, axis: 2, parts: [1, 2, 3]}\n"
                       "      a: {op: relu, in: s.out1}\n      b: {op: relu, in: s}\n"
                       "      c: {op: relu, in: s.out0}\n      t: {op: top_k, in: x, k: 2}\n",
                       "[a, b, c, s.out2, t.values, t.indices, t]"));
  const plan::Job& job = plan.jobs[0];
  CHECK(job[step(plan, "a").inputs[0]].shape == Shape{4, 3, 2});
  CHECK(job[step(plan, "b").inputs[0]].name == "s");
  CHECK(step(plan, "b").inputs[0] == step(plan, "c").inputs[0]);
  CHECK(find_tensor(job, "t.indices")->dtype == DType::kInt64);
  const auto& items = job.returns->value.items;
  CHECK(items[4].tensor == items[6].tensor);
  CHECK(items[3].tensor == step(plan, "s").outputs[2]);
}

TEST_CASE("a port of a network's entry is reached by its path, and watched", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\nnetworks: {net: {inputs: [a], graph: {best: {op: top_k, k: 1}}}}\n"
      "jobs:\n  j:\n    type: predict\n    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph: {y: {op: net, in: x}}\n    returns: {value: y}\n"
      "    hooks: [{watch: y/best.indices}, {watch: \"**.indices\", as: z}]\n");
  const plan::Job& job = plan.jobs[0];
  CHECK(job.hooks.size() == 2);
  CHECK(find_tensor(job, "y/best.indices"));
}

TEST_CASE("lists of operands, and operands that default to the entry above", "[job]") {
  const plan::Plan plan =
      plan_of(data_job("      c: {op: concat, in: [x, x, x], axis: -1}\n"
                       "      s: {op: stack}\n      g: {op: gather, indices: n, axis: 1}\n",
                       "g"));
  CHECK(plan.jobs[0][step(plan, "c").outputs[0]].shape == Shape{4, 3, 18});
  CHECK(plan.jobs[0][step(plan, "s").outputs[0]].shape == Shape{1, 4, 3, 18});
  CHECK(plan.jobs[0][step(plan, "g").outputs[0]].shape == Shape{1, 4, 3, 18});
  CHECK(step(plan, "c").attributes.get<int64_t>("axis") == 2);
}

TEST_CASE("indices, pairs, and lists or counts are read as they are written", "[job]") {
  const plan::Plan plan =
      plan_of(data_job("      a: {op: slice, in: x, index: \"[..., ::-1]\"}\n"
                       "      b: {op: pad, in: n, paddings: [[1, 2]], mode: edge}\n"
                       "      c: {op: split, in: x, axis: 0, parts: 2}\n"
                       "      d: {op: squeeze, in: x}\n"
                       "      e: {op: expand_dims, in: x, axis: [0, -1]}\n"
                       "      f: {op: transpose, in: x, perm: reversed}\n",
                       "[a, b, c, d, e, f]"));
  using Integers = std::vector<int64_t>;
  CHECK(step(plan, "a").attributes.get<Integers>("steps") == Integers{1, 1, -1});
  CHECK(step(plan, "b").attributes.get<Integers>("paddings") == Integers{1, 2});
  CHECK(step(plan, "c").attributes.get<Integers>("sizes") == Integers{2, 2});
  CHECK(plan.jobs[0][step(plan, "e").outputs[0]].shape == Shape{1, 4, 3, 6, 1});
  CHECK(step(plan, "f").attributes.get<Integers>("perm") == Integers{2, 1, 0});
}

TEST_CASE("views cost nothing: their results lie where their operands do", "[job]") {
  const plan::Plan plan = plan_of(
      data_job("      r: {op: relu, in: x}\n      a: {op: identity}\n      b: {op: flatten}\n"
               "      c: {op: expand_dims, axis: 0}\n      d: {op: squeeze}\n"
               "      e: {op: stop_gradient}\n",
               "e"));
  for (const char* name : {"a", "b", "c", "d", "e"}) {
    CHECK(step(plan, name).op == "reshape");
    CHECK(plan.jobs[0][step(plan, name).outputs[0]].alias == step(plan, name).inputs[0]);
  }
}

TEST_CASE("a variable is its entry, and an embedding gathers rows of its weight", "[job]") {
  const plan::Plan plan =
      plan_of(data_job("      w: {op: variable, shape: [3, 6], initializer: glorot_uniform}\n"
                       "      y: {op: add, in: [x, w]}\n"
                       "      e: {op: embedding, in: n, vocab_size: 10, units: 5}\n",
                       "[y, e, w]"));
  const plan::Job& job = plan.jobs[0];
  CHECK(std::get<plan::initializers::Uniform>(variable(job, "w").initializer).max ==
        Approx(std::sqrt(6.0 / 9)));
  CHECK(std::get<plan::initializers::Normal>(variable(job, "e/weight").initializer).stddev == 0.02);
  CHECK(step(plan, "e/gather").op == "gather");
  CHECK(job[step(plan, "y").inputs[1]].role == plan::Role::kVariable);
}

TEST_CASE("variables and constants of a float64 job are float64", "[job]") {
  std::string text = data_job(
      "      w: {op: variable, shape: [], initializer: 2}\n      c: {op: constant, value: 1}\n"
      "      h: {op: one_hot, in: n, depth: 3}\n",
      "[w, c, h]");
  text.insert(text.find("    inputs:"), "    precision: float64\n");
  const plan::Plan plan = plan_of(text);
  for (const char* name : {"w", "c", "h"})
    CHECK(find_tensor(plan.jobs[0], name)->dtype == DType::kFloat64);
}

TEST_CASE("what the file casts to 16 bits is fused where mixed precision rounds alike, once",
          "[job]") {
  const std::string graph =
      "      r: {op: reshape, in: x, shape: [12, 6]}\n      h: {op: dense, units: 2}\n"
      "      b: {op: cast, dtype: bfloat16}\n      c: {op: cast, dtype: bfloat16}\n";
  const plan::Plan plain = plan_of(data_job(graph, "c"));
  CHECK(has_step(plain.jobs[0], "b"));
  CHECK(has_step(plain.jobs[0], "c"));
  for (const bool alike : {true, false}) {
    std::string text = data_job(graph, "c");
    text.insert(text.find("    inputs:"),
                alike ? "    precision: mixed_bfloat16\n" : "    precision: mixed_float16\n");
    const plan::Plan mixed = plan_of(text);
    CHECK(has_step(mixed.jobs[0], "b") == !alike);
    CHECK(has_step(mixed.jobs[0], "c"));
  }
}

TEST_CASE("no gradient passes a stop_gradient", "[job]") {
  const plan::Plan plan = plan_of(
      train_with("      y: {op: multiply, in: [w, w]}\n      s: {op: stop_gradient, in: y}\n"
                 "      loss: {op: multiply, in: [s, w]}\n"));
  CHECK(find_tensor(plan.jobs[0], "w:diff"));
  CHECK_FALSE(find_tensor(plan.jobs[0], "y:diff"));
  const std::string refused = messages_of(
      train_with("      s: {op: stop_gradient, in: w}\n      loss: {op: relu, in: s}\n"));
  CHECK(refused.find("E0606") != std::string::npos);
}

TEST_CASE("gradients pass between floats, in the job's own dtype", "[job]") {
  const plan::Plan plan =
      plan_of(train_with("      a: {op: cast, in: w, dtype: float64}\n      b: {op: tile, in: a, "
                         "multiples: [2]}\n      c: {op: concat, in: [a, b], axis: 0}\n"
                         "      loss: {op: cast, in: c, dtype: float32}\n"));
  for (const char* name : {"a:diff", "b:diff"})
    CHECK(find_tensor(plan.jobs[0], name)->dtype == DType::kFloat32);
  CHECK(find_tensor(plan.jobs[0], "c")->dtype == DType::kFloat64);
}

TEST_CASE("the gradient of a split takes zeros for parts that the loss does not read", "[job]") {
  const std::string split = "      s: {op: split, in: w, axis: 0, parts: 3}\n";
  const plan::Plan one = plan_of(train_with(split + "      loss: {op: relu, in: s.out1}\n"));
  CHECK(step(one, "w:diff").op == "pad");
  const plan::Plan two = plan_of(train_with(split + "      loss: {op: add, in: [s.out2, s]}\n"));
  CHECK(step(two, "w:diff").op == "concat");
  CHECK(step(two, "w:diff/zeros1").op == "fill");
}

}  // namespace
}  // namespace flow
