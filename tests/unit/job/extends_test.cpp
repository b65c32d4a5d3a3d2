// Jobs that extend others mean what they would mean written out.
#include <fmt/format.h>

#include "runtime/plan/serialize.h"
#include "tests/support/sanitized.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

constexpr const char* kTrain =
    "flow: 1\n"
    "jobs:\n"
    "  train:\n"
    "    type: train\n"
    "    precision: float64\n"
    "    determinism: off\n"
    "    inputs: {x: {shape: [4, 3], dtype: float64, from: {type: random_normal, stddev: 2}}}\n"
    "    graph:\n"
    "      net: {op: dense, in: x, units: 3}\n"
    "      drop: {op: dropout, rate: 0.5}\n"
    "      out: {op: tanh}\n"
    "      loss: {op: square}\n"
    "    optimizer: {type: sgd, learning_rate: 1, minimize: loss}\n"
    "    returns: {value: loss}\n"
    "    hooks: [{watch: net}]\n"
    "    run: {steps: 7}\n";

/// The plan of a job, whose places and variable sources do not count.
std::string plan_of_job(const std::string& text, std::vector<std::string> sets = {}) {
  CompileRequest request;
  request.sets = std::move(sets);
  request.job = "eval";
  return plan::hash(plan_of(text, request));
}

std::string with_eval(const std::string& eval) {
  return fmt::format("{}  eval: {{type: predict, {}, returns: {{value: out}}}}\n", kTrain, eval);
}

const std::string kInputs =
    "inputs: {x: {shape: [4, 3], dtype: float64, from: {type: random_normal, stddev: 2}}}";
const std::string kTaken = "precision: float64, determinism: off, ";
const std::string kNet = "net: {op: dense, in: x, units: 3}";

}  // namespace

TEST_CASE("A job takes over inputs, graph, precision and determinism of the one it extends",
          "[job]") {
  const std::string written =
      with_eval(kTaken + kInputs + ", graph: {" + kNet +
                ", drop: {op: dropout, in: net, rate: 0.5}, out: {op: tanh, in: drop}}");
  CHECK(plan_of_job(with_eval("extends: train")) == plan_of_job(written));
}

TEST_CASE("A job takes over no optimizer, return, hook or run section", "[job]") {
  const plan::Plan plan = plan_of(with_eval("extends: train"));
  const plan::Job& eval = plan.jobs.at(1);
  CHECK_FALSE(eval.train);
  CHECK_FALSE(eval.optimizer);
  CHECK(eval.hooks.empty());
  CHECK(eval.run.steps != plan.jobs.at(0).run.steps);
  CHECK(
      messages_of(std::string(kTrain) + "  b: {extends: train}\n").find("a job requires `type`") !=
      std::string::npos);
  CHECK(messages_of(std::string(kTrain) + "  b: {type: train, extends: train}\n")
            .find("requires an `optimizer`") != std::string::npos);
}

TEST_CASE("Inputs and entries are merged key by key", "[job]") {
  const std::string extended =
      with_eval("extends: train, inputs: {x: {shape: [5, 3]}}, graph: {drop: {rate: 0.25}}");
  const std::string written = with_eval(
      kTaken +
      "inputs: {x: {shape: [5, 3], dtype: float64, from: {type: random_normal, stddev: 2}}}, "
      "graph: {" +
      kNet + ", drop: {op: dropout, in: net, rate: 0.25}, out: {op: tanh, in: drop}}");
  CHECK(plan_of_job(extended) == plan_of_job(written));
}

TEST_CASE("An added entry has no entry above it, and none below", "[job]") {
  const std::string added = "extends: train, graph: {more: {op: exp, in: net}, out: {op: sin}}";
  const std::string written =
      with_eval(kTaken + kInputs + ", graph: {" + kNet +
                ", drop: {op: dropout, in: net, rate: 0.5}, out: {op: sin, in: drop}}");
  CHECK(plan_of_job(with_eval(added)) == plan_of_job(written));
  // Wherever the job stands in the file: before the one that it extends, too.
  std::string before = with_eval(added);
  const size_t train = before.find("  train:"), eval = before.find("  eval:");
  before = before.substr(0, train) + before.substr(eval) + before.substr(train, eval - train);
  CHECK(plan_of_job(before) == plan_of_job(written));
  const std::string silent = messages_of(with_eval("extends: train, graph: {more: {op: exp}}"));
  CHECK(silent.find("added to an extended job has no entry above to read [E0303]") !=
        std::string::npos);
}

TEST_CASE("A deleted entry is gone, and a replaced one keeps its place", "[job]") {
  const std::string deleted =
      with_eval(kTaken + kInputs + ", graph: {" + kNet + ", out: {op: tanh, in: net}}");
  CHECK(plan_of_job(with_eval("extends: train, graph: {~drop: true}")) == plan_of_job(deleted));
  const std::string replaced = with_eval(kTaken + kInputs + ", graph: {" + kNet +
                                         ", drop: {op: relu, in: net}, out: {op: tanh, in: drop}}");
  CHECK(plan_of_job(with_eval("extends: train, graph: {~drop: true, drop: {op: relu, in: net}}")) ==
        plan_of_job(replaced));
  const std::string source =
      with_eval("extends: train, inputs: {x: {~from: true, from: {type: constant, value: 2}}}");
  const std::string constant =
      with_eval(kTaken +
                "inputs: {x: {shape: [4, 3], dtype: float64, from: {type: constant, value: 2}}}, "
                "graph: {" +
                kNet + ", drop: {op: dropout, in: net, rate: 0.5}, out: {op: tanh, in: drop}}");
  CHECK(plan_of_job(source) == plan_of_job(constant));
  CHECK(plan_of_job(with_eval("extends: train, ~precision: true, inputs: {x: {dtype: float32}}")) !=
        plan_of_job(with_eval("extends: train")));
}

