// Returns, hooks, sinks, optimizer, run and placement of a job in its plan.
#include <fmt/format.h>

#include <tuple>

#include "compiler/job/tables/tables.h"
#include "ops/core/spec.h"
#include "runtime/base/file.h"
#include "tests/support/source_files.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

std::string predict(const std::string& returns, const std::string& more = "") {
  return "flow: 1\njobs:\n  j:\n    type: predict\n    inputs: {x: {shape: [4, 3], dtype: "
         "float32}}\n"
         "    graph: {a: {op: relu, in: x}, b: {op: relu}}\n    returns: " +
         returns + "\n" + more;
}

std::string train(const std::string& optimizer, const std::string& more = "") {
  return "flow: 1\nnote: a note\njobs:\n  j:\n    type: train\n    inputs:\n"
         "      x: {shape: [4, 3], dtype: float32}\n      labels: {shape: [4], dtype: int32}\n"
         "    graph:\n      d: {op: dense, in: x, units: 2}\n"
         "      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: d}\n"
         "    optimizer: " +
         optimizer + "\n" + more;
}

constexpr const char* kSgd = "{type: sgd, learning_rate: 0.1, minimize: loss}";

TEST_CASE("a return type is inferred from the value", "[job]") {
  const auto type = [](const std::string& value) {
    return plan_of(predict("{value: " + value + "}")).jobs[0].returns->type;
  };
  CHECK(type("b") == "Numpy");
  CHECK(type("[a, b]") == "Tuple[Numpy, Numpy]");
  CHECK(type("{first: a, second: b}") == "Dict[str, Numpy]");
  CHECK(type("[a, {k: [a, b]}]") == "Tuple[Numpy, Dict[str, Tuple[Numpy, Numpy]]]");
}

TEST_CASE("a return type says what a list and a mapping mean", "[job]") {
  const plan::Plan plan =
      plan_of(predict("{type: \" Dict[ int,List[Numpy] ]\", value: {1: [a, b], 2: [b]}}"));
  const plan::Returns& returns = *plan.jobs[0].returns;
  CHECK(returns.type == "Dict[int, List[Numpy]]");
  CHECK(returns.value.kind == plan::ReturnValue::Kind::kDict);
  CHECK(returns.value.keys == std::vector<std::string>{"1", "2"});
  CHECK(returns.value.items.at(0).kind == plan::ReturnValue::Kind::kList);
  CHECK(plan.jobs[0][returns.value.items[1].items.at(0).tensor].name == "b");
}

TEST_CASE("a return type that the value does not have is an error that shows both", "[job]") {
  const std::string messages =
      messages_of(predict("{type: \"Tuple[Numpy, Numpy]\", value: [a, {k: b}]}"));
  CHECK(messages.find("the value is a mapping; expected `Numpy`") != std::string::npos);
  CHECK(messages.find("Tuple[Numpy, Dict[str, Numpy]]") != std::string::npos);
  for (const char* type :
       {"Numpy[", "List", "List[Numpy, Numpy]", "Dict[Numpy]", "Tuple[]", "Dict[float, Numpy]",
        "numpy", "Numpy Numpy", "", "Callback[", "Callback[]", "Callback[Callback]", "Callbacks",
        "List[Callback[Numpy]]"})
    CHECK(messages_of(predict(std::string("{type: \"") + type + "\", value: b}")).find("E05") !=
          std::string::npos);
  CHECK(messages_of(predict("{type: \"" + std::string(1'000'000, 'L') + "\", value: b}"))
            .find("E0501") != std::string::npos);
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "List[";
  CHECK(messages_of(predict("{type: \"" + deep + "\", value: b}")).find("E0501") !=
        std::string::npos);
}

TEST_CASE("sinks are one or several, by name or with options", "[job]") {
  const plan::Plan plan =
      plan_of(predict("{value: b, to: [npy, none, {type: print, label: \"\", reduce: norm, over: "
                      "epoch, scale: 1/4, "
                      "format: \"%.6g\", every: 3}, {type: npy, layout: per_step}]}"));
  const auto& sinks = plan.jobs[0].returns->sinks;
  REQUIRE(sinks.size() == 4);
  const auto& print = std::get<plan::PrintSink>(sinks[2]);
  CHECK(print.label == "");
  CHECK(print.reduce == plan::Reduce::kNorm);
  CHECK(print.over == plan::Over::kEpoch);
  CHECK(print.scale == 0.25);
  CHECK(print.format == "%.6g");
  CHECK(print.every == 3);
  CHECK(std::get<plan::NpySink>(sinks[3]).per_step);
  CHECK(std::holds_alternative<plan::NpySink>(
      plan_of(predict("{value: b}")).jobs[0].returns->sinks.at(0)));
}

