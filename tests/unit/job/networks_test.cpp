// Networks with params, repeated entries, shared variables.
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

/// A predict job with inputs x: float32 [4, 3] and z: float32 [4, 3].
std::string job_calling(const std::string& graph, const std::string& value,
                        const std::string& networks, const std::string& vars = "") {
  return "flow: 1\n" + vars + (networks.empty() ? "" : "networks:\n" + networks) +
         "jobs:\n  j:\n    type: predict\n    inputs:\n"
         "      x: {shape: [4, 3], dtype: float32}\n      z: {shape: [4, 3], dtype: float32}\n"
         "    graph:\n" +
         graph + "    returns: {value: " + value + "}\n";
}

std::vector<std::string> variable_names(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

/// Of the dense layer of that name.
int64_t units(const plan::Job& job, const std::string& layer) {
  const plan::Tensor* bias = find_tensor(job, layer + "/bias");
  INFO(layer);
  REQUIRE(bias);
  return bias->shape[0];
}

TEST_CASE("a param takes its default, or what the call gives", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: net, in: x}\n      b: {op: net, in: x, units: 7}\n", "[a, b]",
      "  net: {inputs: [i], params: {units: 5}, graph: {d: {op: dense, units: $units}}}\n"));
  CHECK(units(plan.jobs[0], "a/d") == 5);
  CHECK(units(plan.jobs[0], "b/d") == 7);
}

TEST_CASE("a param hides a variable, inside its network alone", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: net, in: x}\n      b: {op: dense, in: x, units: $n}\n", "[a, b]",
      "  net: {inputs: [i], params: {n: $(n + 1)}, graph: {d: {op: dense, units: $(2 * n)}}}\n",
      "vars: {n: 2}\n"));
  CHECK(units(plan.jobs[0], "a/d") == 6);
  CHECK(units(plan.jobs[0], "b") == 2);
}

TEST_CASE("networks hand their params on, lists and mappings too", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: whole, in: x, width: 3, init: {type: constant, value: 2}}\n", "a",
      "  whole: {inputs: [i], params: {width: required, init: required},\n"
      "          graph: {one: {op: inner, units: $(width * 2), start: $init}}}\n"
      "  inner: {inputs: [i], params: {units: required, start: zeros},\n"
      "          graph: {d: {op: dense, units: $units, kernel_initializer: $start}}}\n"));
  CHECK(units(plan.jobs[0], "a/one/d") == 6);
  CHECK(plan::type_name(variable(plan.jobs[0], "a/one/d/weight").initializer) == "constant");
}

TEST_CASE("a network may choose its output by a param", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      y: {op: net, in: x, end: a}\n      w: {op: dense, units: 1}\n", "[w, y/b]",
      "  net: {inputs: [i], params: {end: b}, graph: {a: {op: dense, units: 2}, b: {op: "
      "dense, units: 5}}, output: $end}\n"));
  CHECK(find_tensor(plan.jobs[0], "w/weight")->shape == Shape{1, 2});
}

TEST_CASE("copies are chained by their first operand and get the others all", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      blocks: {op: block, in: [x, z], repeat: 3}\n", "[blocks, blocks/0/s]",
      "  block: {inputs: [a, b], graph: {d: {op: dense, in: a, units: 3}, s: {op: add, in: [d, "
      "b]}}}\n"));
  const plan::Job& job = plan.jobs[0];
  CHECK(variable_names(job) == std::vector<std::string>{"blocks/0/d/weight", "blocks/0/d/bias",
                                                        "blocks/1/d/weight", "blocks/1/d/bias",
                                                        "blocks/2/d/weight", "blocks/2/d/bias"});
  REQUIRE(has_step(job, "blocks/1/s"));
  const auto reads = [&](const std::string& name) {
    const auto step = std::ranges::find(job.steps, name, &plan::Step::name);
    std::vector<std::string> inputs;
    for (const plan::TensorId id : step->inputs) inputs.push_back(job[id].name);
    return inputs;
  };
  CHECK(reads("blocks/1/s").back() == "z");
  CHECK(reads("blocks/1/d/matmul").front() == "blocks/0/s");
}

TEST_CASE("an op can be repeated, and its copies have numbers", "[job]") {
  const plan::Plan plan =
      plan_of(job_calling("      d: {op: dense, in: x, units: $(index + 5), repeat: $n}\n",
                          "[d, d/0]", "", "vars: {n: 2}\n"));
  CHECK(units(plan.jobs[0], "d/0") == 5);
  CHECK(units(plan.jobs[0], "d/1") == 6);
}

TEST_CASE("the index is seen by the entry, which may pass it on", "[job]") {
  const plan::Plan plan = plan_of(
      job_calling("      n: {op: net, in: x, repeat: 2, depth: $index}\n", "n",
                  "  net: {inputs: [i], params: {depth: required}, graph: {d: {op: dense, units: "
                  "$(3 + depth)}}}\n"));
  CHECK(units(plan.jobs[0], "n/0/d") == 3);
  CHECK(units(plan.jobs[0], "n/1/d") == 4);
  CHECK(messages_of(job_calling("      n: {op: net, in: x, repeat: 2}\n", "n",
                                "  net: {inputs: [i], graph: {d: {op: dense, units: $index}}}\n"))
            .find("E0204") != std::string::npos);
}

