// `placement:` on entries and network calls.
#include "tests/unit/job/compiled.h"

#include "runtime/plan/serialize.h"

namespace flow {
namespace {

/// A predict job of these entries, in a network that the job calls as `n`.
std::string placed_job(const std::string& entries, const std::string& call = "{op: net, in: x}",
                       const std::string& more = "") {
  return "flow: 1\nnetworks:\n  chosen:\n    inputs: [x]\n    params: {where: cpu}\n"
         "    graph: {r: {op: relu, placement: {device: $where}}}\n  inner:\n    inputs: [x]\n    "
         "graph: {r: {op: relu}}\n"
         "  net:\n    inputs: [x]\n    graph:\n" +
         entries + "jobs:\n  j:\n    type: predict\n" + more +
         "    inputs: {x: {shape: [4, 3], dtype: float32}}\n    graph: {n: " + call +
         "}\n    returns: {value: n}\n";
}

/// What runs the step, on the target.
std::string device_of(const std::string& text, const std::string& step,
                      const CompileRequest& request = {}) {
  const plan::Plan plan = plan_of(text, request);
  const plan::Job& job = plan.jobs[0];
  const auto found = std::ranges::find(job.steps, step, &plan::Step::name);
  INFO(step);
  REQUIRE(found != job.steps.end());
  return std::string(plan::name_of(job.device_of(*found)));
}

const std::string kGpu = "placement: {device: gpu}", kCpu = "placement: {device: cpu}";

}  // namespace

TEST_CASE("the innermost placement wins", "[job]") {
  const std::string text = placed_job("      a: {op: dense, units: 3, " + kCpu +
                                          "}\n      b: {op: inner}\n      c: {op: inner, " + kCpu +
                                          "}\n      d: {op: relu, repeat: 2}\n",
                                      "{op: net, in: x, " + kGpu + "}");
  CHECK(device_of(text, "n/a/matmul") == "cpu");
  CHECK(device_of(text, "n/b/r") == "gpu");
  CHECK(device_of(text, "n/c/r") == "cpu");
  CHECK(device_of(text, "n/d/0") == "gpu");
  const plan::Plan plan = plan_of(text);
  CHECK(plan.jobs[0].device == plan::DeviceKind::kCpu);
  CHECK(plan.jobs[0].device_of(plan.jobs[0][variable(plan.jobs[0], "n/a/weight").tensor]) ==
        plan::DeviceKind::kCpu);
}

TEST_CASE("auto is what the target has, and a target that forces the CPU has its way", "[job]") {
  const std::string text =
      placed_job("      a: {op: relu, placement: {device: auto}}\n      b: {op: relu}\n",
                 "{op: net, in: x}", "    " + kCpu + "\n");
  CompileRequest gpu;
  gpu.target.device = plan::DeviceKind::kGpu;
  CHECK(device_of(text, "n/a", gpu) == "gpu");
  CHECK(device_of(text, "n/b", gpu) == "cpu");
  CHECK(device_of(text, "n/a") == "cpu");
  CompileRequest forced;
  forced.target.forced = true;
  const std::string placed = placed_job("      a: {op: relu, " + kGpu + "}\n");
  CHECK(device_of(placed, "n/a") == "gpu");
  const plan::Plan plan = plan_of(placed, forced);
  CHECK_FALSE(plan::has_two_devices(plan.jobs[0]));
  CHECK(plan.jobs[0].device == plan::DeviceKind::kCpu);
}

TEST_CASE("a target that forces the GPU takes nothing from it", "[job]") {
  CompileRequest forced;
  forced.target = {.device = plan::DeviceKind::kGpu, .forced = true};
  const std::string text = placed_job("      a: {op: relu, " + kGpu + "}\n      b: {op: relu}\n");
  CHECK(device_of(text, "n/a", forced) == "gpu");
  CHECK(device_of(text, "n/b", forced) == "gpu");
}

TEST_CASE("devices share rows, and a scalar goes to each", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: predict\n    placement: {device: cpu, ids: \"0:0-63\"}\n"
      "    inputs:\n      x: {shape: [64], dtype: float32}\n      s: {shape: [], dtype: float32}\n"
      "    graph: {y: {op: multiply, in: [x, s]}}\n    returns: {value: y}\n");
  CHECK(plan.jobs[0].devices == 64);
}

TEST_CASE("a plan names the devices of ranks where it matters which they are", "[job]") {
  const auto ids_of = [](const std::string& placement) {
    return plan_of(placed_job("      a: {op: relu}\n", "{op: net, in: x}",
                              "    placement: " + placement + "\n"))
        .jobs[0]
        .ids;
  };
  using Ids = std::vector<plan::DeviceRange>;
  CHECK(ids_of("{device: gpu}").empty());
  CHECK(ids_of("{device: gpu, ids: \"0:0\"}").empty());
  CHECK(ids_of("{device: cpu, ids: \"0:1-2\"}").empty());
  CHECK(ids_of("{device: gpu, ids: \"0:1\"}") == Ids{{0, 1, 1}});
  CHECK(ids_of("{device: gpu, ids: \"0:0-3\"}") == Ids{{0, 0, 3}});
  CHECK(ids_of("{device: cpu, ids: [\"0:0\", \"1:0\"]}") == Ids{{0, 0, 0}, {1, 0, 0}});
}

TEST_CASE("devices leave the hash that resuming compares as it is", "[job]") {
  const auto plan_on = [](const std::string& ids) {
    return plan_of(placed_job("      a: {op: relu}\n", "{op: net, in: x}",
                              "    shards: 4\n    placement: {device: gpu, ids: " + ids + "}\n"));
  };
  const plan::Plan two = plan_on("\"0:2-3\""), four = plan_on("[\"0:0-1\", \"1:0-1\"]");
  CHECK(plan::resume_hash(two.jobs[0]) == plan::resume_hash(four.jobs[0]));
  CHECK(plan::hash(two) != plan::hash(four));
  CHECK(plan::from_json(plan::to_json(four), "p").jobs[0].ids == four.jobs[0].ids);
}

TEST_CASE("a job that is called runs on the devices of its caller", "[job]") {
  const std::string body =
      "    inputs: {x: {shape: [4], dtype: float32, from: {type: iota}}}\n"
      "    graph: {y: {op: relu, in: x}}\n    returns: {value: y}\n";
  const auto called_on = [&](const std::string& placement) {
    return "flow: 1\njobs:\n  a:\n    type: predict\n"
           "    placement: {device: gpu, ids: \"0:0-1\"}\n" +
           body +
           "    run: {steps: 2, also: [{job: b, every: {steps: 1}}]}\n"
           "  b:\n    type: predict\n    placement: " +
           placement + "\n" + body;
  };
  CHECK_NOTHROW(plan_of(called_on("{device: gpu}")));
  CHECK_NOTHROW(plan_of(called_on("{device: gpu, ids: \"0:0-1\"}")));
  CHECK(messages_of(called_on("{device: gpu, ids: \"0:2-3\"}"))
            .find("`ids` of job `b` names other devices than job `a`, which calls it") !=
        std::string::npos);
}

TEST_CASE("a param may say where, and so may a repeated entry", "[job]") {
  const std::string text = placed_job(
      "      a: {op: chosen, where: gpu}\n      b: {op: chosen, repeat: 2}\n"
      "      c: {op: relu, repeat: 2, " +
      kGpu + "}\n");
  CHECK(device_of(text, "n/a/r") == "gpu");
  CHECK(device_of(text, "n/b/1/r") == "cpu");
  CHECK(device_of(text, "n/c/0") == "gpu");
  CHECK(device_of(text, "n/c/1") == "gpu");
}

TEST_CASE("a plan whose entries say what their job says is the plan without them", "[job]") {
  const std::string entries = "      a: {op: dense, units: 3";
  const plan::Plan plain = plan_of(placed_job(entries + "}\n"));
  const plan::Plan placed = plan_of(placed_job(entries + ", " + kCpu + "}\n"));
  CHECK(plan::hash(plain) == plan::hash(placed));
}

TEST_CASE("shared variables and their slots lie where their owner does", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: train\n    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph:\n      a: {op: dense, units: 3, in: x, " +
      kGpu +
      "}\n      b: {op: dense, units: 3, variables: a}\n"
      "      loss: {op: mse, prediction: b, target: x}\n"
      "    optimizer: {type: sgd, momentum: 0.9, learning_rate: 0.1, minimize: loss}\n");
  const plan::Job& job = plan.jobs[0];
  for (const plan::Variable& variable : job.variables)
    CHECK(job.device_of(job[variable.tensor]) == plan::DeviceKind::kGpu);
  CHECK(has_step(job, "a/weight:cpu"));         // its value for b
  CHECK(has_step(job, "a/weight:diff.1:gpu"));  // b's part of the gradient
}

TEST_CASE("moving statistics are moved where they lie, whoever moves them", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: train\n    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph:\n      a: {op: batch_normalization, in: x, " +
      kGpu +
      "}\n      b: {op: batch_normalization, variables: a}\n"
      "      loss: {op: mse, prediction: b, target: x}\n"
      "    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}\n");
  const plan::Job& job = plan.jobs[0];
  for (const plan::Step& step : job.steps)
    if (step.op == "move_statistics") CHECK(job.device_of(step) == plan::DeviceKind::kGpu);
}

TEST_CASE("hooks on the other device leave a run that can be resumed", "[job]") {
  const std::string text =
      "flow: 1\njobs:\n  j:\n    type: train\n    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph:\n      a: {op: dense, units: 3, in: x, " +
      kGpu + "}\n      b: {op: dense, units: 3}\n      seen: {op: softmax, " + kGpu +
      "}\n      loss: {op: mse, prediction: b, target: x}\n"
      "    optimizer: {type: sgd, momentum: 0.9, learning_rate: 0.1, minimize: loss}\n";
  const plan::Plan quiet = plan_of(text);
  const plan::Plan watched = plan_of(text + "    hooks: [{watch: seen}, {watch_diff: a/weight}]\n");
  CHECK(plan::resume_hash(quiet, quiet.jobs[0]) == plan::resume_hash(watched, watched.jobs[0]));
}

TEST_CASE("a plan with two devices is written and read, and one without says nothing of them",
          "[job]") {
  const plan::Plan plan =
      plan_of(placed_job("      a: {op: relu, " + kGpu + "}\n      b: {op: relu}\n"));
  const std::string text = plan::to_json(plan);
  CHECK(plan::hash(plan::from_json(text, "a.plan")) == plan::hash(plan));
  CHECK_THAT(text, Catch::Contains("\"device\": \"gpu\"") || Catch::Contains("\"device\":\"gpu\""));
}

}  // namespace flow
