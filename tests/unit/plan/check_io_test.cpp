// What the plan check refuses of what drives a job's calls, one corruption at a time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/plan/model/lifetimes.h"
#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

namespace {

schedules::PiecewiseConstant& pieces_of(Job& job) {
  return std::get<schedules::PiecewiseConstant>(job.optimizer->learning_rate.function);
}

}  // namespace

TEST_CASE("deliveries have names, steps and formats that can be trusted", "[plan]") {
  std::vector<Corruption> corruptions;
  for (const char* format :
       {"", "%", "%s", "%n", "%d", "%g %g", "%*g", "%.1234g", "%123g", "%lf", "plain", "%%"})
    corruptions.push_back({"invalid number format", [format](Job& j) {
                             std::get<PrintSink>(j.hooks[0].sinks[0]).format = format;
                           }});
  check_corruptions(corruptions);
  check_corruptions({
      {"invalid name", [](Job& j) { j.hooks[0].name = "../../x"; }},
      {"never fires: no steps", [](Job& j) { j.hooks[0].steps.clear(); }},
      {"steps -1..5/1",
       [](Job& j) {
         j.hooks[0].steps = {{-1, 5, 1}};
       }},
      {"steps 5..5/1",
       [](Job& j) {
         j.hooks[0].steps = {{5, 5, 1}};
       }},
      {"steps 0..5/0",
       [](Job& j) {
         j.hooks[0].steps = {{0, 5, 0}};
       }},
      {"factor is nan; expected a finite number", [](Job& j) { j.hooks[0].factor = kNaN; }},
      {"another hook writes the same file", [](Job& j) { j.hooks.push_back(j.hooks[0]); }},
      {"`every` is 0", [](Job& j) { std::get<PrintSink>(j.hooks[0].sinks[0]).every = 0; }},
      {"scale is inf", [](Job& j) { std::get<PrintSink>(j.hooks[0].sinks[0]).scale = INFINITY; }},
      {"scale is inf",
       [](Job& j) {
         j.returns->sinks = {PrintSink{{}, {}, {}, INFINITY}};
       }},
      {"invalid name `../x` for a returned array",
       [](Job& j) { j.returns->value.items[0].name = "../x"; }},
      {"invalid returned key", [](Job& j) { j.returns->value.items[1].keys[0] = ".."; }},
      {"invalid returned key", [](Job& j) { j.returns->value.items[1].keys[0] = "a/b"; }},
      {"duplicate returned key",
       [](Job& j) {
         auto& keys = j.returns->value.items[1].keys;
         keys[0] = keys[1];
       }},
      {"1 keys for 2 returned values", [](Job& j) { j.returns->value.items[1].keys.pop_back(); }},
      {"a returned array has items",
       [](Job& j) {
         j.returns->value.items[1].items.clear();
         j.returns->value.items[1].keys.clear();
       }},
  });
}

TEST_CASE("values that a run follows are made by hooks, and their rules are in range", "[plan]") {
  check_corruptions({
      {"no hook of job `train` makes it", [](Job& j) { j.hooks.pop_back(); }},
      {"no hook of job `digits` makes it",
       [](Job& j) { j.run.checkpoint.keep_best->tensor = "best"; }},
      {"a value of job `digit`, which is not called",
       [](Job& j) { j.run.checkpoint.keep_best->job = "digit"; }},
      {"invalid span of 0 steps, 1 epochs",
       [](Job& j) { j.run.checkpoint.keep_best->every_epochs = 1; }},
      {"invalid span of 2 steps, 2 epochs",
       [](Job& j) { j.run.early_stopping->value.every_steps = 2; }},
      {"invalid span of 0 steps, 0 epochs",
       [](Job& j) { j.run.early_stopping->value.every_epochs = 0; }},
      {"invalid span of -2 steps, 2 epochs",
       [](Job& j) { j.run.early_stopping->value.every_steps = -2; }},
      {"invalid early stopping: patience 0", [](Job& j) { j.run.early_stopping->patience = 0; }},
      {"min_delta nan", [](Job& j) { j.run.early_stopping->min_delta = kNaN; }},
      {"min_delta -1", [](Job& j) { j.run.early_stopping->min_delta = -1; }},
      {"plateau requires a followed value, and no other takes one",
       [](Job& j) { j.optimizer->learning_rate.follows = j.run.checkpoint.keep_best; }},
      {"plateau requires a followed value, and no other takes one",
       [](Job& j) {
         j.optimizer->learning_rate.function = schedules::Plateau{.base = 1, .factor = 0.5};
       }},
      {"learning rate: `factor` is 1, out of range",
       [](Job& j) {
         j.optimizer->learning_rate.function = schedules::Plateau{.base = 1, .factor = 1};
       }},
  });
  Plan plan = full_plan();
  plan.jobs[1].run.early_stopping = {plan.jobs[0].run.early_stopping->value, 1, 0};
  CHECK(refusal(plan).find("a predict job follows a value") != std::string::npos);
}