TEST_CASE("an entry uses the variables of another", "[job]") {
  const plan::Plan plan = plan_of(
      job_calling("      b: {op: dense, in: z, units: 3, variables: a}\n"
                  "      a: {op: dense, in: x, units: 3}\n      c: {op: dense, units: 3, in: "
                  "b, variables: b}\n",
                  "[a, c]", ""));
  CHECK(variable_names(plan.jobs[0]) == std::vector<std::string>{"a/weight", "a/bias"});
  CHECK(has_step(plan.jobs[0], "b/matmul"));
}

TEST_CASE("a network call uses the variables of another call, inside and out", "[job]") {
  const std::string net =
      "  net: {inputs: [i], graph: {p: {op: dense, units: 3}, q: {op: dense, units: 3, variables: "
      "p}, r: {op: dense, units: 3}}}\n";
  const plan::Plan plan =
      plan_of(job_calling("      a: {op: net, in: x}\n      b: {op: net, in: z, variables: a}\n"
                          "      c: {op: dense, in: x, units: 3, variables: b/r}\n",
                          "[a, b, c]", net));
  CHECK(variable_names(plan.jobs[0]) ==
        std::vector<std::string>{"a/p/weight", "a/p/bias", "a/r/weight", "a/r/bias"});
}

TEST_CASE("a path to a variable that is shared leads to the shared one", "[job]") {
  const std::string net =
      "  net: {inputs: [i], graph: {d: {op: dense, units: 3}, t: {op: matmul, in: [d, "
      "d/weight]}}}\n";
  const plan::Plan plan =
      plan_of(job_calling("      a: {op: net, in: x}\n      b: {op: net, in: z, variables: a}\n"
                          "      c: {op: net, in: a, repeat: 2, variables: b}\n"
                          "      e: {op: matmul, in: [a, c/1/d/weight]}\n",
                          "[b, c, e, b/d/bias]", net));
  CHECK(variable_names(plan.jobs[0]) == std::vector<std::string>{"a/d/weight", "a/d/bias"});
  CHECK(messages_of(job_calling("      a: {op: net, in: x}\n"
                                "      b: {op: net, in: z, variables: a}\n",
                                "[b/d/matmul, b/d/scale]", net))
            .find("unknown tensor `b/d/scale`") != std::string::npos);
}

TEST_CASE("copies share with copies, or all with one entry", "[job]") {
  const std::string net = "  net: {inputs: [i], graph: {d: {op: dense, units: 3}}}\n";
  const plan::Plan copies =
      plan_of(job_calling("      a: {op: net, in: x, repeat: 2}\n"
                          "      b: {op: net, in: z, repeat: 2, variables: a}\n",
                          "[a, b]", net));
  CHECK(copies.jobs[0].variables.size() == 4);
  const plan::Plan one =
      plan_of(job_calling("      a: {op: net, in: x}\n"
                          "      b: {op: net, in: z, repeat: 5, variables: a}\n",
                          "[a, b]", net));
  CHECK(one.jobs[0].variables.size() == 2);
  const plan::Plan chosen =
      plan_of(job_calling("      a: {op: net, in: x, repeat: 2}\n"
                          "      b: {op: net, in: z, repeat: 2, variables: a/$(1 - index)}\n",
                          "[a, b]", net));
  CHECK(chosen.jobs[0].variables.size() == 4);
}

TEST_CASE("a star reads all copies, or a part of each", "[job]") {
  const plan::Plan plan = plan_of(
      job_calling("      all: {op: stack, in: [x, c/*, x]}\n"
                  "      parts: {op: concat, in: c/*/h, axis: 1}\n"
                  "      c: {op: net, in: x, repeat: 3}\n"
                  "      d: {op: both, in: x, repeat: 2}\n",
                  "[all, parts, d]",
                  "  net: {inputs: [i], graph: {h: {op: tanh}, o: {op: negative}}}\n"
                  "  both: {inputs: [i], graph: {n: {op: exp, repeat: 2}, s: {op: stack, in: n/*}, "
                  "o: {op: reduce_sum, axis: 0}}}\n"));
  const plan::Job& job = plan.jobs[0];
  const auto read_by = [&](const std::string& name) {
    const auto step = std::ranges::find(job.steps, name, &plan::Step::name);
    REQUIRE(step != job.steps.end());
    std::vector<std::string> names;
    for (const plan::TensorId id : step->inputs) names.push_back(job[id].name);
    return names;
  };
  CHECK(read_by("all") == std::vector<std::string>{"x", "c/0/o", "c/1/o", "c/2/o", "x"});
  CHECK(read_by("parts") == std::vector<std::string>{"c/0/h", "c/1/h", "c/2/h"});
  CHECK(read_by("d/1/s") == std::vector<std::string>{"d/1/n/0", "d/1/n/1"});
}