TEST_CASE("a command is a program or a shell line, with what it is given and how", "[job]") {
  const plan::Plan plan = plan_of(
      predict("{value: b, to: [{type: command, run: \"echo $HOME $(a) $$\"}, {type: command, run: "
              "[python3, $x, 5], env: {RATE: 1/10, TWO: $$2}, mode: spawn, format: text, on_error: "
              "warn, timeout: 1.5s, expects: Numpy}, {type: command, run: cat, ack: true, timeout: "
              "none}]}"));
  const auto& sinks = plan.jobs[0].returns->sinks;
  REQUIRE(sinks.size() == 3);
  plan::CommandSink line;
  line.shell = true;
  line.run = {"echo $HOME $(a) $$"};  // the shell's own variables
  CHECK(std::get<plan::CommandSink>(sinks[0]) == line);
  plan::CommandSink program;
  program.run = {"python3", "$x", "5"};
  program.env = {{"RATE", "1/10"}, {"TWO", "$$2"}};  // a dollar sign stays escaped
  program.mode = plan::CommandSink::Mode::kSpawn;
  program.format = plan::CommandSink::Format::kText;
  program.on_error = plan::CommandSink::OnError::kWarn;
  program.timeout = 1.5;
  CHECK(std::get<plan::CommandSink>(sinks[1]) == program);
  CHECK(std::get<plan::CommandSink>(sinks[2]).ack);
  CHECK_FALSE(std::get<plan::CommandSink>(sinks[2]).timeout);
}

TEST_CASE("a print format is one number's, nothing else", "[job]") {
  for (const char* format : {"%d", "%s", "%n", "%.6g %f", "none", "%", "%999f", "%*f", "%lf"})
    CHECK(messages_of(
              predict(std::string("{value: b, to: {type: print, format: \"") + format + "\"}}"))
              .find("E0507") != std::string::npos);
  for (const char* format : {"%f", "%-8.3e", "%5.1f %%", "x %G"})
    CHECK(messages_of(
              predict(std::string("{value: b, to: {type: print, format: \"") + format + "\"}}"))
              .empty());
}

TEST_CASE("hooks fire in every N steps or in named ones", "[job]") {
  const plan::Plan plan =
      plan_of(train(kSgd,
                    "    hooks:\n      - {watch: d, every: 5, check: finite, to: print}\n"
                    "      - {watch: loss, steps: [0, 5..8, 100..1000/100], as: losses}\n"
                    "      - {watch_diff: d, of: mean}\n"));
  const auto& hooks = plan.jobs[0].hooks;
  REQUIRE(hooks.size() == 3);
  CHECK(hooks[0].steps.at(0).stride == 5);
  CHECK(hooks[0].steps.at(0).end == INT64_MAX);
  CHECK(hooks[0].check_finite);
  CHECK(hooks[1].name == "losses");
  REQUIRE(hooks[1].steps.size() == 3);
  CHECK(hooks[1].steps[0].first == 0);
  CHECK(hooks[1].steps[0].end == 1);
  CHECK(hooks[1].steps[1].end == 8);
  CHECK(hooks[1].steps[2].stride == 100);
  CHECK(hooks[2].factor == 0.25);
  CHECK(hooks[2].name == "d");
}

TEST_CASE("a glob watches all that it matches, and its gradients where there are some", "[job]") {
  const plan::Plan plan =
      plan_of(train(kSgd, "    hooks: [{watch: \"d/*\"}, {watch_diff: \"**\"}]\n"));
  std::vector<std::string> values, gradients;
  for (const plan::Hook& hook : plan.jobs[0].hooks)
    (hook.kind == plan::Hook::Kind::kWatch ? values : gradients).push_back(hook.name);
  CHECK(values == std::vector<std::string>{"d/weight", "d/matmul", "d/bias", "d/bias_add"});
  CHECK(std::ranges::find(gradients, "d/weight") != gradients.end());
  CHECK(std::ranges::find(gradients, "x") != gradients.end());
  CHECK(std::ranges::find(gradients, "labels") == gradients.end());
}

TEST_CASE("momentum makes a slot for each trained variable", "[job]") {
  const plan::Plan plan = plan_of(
      train("{type: sgd, momentum: 0.9, nesterov: true, learning_rate: 0.1, minimize: loss}"));
  CHECK(variable(plan.jobs[0], "d/weight/momentum").slot);
  CHECK(plan.jobs[0].variables.size() == 4);
}

