// Graph entries: names, operands, defaults, order, networks.
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

/// A predict job with input x: float32 [4, 3] and this graph and return value.
std::string job_with(const std::string& graph, const std::string& value,
                     const std::string& top = "") {
  return "flow: 1\n" + top +
         "jobs:\n  j:\n    type: predict\n    inputs:\n"
         "      x: {shape: [4, 3], dtype: float32}\n      n: {shape: [4], dtype: int32}\n"
         "    graph:\n" +
         graph + "    returns: {value: " + value + "}\n";
}

TEST_CASE("an entry reads the one above it unless it says otherwise", "[job]") {
  const plan::Plan plan =
      plan_of(job_with("      a: {op: relu, in: x}\n      b: {op: argmax}\n", "b"));
  CHECK(step_names(plan.jobs[0]) == std::vector<std::string>{"a", "b"});
}

TEST_CASE("the first entry of a job must say what it reads", "[job]") {
  CHECK(messages_of(job_with("      a: {op: relu}\n", "a")).find("E0303") != std::string::npos);
}

TEST_CASE("the first entry of a network reads its only input", "[job]") {
  const plan::Plan plan =
      plan_of(job_with("      y: {op: net, in: x}\n", "y",
                       "networks: {net: {inputs: [a], graph: {b: {op: relu}}}}\n"));
  CHECK(step_names(plan.jobs[0]) == std::vector<std::string>{"y/b"});
}

TEST_CASE("entries may stand in any order that has no cycle", "[job]") {
  const plan::Plan plan =
      plan_of(job_with("      c: {op: add, in: [a, b]}\n      b: {op: relu, in: a}\n"
                       "      a: {op: relu, in: x}\n",
                       "c"));
  CHECK(step_names(plan.jobs[0]) == std::vector<std::string>{"a", "b", "c"});
}

TEST_CASE("networks nest, and names with them", "[job]") {
  const std::string top =
      "networks:\n"
      "  whole: {inputs: [a], graph: {one: {op: inner}, two: {op: inner}}, output: two}\n"
      "  inner: {inputs: [a], graph: {d: {op: dense, units: 3}, r: {op: relu}}}\n";
  const plan::Plan plan = plan_of(job_with("      y: {op: whole, in: x}\n", "[y, y/one/d]", top));
  CHECK(plan.jobs[0].variables.size() == 4);
  CHECK(find_tensor(plan.jobs[0], "y/one/d/weight"));
  CHECK(find_tensor(plan.jobs[0], "y/two/d/weight"));
}

TEST_CASE("operands are given by name, in any order", "[job]") {
  const plan::Plan plan = plan_of(job_with(
      "      l: {op: sparse_softmax_cross_entropy_with_logits, logits: x, labels: n}\n", "l"));
  const plan::Job& job = plan.jobs[0];
  CHECK(job[job.steps.at(0).inputs.at(0)].name == "n");
}

TEST_CASE("the first operand may be the entry above although the others are named", "[job]") {
  const plan::Plan plan =
      plan_of(job_with("      k: {op: argmax, in: x}\n"
                       "      l: {op: sparse_softmax_cross_entropy_with_logits, logits: x}\n",
                       "l"));
  const plan::Job& job = plan.jobs[0];
  CHECK(job[job.steps.at(1).inputs.at(0)].name == "k");
}

TEST_CASE("a network's operands may be given by the names of its inputs", "[job]") {
  const std::string top = "networks: {two: {inputs: [a, b], graph: {s: {op: add, in: [a, b]}}}}\n";
  CHECK(plan_of(job_with("      y: {op: two, b: x, a: x}\n", "y", top)).jobs[0].steps.size() == 1);
  CHECK(plan_of(job_with("      y: {op: two, in: [x, x]}\n", "y", top)).jobs[0].steps.size() == 1);
}

TEST_CASE("a number takes the dtype of the other operand", "[job]") {
  const plan::Plan plan = plan_of(job_with(
      "      y: {op: multiply, in: [1/2, x]}\n      z: {op: add, in: [n, 2]}\n", "[y, z]"));
  const plan::Job& job = plan.jobs[0];
  CHECK(find_tensor(job, "y")->dtype == DType::kFloat32);
  CHECK(find_tensor(job, "z")->dtype == DType::kInt32);
  CHECK(messages_of(job_with("      z: {op: add, in: [n, 0.5]}\n", "z")).find("E0309") !=
        std::string::npos);
}

TEST_CASE("a number that stands alone is a float, or an index", "[job]") {
  const std::string graph =
      "      p: {op: greater, in: [x, 0]}\n      w: {op: where, in: [p, 1, 0.5]}\n"
      "      r: {op: relu, in: -5}\n      g: {op: gather, params: x, indices: 1}\n";
  const plan::Plan plan = plan_of(job_with(graph, "[w, r, g]"));
  CHECK(find_tensor(plan.jobs[0], "w")->dtype == DType::kFloat32);
  CHECK(find_tensor(plan.jobs[0], "w")->shape == find_tensor(plan.jobs[0], "x")->shape);
  CHECK(find_tensor(plan.jobs[0], "r")->shape == Shape{});
  CHECK(find_tensor(plan.jobs[0], "g")->shape == find_tensor(plan.jobs[0], "x")->shape.from(1));
}

TEST_CASE("a variable and an inner tensor can be read by path", "[job]") {
  const plan::Plan plan =
      plan_of(job_with("      d: {op: dense, in: x, units: 3}\n      w: {op: relu, in: d/weight}\n"
                       "      m: {op: relu, in: d/matmul}\n",
                       "[w, m]"));
  CHECK(find_tensor(plan.jobs[0], "w")->shape == Shape{3, 3});
}