TEST_CASE("a number given to a network takes the dtype it meets inside", "[job]") {
  const plan::Plan plan =
      plan_of(job_calling("      y: {op: net, in: [x, 1/2]}\n", "y",
                          "  net: {inputs: [a, b], graph: {m: {op: multiply, in: [a, b]}}}\n"));
  CHECK(find_tensor(plan.jobs[0], "y/m")->dtype == DType::kFloat32);
}

TEST_CASE("a network that nobody calls is checked as far as its params are known", "[job]") {
  const std::string messages = messages_of(job_calling(
      "      y: {op: relu, in: x}\n", "y",
      "  net: {inputs: [i], params: {n: required}, graph: {d: {op: dense, units: $n}, e: "
      "{op: rleu}}}\n"));
  CHECK(messages.find("E0301") != std::string::npos);
  CHECK(messages.find("error:") == messages.rfind("error:"));
}

TEST_CASE("a required param that no call gives is no error of the file", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      y: {op: relu, in: x}\n", "y",
      "  net: {inputs: [i], params: {n: required}, graph: {d: {op: dense, units: $n}}}\n"));
  CHECK(step_names(plan.jobs[0]) == std::vector<std::string>{"y"});
}

TEST_CASE("arguments that are written alike without their commas are others", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: net, in: x, m: [1, 11]}\n      b: {op: net, in: x, m: [11, 1]}\n", "[a, b]",
      "  net: {inputs: [i], params: {m: required}, graph: {t: {op: tile, multiples: $m}}}\n"));
  CHECK(find_tensor(plan.jobs[0], "a/t")->shape == Shape{4, 33});
  CHECK(find_tensor(plan.jobs[0], "b/t")->shape == Shape{44, 3});
}

TEST_CASE("what a call freezes is frozen in the networks inside, too", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: whole, in: x, trainable: false}\n      b: {op: whole, in: x}\n", "[a, b]",
      "  inner: {inputs: [i], graph: {d: {op: dense, units: 2}}}\n"
      "  whole: {inputs: [i], graph: {n: {op: inner}}}\n"));
  CHECK_FALSE(variable(plan.jobs[0], "a/n/d/weight").trainable);
  CHECK(variable(plan.jobs[0], "b/n/d/weight").trainable);
}

TEST_CASE("a note of a network that is called twice is kept once", "[job]") {
  const plan::Plan plan = plan_of(job_calling(
      "      a: {op: net, in: x, n: 1}\n      b: {op: net, in: x, n: 2}\n", "[a, b]",
      "  net: {inputs: [i], params: {n: 3}, graph: {d: {op: dense, units: $n, note: told}}}\n"));
  CHECK(plan.notes == std::vector<std::string>{"told"});
}

TEST_CASE("a glob without a dot matches no second results", "[job]") {
  const plan::Plan plan = plan_of(job_calling("      k: {op: top_k, in: x, k: 2}\n", "k", "") +
                                  "    hooks: [{watch: '**'}]\n");
  for (const plan::Hook& hook : plan.jobs[0].hooks) CHECK(hook.name != "k.indices");
}

TEST_CASE("device by device goes what has its rows in front alone", "[job]") {
  const std::string graph = "      t: {op: transpose, in: x}\n";
  const char* wrong = "is 1; expected axis 0 for ListNumpy";
  CHECK_THAT(messages_of(job_calling(graph, "t, type: ListNumpy", "")), Catch::Contains(wrong));
  CHECK_THAT(
      messages_of(job_calling(graph, "x", "") + "    hooks: [{watch: t, type: ListNumpy}]\n"),
      Catch::Contains(wrong));
}

TEST_CASE("steps are counted from 0", "[job]") {
  CHECK_THAT(messages_of(job_calling("      r: {op: relu, in: x}\n", "r", "") +
                         "    hooks: [{watch: r, steps: -1..5}]\n"),
             Catch::Contains("invalid steps `-1..5`"));
}

TEST_CASE("a gradient that is watched under a static loss scale has it undone", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  t:\n    type: train\n    precision: mixed_float16\n"
      "    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph: {a: {op: dense, in: x, units: 2}}\n"
      "    optimizer: {type: sgd, learning_rate: 0.1, minimize: a,\n"
      "                loss_scale: {type: static, value: 8}}\n"
      "    hooks: [{watch_diff: a, of: sum}]\n");
  CHECK(plan.jobs[0].hooks[0].factor == 0.125);
}

TEST_CASE("copies that multiply without end are refused", "[job]") {
  std::string networks = "  n0: {inputs: [a], params: {p: 0}, graph: {r: {op: relu}}}\n";
  for (int i = 1; i < 6; ++i) {
    const std::string number = std::to_string(i), below = std::to_string(i - 1);
    networks += "  n" + number + ": {inputs: [a], params: {p: 0}, graph: {r: {op: n" + below +
                ", repeat: 1000, p: $(p * 1000 + index)}}}\n";
  }
  CHECK(messages_of(job_calling("      y: {op: n5, in: x}\n", "y", networks)).find("E0124") !=
        std::string::npos);
}

}  // namespace
}  // namespace flow