/// A result whose rows of the batch do not lie first.
TensorId transposed_pool(Job& j) {
  Tensor transposed = tensor_named(j, "net/pool");
  transposed.name = "net/turned";
  transposed.shape = {2, 4, 3, 3};
  transposed.batch_axis = 1;
  Step step;
  step.op = "transpose";
  step.name = transposed.name;
  step.inputs = {id_named(j, "net/pool")};
  step.outputs = {TensorId(j.tensors.size())};
  step.attributes = attributes_of({{"perm", Integers{1, 0, 2, 3}}});
  j.tensors.push_back(transposed);
  j.steps.push_back(step);
  assign_lifetimes(j);
  return step.outputs[0];
}

TEST_CASE("what is cut along rows, scaled, or told of a scope is fit for it", "[plan]") {
  check_corruptions(
      {
          {"scope and op require each other",
           [](Job& j) {
             j.hooks[0].scope = "net";
             j.hooks[0].op = "";
           }},
          {"invalid scope",
           [](Job& j) {
             j.hooks[0].scope = "../net";
             j.hooks[0].op = "relu";
           }},
          {"invalid scope",
           [](Job& j) {
             j.hooks[0].scope = "net";
             j.hooks[0].op = "../relu";
           }},
          {"among 3 devices", [](Job& j) { j.devices = 3; }},
          {"among 4 devices",
           [](Job& j) {
             j.devices = 4;
             j.hooks[0].tensor = id_named(j, "net/conv/weight/momentum");
             j.hooks[0].per_device = true;
             tensor_named(j, "net/conv/weight/momentum").batch_axis = 0;
           }},
          {"cannot split",
           [](Job& j) {
             j.hooks[0].per_device = true;
             j.hooks[0].tensor = transposed_pool(j);
           }},
          {"among 2 devices",
           [](Job& j) {
             j.devices = 2;
             ReturnValue& parts = j.returns->value.items[0];
             parts.kind = ReturnValue::Kind::kListNumpy;
             parts.tensor = transposed_pool(j);
           }},
          {"factor is 2 for dtype uint8; expected 1",
           [](Job& j) {
             j.hooks[0].tensor = id_named(j, "net/pool.argmax");
             j.hooks[0].factor = 2;
           }},
          {"format idx: unexpected `array`", [](Job& j) { j.datasets[0].columns[0].array = "x"; }},
      },
      true);
}

TEST_CASE("gradients are told of train jobs alone", "[plan]") {
  Plan plan = sample::full_plan();
  Job& predict = plan.jobs[1];
  Hook hook;
  hook.name = "best";
  hook.tensor = id_named(predict, "best");
  hook.steps = {{0, 1, 1}};
  predict.hooks.insert(predict.hooks.begin(), hook);
  assign_lifetimes(predict);
  CHECK(refusal(plan).empty());
  predict.hooks[0].kind = Hook::Kind::kWatchDiff;
  CHECK_THAT(refusal(plan), Catch::Contains("a predict job has no gradients"));
}

TEST_CASE("what is float64 may be told with a factor", "[plan]") {
  Plan plan = sample::full_plan();
  Job& job = plan.jobs[1];
  Hook hook;
  hook.name = "x";
  hook.tensor = id_named(job, "x:float64");
  hook.steps = {{0, 1, 1}};
  hook.factor = 2;
  job.hooks.push_back(hook);
  assign_lifetimes(job);
  CHECK(refusal(plan).empty());
}

TEST_CASE("hooks on one tensor that write no file, or another one, are fine", "[plan]") {
  const auto with_another = [](Hook::Kind kind, std::vector<Sink> sinks) {
    Plan plan = sample::full_plan();
    plan.jobs[0].hooks.push_back(plan.jobs[0].hooks[0]);
    plan.jobs[0].hooks.back().kind = kind;
    plan.jobs[0].hooks.back().sinks = std::move(sinks);
    return refusal(plan);
  };
  CHECK(with_another(Hook::Kind::kWatch, {PrintSink{}}).empty());
  CHECK(with_another(Hook::Kind::kWatchDiff, {NpySink{}}).empty());
}

TEST_CASE("what has no rows goes whole to each device, and what is not cut has any number",
          "[plan]") {
  Plan plan = sample::full_plan();
  Job& job = plan.jobs[0];
  job.devices = 2;
  job.hooks[0].tensor = id_named(job, "loss:mean");
  job.hooks[0].per_device = true;
  assign_lifetimes(job);
  CHECK(refusal(plan).empty());
  job.devices = 4;
  job.hooks[0].tensor = id_named(job, "net/conv/weight/momentum");  // its extent 2
  job.hooks[0].per_device = false;
  tensor_named(job, "net/conv/weight/momentum").batch_axis = 0;
  assign_lifetimes(job);
  CHECK(refusal(plan).empty());
}