TEST_CASE("what is trained, what decays and what is regularized is chosen by name", "[job]") {
  const auto update = [](const plan::Plan& plan, const std::string& name) {
    const auto& steps = plan.jobs[0].steps;
    const auto found = std::ranges::find(steps, name, &plan::Step::name);
    REQUIRE(found != steps.end());
    return *found;
  };
  const std::string adamw = "{type: adamw, weight_decay: 0.5, learning_rate: 0.1, minimize: loss, ";
  const plan::Plan some = plan_of(train(adamw + "variables: \"**/bias\"}"));
  CHECK(some.jobs[0].optimizer->type == "adamw");
  CHECK(has_step(some.jobs[0], "d/bias:update"));
  CHECK_FALSE(has_step(some.jobs[0], "d/weight:update"));
  CHECK(variable(some.jobs[0], "d/bias/v").slot);
  for (const char* chosen : {"excludes: [\"**/bias\"]}", "includes: d/weight}"}) {
    const plan::Plan plan = plan_of(train(adamw + chosen));
    CHECK(update(plan, "d/weight:update").attributes.get<double>("weight_decay") == 0.5);
    CHECK(update(plan, "d/bias:update").attributes.get<double>("weight_decay") == 0);
  }
  const plan::Plan faster =
      plan_of(train(adamw + "learning_rate_scales: {\"d/*\": 10, d/bias: 0.5}}"));
  CHECK(update(faster, "d/weight:update").attributes.get<double>("rate_scale") == 10);
  CHECK(update(faster, "d/bias:update").attributes.get<double>("rate_scale") == 0.5);
  std::string text = train(kSgd);
  text.replace(text.find("op: dense"), 9, "op: dense, kernel_regularizer: {l1: 0.5}");
  const plan::Step regularize = update(plan_of(text), "d/weight:regularized");
  CHECK(regularize.attributes.get<double>("l1") == 2);  // 4 rows, before the scale of 1/4
  CHECK(regularize.attributes.get<double>("l2") == 0);
}

TEST_CASE("variables and embeddings have regularizers of their own", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  j:\n    type: train\n    inputs: {i: {shape: [4], dtype: int32}}\n"
      "    graph:\n"
      "      w: {op: variable, shape: [2], initializer: ones, regularizer: {l2: 0.5}}\n"
      "      e: {op: embedding, in: i, vocab_size: 5, units: 2, embeddings_regularizer: {l1: 1}}\n"
      "      loss: {op: multiply, in: [e, w]}\n"
      "    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}\n");
  for (const auto& [name, key, value] :
       {std::tuple{"w:regularized", "l2", 4.0}, {"e/weight:regularized", "l1", 8.0}}) {
    const auto step = std::ranges::find(plan.jobs[0].steps, name, &plan::Step::name);
    REQUIRE(step != plan.jobs[0].steps.end());
    CHECK(step->attributes.get<double>(key) == value);
  }
}

TEST_CASE("a learning rate is a number or a schedule", "[job]") {
  const auto schedule = [](const std::string& text) {
    return plan_of(train("{type: sgd, learning_rate: " + text + ", minimize: loss}"))
        .jobs[0]
        .optimizer->learning_rate;
  };
  CHECK(std::get<plan::schedules::Constant>(schedule("1/10").function).base == 0.1);
  const plan::Schedule constant = schedule("{type: constant, base: 0.2}");
  CHECK(std::get<plan::schedules::Constant>(constant.function).base == 0.2);
  const plan::Schedule pieces =
      schedule("{type: piecewise_constant, boundaries: [10, 20], values: [1, 0.1, 0.01]}");
  const auto& steps = std::get<plan::schedules::PiecewiseConstant>(pieces.function);
  CHECK(steps.boundaries == std::vector<int64_t>{10, 20});
  CHECK(steps.values == std::vector<double>{1, 0.1, 0.01});
  const plan::Schedule scaled =
      schedule("{type: piecewise_scaling, base: 1, boundaries: [10, 20], scale: 0.5}");
  CHECK(std::get<plan::schedules::PiecewiseScaling>(scaled.function).scale ==
        std::vector<double>{0.5, 0.5});
  const plan::Schedule warm = schedule(
      "{type: polynomial, base: 1, steps: 10, warmup: {type: linear, steps: 5, start_multiplier: "
      "0.5}}");
  const auto& polynomial = std::get<plan::schedules::Polynomial>(warm.function);
  CHECK(polynomial.base == 1);
  CHECK(polynomial.steps == 10);
  CHECK(polynomial.end == 1e-4);
  CHECK(polynomial.power == 1);
  CHECK_FALSE(polynomial.cycle);
  REQUIRE(warm.warmup);
  CHECK(warm.warmup->type == plan::Warmup::Type::kLinear);
  CHECK(warm.warmup->steps == 5);
  CHECK(warm.warmup->multiplier == 0.5);
}