TEST_CASE("an error poisons what depends on it in silence", "[job]") {
  const std::string messages =
      messages_of(job_with("      a: {op: rleu, in: x}\n      b: {op: dense, units: 3}\n      c: "
                           "{op: relu, in: b/weight}\n",
                           "[a, b, c]"));
  CHECK(messages.find("did you mean `relu`?") != std::string::npos);
  CHECK(std::count(messages.begin(), messages.end(), '\n') == 4);
}

TEST_CASE("an error inside a network is said once, however often it is called", "[job]") {
  const std::string top = "networks: {n: {inputs: [a], graph: {f: {op: dense, unit: 3}}}}\n";
  const std::string messages =
      messages_of(job_with("      y: {op: n, in: x}\n      z: {op: n, in: x}\n", "[y, z]", top));
  CHECK(messages.find("E0305") == messages.rfind("E0305"));
}

TEST_CASE("a result that nobody reads is a warning", "[job]") {
  CompileRequest request;
  request.file = "job.yaml";
  const std::string text =
      job_with("      a: {op: relu, in: x}\n      b: {op: relu, in: x}\n", "a");
  const CompileResult result = compile_text(request, text);
  CHECK(result.plan);
  CHECK(result.messages.find("W0901") != std::string::npos);
  request.watches = {"b"};
  CHECK(compile_text(request, text).messages.empty());
}

TEST_CASE("entries that --set adds must say what they read", "[job]") {
  CompileRequest request;
  const std::string text = job_with("      a: {op: relu, in: x}\n", "a");
  request.sets = {"+jobs.j.graph.b={op: relu}"};
  CHECK(messages_of(text, request).find("E0303") != std::string::npos);
  request.sets = {"+jobs.j.graph.b={op: relu, in: a}", "jobs.j.returns.value=b"};
  CHECK(plan_of(text, request).jobs[0].steps.size() == 2);
}

TEST_CASE("networks that multiply without end are refused", "[job]") {
  std::string top = "networks:\n  n0: {inputs: [a], graph: {r: {op: relu}}}\n";
  for (int i = 1; i < 12; ++i) {
    top += "  n" + std::to_string(i) + ": {inputs: [a], graph: {";
    for (int k = 0; k < 10; ++k)
      top += (k ? ", e" : "e") + std::to_string(k) + ": {op: n" + std::to_string(i - 1) + "}";
    top += "}}\n";
  }
  CHECK(messages_of(job_with("      y: {op: n11, in: x}\n", "y", top)).find("E0124") !=
        std::string::npos);
}

TEST_CASE("trainable: false on a network call means all of it", "[job]") {
  const std::string top = "networks: {n: {inputs: [a], graph: {d: {op: dense, units: 3}}}}\n";
  const plan::Plan plan = plan_of(job_with(
      "      y: {op: n, in: x, trainable: false}\n      z: {op: n, in: x}\n", "[y, z]", top));
  CHECK_FALSE(variable(plan.jobs[0], "y/d/weight").trainable);
  CHECK(variable(plan.jobs[0], "z/d/weight").trainable);
}

TEST_CASE("padding is words, a number, or numbers for each side", "[job]") {
  const auto pads = [](const std::string& padding) {
    const plan::Plan plan = plan_of(
        "flow: 1\njobs:\n  j:\n    type: predict\n    inputs: {x: {shape: [1, 1, 8, 8], dtype: "
        "float32}}\n    graph: {y: {op: max_pool2d, in: x, ksize: 3, strides: 2, padding: " +
        padding + "}}\n    returns: {value: y}\n");
    return plan.jobs[0].steps.at(0).attributes.get<std::vector<int64_t>>("padding");
  };
  CHECK(pads("valid") == std::vector<int64_t>{0, 0, 0, 0});
  CHECK(pads("same") == std::vector<int64_t>{0, 1, 0, 1});
  CHECK(pads("same_lower") == std::vector<int64_t>{1, 0, 1, 0});
  CHECK(pads("1") == std::vector<int64_t>{1, 1, 1, 1});
  CHECK(pads("[1, 0]") == std::vector<int64_t>{1, 1, 0, 0});
  CHECK(pads("[[0, 1], [1, 0]]") == std::vector<int64_t>{0, 1, 1, 0});
}

TEST_CASE("initializers are a word, a number or a mapping", "[job]") {
  const auto initializer = [](const std::string& text) {
    return variable(plan_of(job_with("      d: {op: dense, in: x, units: 2, kernel_initializer: " +
                                         text + "}\n",
                                     "d"))
                        .jobs[0],
                    "d/weight")
        .initializer;
  };
  CHECK(plan::type_name(initializer("ones")) == "ones");
  CHECK(std::get<plan::initializers::Constant>(initializer("0.5")).value == 0.5);
  CHECK(std::get<plan::initializers::Npy>(initializer("{type: npy, path: w.npy}")).path == "w.npy");
  CHECK(std::get<plan::initializers::Uniform>(initializer("glorot_uniform")).max ==
        Approx(std::sqrt(6.0 / 5)));
  const plan::Initializer kaiming = initializer("{type: kaiming, mode: fan_out}");
  CHECK(std::get<plan::initializers::Normal>(kaiming).stddev == Approx(1.0));
  const plan::Initializer scaled =
      initializer("{type: variance_scaling, scale: 4, distribution: random_uniform}");
  CHECK(std::get<plan::initializers::Uniform>(scaled).max == Approx(2.0));
}

}  // namespace
}  // namespace flow