TEST_CASE("commands can be given to the system as they are", "[plan]") {
  const auto changed = [](const char* message, void (*change)(CommandSink&)) {
    return Corruption{message,
                      [change](Job& j) { change(std::get<CommandSink>(j.hooks[0].sinks[2])); }};
  };
  check_corruptions({
      changed("no program", [](CommandSink& c) { c.run.clear(); }),
      changed("no program", [](CommandSink& c) { c.run[0].clear(); }),
      changed("command sink: 3 shell lines; expected 1", [](CommandSink& c) { c.shell = true; }),
      changed("contains a NUL", [](CommandSink& c) { c.run[2] = std::string(1, '\0'); }),
      changed("environment variable name `A=B`", [](CommandSink& c) { c.env["A=B"] = ""; }),
      changed("command sink: environment variable `LR` contains a NUL byte",
              [](CommandSink& c) { c.env["LR"] = std::string("1\0", 2); }),
      changed("expected `$$` or `$env(NAME)`", [](CommandSink& c) { c.env["LR"] = "a$b"; }),
      changed("invalid `$`", [](CommandSink& c) { c.env["LR"] = "$env(A=B)"; }),
      changed("invalid `$`", [](CommandSink& c) { c.env["LR"] = "$env()"; }),
      changed("invalid `$`", [](CommandSink& c) { c.env["LR"] = "$env(A"; }),
      changed("invalid `$`",
              [](CommandSink& c) { c.env["LR"] = "$env(" + std::string(2000, 'A') + ")"; }),
      changed("timeout of 0 seconds", [](CommandSink& c) { c.timeout = 0; }),
      changed("timeout of nan seconds", [](CommandSink& c) { c.timeout = kNaN; }),
      changed("timeout of 1e+300 seconds", [](CommandSink& c) { c.timeout = 1e300; }),
      changed("`ack` requires", [](CommandSink& c) { c.mode = CommandSink::Mode::kSpawn; }),
  });
}