TEST_CASE("schedules of a list follow one another", "[job]") {
  const std::string text = train(
      "{type: sgd, minimize: loss, learning_rate: [{type: linear, base: 1, steps: 5, until: 5}, "
      "{type: step, base: 2, steps: 9, until: 20, warmup: {type: constant, steps: 2, multiplier: "
      "0.5}}, 0.25]}");
  CompileRequest changed;
  changed.sets = {"jobs.j.optimizer.learning_rate.2=0.5"};
  const auto schedule = [&](const CompileRequest& request) {
    return plan_of(text, request).jobs[0].optimizer->learning_rate;
  };
  const plan::Schedule read = schedule({});
  CHECK(std::get<plan::schedules::Linear>(read.function).end_factor == 0);
  REQUIRE(read.stages.size() == 2);
  CHECK(read.stages[0].from == 5);
  CHECK(std::get<plan::schedules::StepDecay>(read.stages[0].function).factor == 0.1);
  CHECK(read.stages[0].warmup->steps == 2);
  CHECK(read.stages[1].from == 20);
  CHECK(std::get<plan::schedules::Constant>(read.stages[1].function).base == 0.25);
  CHECK(std::get<plan::schedules::Constant>(schedule(changed).stages[1].function).base == 0.5);
}

TEST_CASE("every optimizer and every learning rate of the tables makes a plan that is accepted",
          "[job]") {
  const auto keys = [](const job::Variant& variant) {
    std::string text;
    for (const job::KeyDef& key : variant.keys)
      if (key.fallback.empty())
        text += fmt::format(", {}: {}", key.name,
                            key.type == job::KeyType::kNumbers      ? "[1, 2]"
                            : key.type == job::KeyType::kBoundaries ? "[3]"
                                                                    : "1");
    return text;
  };
  for (const job::Variant& optimizer : job::kOptimizers.variants)
    for (const job::Variant& rate : job::kLearningRates.variants) {
      INFO(optimizer.type << " " << rate.type);
      std::string rates = keys(rate);
      if (rate.type == "piecewise_scaling") rates = ", base: 1, boundaries: [3], scale: [1]";
      if (rate.type == "plateau") rates = ", base: 1, watch: x, every: {steps: 2}";
      plan_of(train(fmt::format("{{type: {}{}, minimize: loss, learning_rate: {{type: {}{}}}}}",
                                optimizer.type, keys(optimizer), rate.type, rates)));
    }
}

TEST_CASE("the run section and notes are in the plan", "[job]") {
  const plan::Plan plan = plan_of(train(
      kSgd,
      "    run: {steps: 7, log_every: 2, on_nonfinite: warn, note: another, checkpoint: {load: a, "
      "save: \"b_$(seed)\", every: {steps: 3}, keep: 1}}\n"));
  const plan::Run& run = plan.jobs[0].run;
  CHECK(run.steps == 7);
  CHECK_FALSE(run.epochs);
  CHECK(run.log_every == 2);
  CHECK_FALSE(run.fail_on_nonfinite);
  CHECK(run.checkpoint.load == std::vector<std::string>{"a"});
  const plan::Plan several =
      plan_of(train(kSgd, "    run: {checkpoint: {load: [a, \"b_$(seed)\"]}}\n"));
  CHECK(several.jobs[0].run.checkpoint.load == std::vector<std::string>{"a", "b_0"});
  CHECK(run.checkpoint.save == "b_0");
  CHECK(run.checkpoint.every_steps == 3);
  CHECK(run.checkpoint.keep == 1);
  CHECK(plan.notes == std::vector<std::string>{"a note", "another"});
}