TEST_CASE("A job may replace the whole graph of the one it extends", "[job]") {
  const std::string whole = ", graph: {" + kNet + ", out: {op: sin}}";
  CHECK(plan_of_job(with_eval("extends: train, ~graph: true" + whole)) ==
        plan_of_job(with_eval(kTaken + kInputs + whole)));
}

TEST_CASE("A job may extend one that extends another", "[job]") {
  const std::string chain =
      std::string(kTrain) +
      "  eval: {type: predict, extends: middle, graph: {~drop: true}, returns: {value: out}}\n"
      "  middle: {type: predict, extends: train, graph: {out: {op: sin}}, returns: {value: out}}\n";
  const std::string written =
      with_eval(kTaken + kInputs + ", graph: {" + kNet + ", out: {op: sin, in: net}}");
  CHECK(plan_of_job(chain) == plan_of_job(written));
}

TEST_CASE("The flag --set reaches what a job takes over, in it and in the job that it extends",
          "[job]") {
  const std::string text = with_eval("extends: train");
  const auto same = [&](const std::string& eval, std::vector<std::string> sets) {
    CHECK(plan_of_job(with_eval(eval)) == plan_of_job(text, std::move(sets)));
  };
  same("extends: train, graph: {drop: {rate: 0.25}}", {"jobs.eval.graph.drop.rate=0.25"});
  same("extends: train, graph: {drop: {rate: 0.25}}", {"jobs.train.graph.drop.rate=0.25"});
  same("extends: train, inputs: {x: {shape: [9, 3]}}", {"jobs.eval.inputs.x.shape.0=9"});
  same("extends: train, graph: {~drop: true}", {"~jobs.eval.graph.drop"});
  same("extends: train, graph: {~drop: true}",
       {"jobs.eval.graph.drop.rate=0.25", "~jobs.eval.graph.drop"});
  same("extends: train, graph: {drop: {op: relu, ~rate: true}}",
       {"jobs.eval.graph.drop={op: relu, in: net}"});
  same("extends: train, inputs: {x: {~from: true, from: {type: constant, value: 2}}}",
       {"jobs.eval.inputs.x.from={type: constant, value: 2}"});
  same("extends: train, precision: float32, inputs: {x: {dtype: float32}}",
       {"+jobs.eval.precision=float32", "jobs.eval.inputs.x.dtype=float32"});
  same("extends: train, graph: {z: {op: sin, in: out}}", {"+jobs.eval.graph.z={op: sin, in: out}"});
}

TEST_CASE("The flag --set knows the names that a job takes over", "[job]") {
  const auto says = [](const std::string& set, const std::string& text) {
    CompileRequest request;
    request.sets = {set};
    const std::string messages = messages_of(with_eval("extends: train"), request);
    CAPTURE(set, messages);
    CHECK(messages.find(text) != std::string::npos);
  };
  says("jobs.eval.graph.dorp.rate=0.25", "did you mean `drop`?");
  says("jobs.eval.graph.dorp={op: relu, in: x}", "did you mean `drop`?");
  says("~jobs.eval.graph.dorp", "did you mean `drop`?");
  says("+jobs.eval.graph.drop={op: relu, in: x}", "`jobs.eval.graph.drop` already exists");
  says("jobs.eval.extends=trian", "did you mean `train`?");
}

TEST_CASE("A --set entry that replaces another one is still read by those below it", "[job]") {
  CompileRequest request;
  request.sets = {"jobs.train.graph.drop={op: relu, in: net}"};
  const plan::Plan plan = plan_of(kTrain, request);
  const plan::Job& job = plan.jobs.at(0);
  const auto out = std::ranges::find(job.steps, "out", &plan::Step::name);
  REQUIRE(out != job.steps.end());
  CHECK(job[out->inputs.at(0)].name == "drop");
}

TEST_CASE("Jobs extend each other at most 64 deep", "[job]") {
  std::string deep = "flow: 1\njobs:\n";
  for (int i = 0; i < 2'000; ++i)
    deep += fmt::format("  j{}: {{type: predict, extends: j{}}}\n", i, i + 1);
  CHECK(messages_of(deep).find("jobs extend each other more than 64 levels deep [E0112]") !=
        std::string::npos);
}

#ifndef FLOW_SANITIZED  // which take minutes
TEST_CASE("Extended jobs copy at most 200,000 values", "[job]") {
  std::string large = "flow: 1\njobs:\n  j0: {type: predict, graph: {a: {op: exp, in: 1}}}\n";
  for (int i = 1; i < 60; ++i) {
    large += fmt::format("  j{}:\n    type: predict\n    extends: j{}\n    graph:\n", i, i - 1);
    for (int k = 0; k < 500; ++k) large += fmt::format("      e{}_{}: {{op: exp, in: a}}\n", i, k);
  }
  const std::string messages = messages_of(large);
  CHECK(messages.find("extended jobs expand the file to more than 200000") != std::string::npos);
  CHECK(messages.find("[E0302]") == std::string::npos);
}
#endif

}  // namespace flow