TEST_CASE("optimizer, schedule and run section are whole", "[plan]") {
  check_corruptions({
      {"a train job requires an optimizer", [](Job& j) { j.optimizer.reset(); }},
      {"unknown optimizer", [](Job& j) { j.optimizer->type = "adan"; }},
      {"expected a scalar", [](Job& j) { j.optimizer->loss = id_named(j, "loss"); }},
      {"loss `hit` is bool",
       [](Job& j) {
         Tensor hit = j[j.optimizer->loss];
         hit.name = "hit";
         hit.dtype = DType::kBool;
         Step step = step_named(j, "loss:mean");
         j.optimizer->loss = TensorId(j.tensors.size());
         j.tensors.push_back(hit);
         step.name = "hit";
         step.op = "cast";
         step.inputs = {id_named(j, "loss:mean")};
         step.outputs = {j.optimizer->loss};
         step.attributes = attributes_of({{"dtype", DType::kBool}});
         j.steps.push_back(step);
       }},
      {"loss scale `net/conv/weight` is float32 [2, 1, 3, 3]; expected a scalar",
       [](Job& j) {
         j.optimizer->loss_scale = {j.variables[0].tensor, j.optimizer->loss};
       }},
      {"factor of the gradients `net/scale` is float32 []; expected a scalar float32 result",
       [](Job& j) {
         const TensorId scale(j.tensors.size());
         j.tensors.push_back(j[j.optimizer->loss]);
         j.tensors.back().name = "net/scale";
         j.tensors.back().role = Role::kVariable;
         j.variables.push_back({scale, {}, false, false});
         j.optimizer->loss_scale = {scale, scale};
       }},
      {"loss scale `loss:mean` is float32 []; expected a scalar float32 variable",
       [](Job& j) {
         j.optimizer->loss_scale = {j.optimizer->loss, j.optimizer->loss};
       }},
      {"learning rate: 3 rates do not match 1 boundaries",
       [](Job& j) { pieces_of(j).boundaries.pop_back(); }},
      {"learning rate: 1 rates do not match 2 boundaries",
       [](Job& j) {
         j.optimizer->learning_rate = {schedules::PiecewiseScaling{1, {3, 4}, {0.5}}};
       }},
      {"must increase",
       [](Job& j) {
         pieces_of(j).boundaries = {80, 80};
       }},
      {"is not finite", [](Job& j) { pieces_of(j).values[0] = kNaN; }},
      {"learning rate: `steps` is 0, out of range",
       [](Job& j) { j.optimizer->learning_rate = {schedules::Cosine{.base = 1, .steps = 0}}; }},
      {"learning rate: `base` is nan, out of range",
       [](Job& j) { j.optimizer->learning_rate = {schedules::Constant{kNaN}}; }},
      {"learning rate: `power` is -1, out of range",
       [](Job& j) { j.optimizer->learning_rate = {schedules::Polynomial{.power = -1}}; }},
      {"learning rate: stage from step 5 after 5",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {{5, schedules::Constant{1}},
                                              {5, schedules::Constant{1}}};
       }},
      {"learning rate: stage from step 0 after 0",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {{0, schedules::Constant{1}}};
       }},
      {"learning rate: stage from step 9007199254740993",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {{kMostSteps + 1, schedules::Constant{1}}};
       }},
      {"learning rate: a list has a plateau",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {{5, schedules::Plateau{.base = 1, .factor = 0.5}}};
       }},
      {"learning rate: `steps` is 0, out of range",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {{5, schedules::Linear{.steps = 0}}};
       }},
      {"learning rate: `pct_start` is 2, out of range",
       [](Job& j) {
         j.optimizer->learning_rate = {
             schedules::OneCycle{.pct_start = 2, .div_factor = 1, .final_div_factor = 1}};
       }},
      {"invalid warm-up: 0 steps from 1",
       [](Job& j) {
         j.optimizer->learning_rate.stages = {
             {5, schedules::Constant{1}, Warmup{Warmup::Type::kLinear, 0, 1}}};
       }},
      {"invalid warm-up: 0 steps",
       [](Job& j) {
         j.optimizer->learning_rate.warmup = {Warmup::Type::kLinear, 0, 0.5};
       }},
      {"invalid warm-up: 10 steps from -0.5",
       [](Job& j) {
         j.optimizer->learning_rate.warmup = {Warmup::Type::kLinear, 10, -0.5};
       }},
      {"invalid warm-up: 10 steps from inf",
       [](Job& j) {
         j.optimizer->learning_rate.warmup = {Warmup::Type::kLinear, 10, INFINITY};
       }},
      {"steps or epochs: -1", [](Job& j) { j.run.epochs = -1; }},
      {"steps or epochs: -1", [](Job& j) { j.run.steps = -1; }},
      {"steps or epochs: 9007199254740993", [](Job& j) { j.run.steps = kMostSteps + 1; }},
      {"invalid pipeline depth 0", [](Job& j) { j.run.pipeline = 0; }},
      {"invalid pipeline depth 1025", [](Job& j) { j.run.pipeline = kMaxPipeline + 1; }},
      {"in the run section is out of range", [](Job& j) { j.run.checkpoint.every_steps = -1; }},
      {"in the run section is out of range", [](Job& j) { j.run.checkpoint.every_epochs = -1; }},
      {"in the run section is out of range", [](Job& j) { j.run.log_every = 0; }},
      {"in the run section is out of range", [](Job& j) { j.run.checkpoint.keep = 0; }},
  });
  Plan plan = sample::small_plan();
  plan.jobs[0].run.epochs = 1;
  CHECK_THAT(refusal(plan), Catch::Matchers::Contains("`epochs` requires a dataset"));
}

TEST_CASE("the ends of what the run section and the optimizer may say are allowed", "[plan]") {
  const std::vector<std::function<void(Job&)>> changes = {
      [](Job& j) { j.run.pipeline = kMaxPipeline; },
      [](Job& j) { j.run.pipeline = 1; },
      [](Job& j) { std::get<CommandSink>(j.hooks[0].sinks[2]).timeout = kLongestTimeout; },
      [](Job& j) {
        j.optimizer->learning_rate.warmup = {Warmup::Type::kConstant, 1, 0};
      },
      [](Job& j) {
        j.optimizer->learning_rate = {schedules::Cosine{.base = 1, .steps = kMostSteps}};
      },
  };
  for (const auto& change : changes) {
    Plan plan = sample::full_plan();
    change(plan.jobs[0]);
    CHECK(refusal(plan).empty());
  }
}

TEST_CASE("jobs that are called are there, once, and share what they can", "[plan]") {
  check_corruptions({
      {"calls an unknown job `x`", [](Job& j) { j.run.also[0].job = "x"; }},
      {"twice, or calls itself", [](Job& j) { j.run.also[0].job = j.name; }},
      {"twice, or calls itself", [](Job& j) { j.run.also.push_back(j.run.also[0]); }},
      {"every 0 steps, every 0 epochs", [](Job& j) { j.run.also[0].every_epochs = 0; }},
      {"every -1 steps, every 2 epochs", [](Job& j) { j.run.also[0].every_steps = -1; }},
      {"every 1 steps, every -1 epochs",
       [](Job& j) {
         j.run.also[0].every_steps = 1;
         j.run.also[0].every_epochs = -1;
       }},
      {"run on different devices", [](Job& j) { j.device = DeviceKind::kGpu; }},
  });
}