TEST_CASE("a job runs where the file and the target say", "[job]") {
  CompileRequest gpu;
  gpu.target.device = plan::DeviceKind::kGpu;
  const auto job = [](const std::string& device) {
    return predict("{value: b}", "    placement: {device: " + device + ", ids: \"0:0\"}\n");
  };
  CHECK(plan_of(job("auto"), gpu).jobs[0].device == plan::DeviceKind::kGpu);
  CHECK(plan_of(job("cpu"), gpu).jobs[0].device == plan::DeviceKind::kCpu);
  CHECK(plan_of(job("auto")).jobs[0].device == plan::DeviceKind::kCpu);
  CHECK(plan_of(job("gpu")).jobs[0].device == plan::DeviceKind::kGpu);
  CompileRequest forced;
  forced.target.forced = true;
  CHECK(plan_of(job("gpu"), forced).jobs[0].device == plan::DeviceKind::kCpu);
  CHECK(plan_of(predict("{value: b}", "    placement: {ids: \"0:2-3\"}\n")).jobs[0].devices == 2);
  for (const char* placement :
       {"{device: cpu, ids: \"0:0-64\"}", "{device: gpu, ids: \"0:64\"}", "{ids: \"0:0-2\"}"})
    CHECK(messages_of(predict("{value: b}", fmt::format("    placement: {}\n", placement)))
              .find("E0703") != std::string::npos);
}

TEST_CASE("a job that is not asked for may need what the target has not", "[job]") {
  CompileRequest request;
  request.job = "k";
  const std::string text =
      predict("{value: b}", "    placement: {device: gpu}\n") +
      "  k:\n    type: predict\n    inputs: {x: {shape: [4, 3], dtype: float32}}\n"
      "    graph: {a: {op: relu, in: x}}\n    returns: {value: a}\n";
  CHECK(plan_of(text, request).jobs.size() == 1);
  request.job = "kk";
  CHECK(messages_of(text, request).find("E0211") != std::string::npos);
}

TEST_CASE("inputs come from columns, arrays, generators or the command line", "[job]") {
  const plan::Plan plan = plan_of(
      "flow: 1\ndata: {d: {c: {npy: c.npy, rows: 10..20, mean: [1, 2, 3], std: 2}, unread: {npy: "
      "u.npy}}}\n"
      "jobs:\n  j:\n    type: predict\n    inputs:\n"
      "      a: {shape: [5, 3], dtype: float32, from: d.c}\n"
      "      b: {shape: [5, 3], dtype: float32, from: {npy: b.npy}, rows: false}\n"
      "      c: {shape: [5, 3], dtype: float32, from: {type: random_uniform, high: 2}}\n"
      "      e: {shape: [5, 3], dtype: float32}\n"
      "    graph: {s: {op: add, in: [a, b]}, t: {op: add, in: [c, e]}}\n"
      "    returns: {value: [s, t]}\n");
  const plan::Job& job = plan.jobs[0];
  REQUIRE(job.inputs.size() == 4);
  CHECK(std::get<plan::FromNpy>(job.inputs[1].source).path == "b.npy");
  CHECK(job[job.inputs[1].tensor].batch_axis == plan::kNoBatch);
  const auto& generator =
      std::get<plan::generators::Uniform>(std::get<plan::FromGenerator>(job.inputs[2].source));
  CHECK(generator.low == -1);
  CHECK(generator.high == 2);
  CHECK(std::holds_alternative<plan::FromCommandLine>(job.inputs[3].source));
  CHECK(job.inputs[3].from_where.empty());
  REQUIRE(job.datasets.size() == 1);
  REQUIRE(job.datasets[0].columns.size() == 1);
  const plan::Column& column = job.datasets[0].columns[0];
  CHECK(column.row_shape == Shape{3});
  CHECK(column.rows == std::vector<std::pair<int64_t, int64_t>>{{10, 20}});
  CHECK(column.mean.values == std::vector<double>{1, 2, 3});
  CHECK(column.std.values == std::vector<double>{2});
}

TEST_CASE("the guide has every key of an entry and every layer with variables", "[job]") {
  const std::string page = read_text(test::source_path("docs/guide/networks.md"));
  const auto table_below = [&page](std::string_view line) {
    const size_t begin = page.find("\n|", page.find(line));
    return page.substr(begin, page.find("\n\n", begin) - begin);
  };
  const std::string keys = table_below("Every entry also takes:"),
                    layers = table_below("Layers create variables.");
  std::vector<job::KeyDef> of_entries = job::kCallKeys;
  for (const job::KeyDef& key : job::training_keys(nullptr)) of_entries.push_back(key);
  for (const job::KeyDef& key : of_entries) {
    INFO(key.name);
    CHECK(keys.find(fmt::format("\n| `{}` |", key.name)) != std::string::npos);
  }
  for (const ops::OpSpec* op : ops::all_specs()) {
    INFO(op->name);
    if (op->takes_variables) CHECK(layers.find(fmt::format("`{}`", op->name)) != std::string::npos);
  }
}

}  // namespace
}  // namespace flow
