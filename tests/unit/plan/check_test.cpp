// What the plan check refuses, one corruption of a valid plan at a time.
#include "runtime/plan/check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "runtime/base/error.h"
#include "runtime/plan/lifetimes.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;

namespace {

using Integers = std::vector<int64_t>;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string refusal(const Plan& plan) {
  try {
    check(plan, "a.plan");
    return {};
  } catch (const RequestError& error) {
    return error.what();
  }
}

struct Corruption {
  std::string expected;  // in the message
  std::function<void(Job&)> corrupt;
};

Step& step_named(Job& job, std::string_view name) {
  return *std::ranges::find(job.steps, name, &Step::name);
}
Tensor& tensor_named(Job& job, std::string_view name) {
  return *std::ranges::find(job.tensors, name, &Tensor::name);
}
TensorId id_named(const Job& job, std::string_view name) {
  return TensorId(static_cast<size_t>(std::ranges::find(job.tensors, name, &Tensor::name) -
                                      job.tensors.begin()));
}

/// Each corruption of the train job must be refused with its message, lifetimes assigned again
/// where asked, so that nothing else is wrong.
void check_corruptions(const std::vector<Corruption>& corruptions, bool lifetimes = false) {
  for (const Corruption& corruption : corruptions) {
    Plan plan = sample::full_plan();
    corruption.corrupt(plan.jobs[0]);
    if (lifetimes) assign_lifetimes(plan.jobs[0]);
    const std::string message = refusal(plan);
    INFO(corruption.expected);
    CHECK_THAT(message, Catch::Matchers::StartsWith("a.plan: job `train`"));
    CHECK_THAT(message, Catch::Matchers::Contains(corruption.expected));
  }
}

}  // namespace

TEST_CASE("the sample plans pass the check") {
  CHECK(refusal(sample::small_plan()).empty());
  CHECK(refusal(sample::full_plan()).empty());
  for (uint64_t seed = 0; seed < 100; ++seed) CHECK(refusal(sample::random_plan(seed)).empty());
}

TEST_CASE("the check says where and what") {
  Plan plan = sample::full_plan();
  plan.jobs[0].steps[0].op = "convolute";
  CHECK(refusal(plan) == "a.plan: job `train`, step `net/conv/relu`: unknown op `convolute`");
}

TEST_CASE("a plan has jobs, each of its own name") {
  Plan plan = sample::full_plan();
  plan.jobs[1].name = "train";
  CHECK(refusal(plan) == "a.plan: two jobs are called `train`");
  plan.jobs[1].name = "../up";
  CHECK(refusal(plan) == "a.plan: `../up` is no name of a job");
  plan.jobs.clear();
  CHECK(refusal(plan) == "a.plan: the plan has no jobs");
  plan.version = 2;
  CHECK_THAT(refusal(plan), Catch::Matchers::Contains("has version 2"));
}

TEST_CASE("ids lie within their vectors") {
  const TensorId far{size_t{1000}}, none;
  check_corruptions({
      {"there is no tensor 1000", [&](Job& j) { j.tensors[0].alias = far; }},
      {"there is no tensor 1000", [&](Job& j) { j.steps[0].inputs[0] = far; }},
      {"there is no tensor -1", [&](Job& j) { j.steps[0].inputs[0] = none; }},
      {"there is no tensor 1000", [&](Job& j) { j.steps[0].outputs[0] = far; }},
      {"there is no tensor 1000", [&](Job& j) { j.steps[0].posts[0].operands[0] = far; }},
      {"there is no tensor -1", [&](Job& j) { j.variables[0].tensor = none; }},
      {"there is no tensor 1000", [&](Job& j) { j.inputs[0].tensor = far; }},
      {"there is no tensor 1000", [&](Job& j) { j.hooks[0].tensor = far; }},
      {"there is no tensor 1000", [&](Job& j) { j.optimizer->loss = far; }},
      {"there is no tensor -1", [&](Job& j) { j.returns->value.items[1].items[0].tensor = none; }},
      {"a nested value names a tensor", [&](Job& j) { j.returns->value.tensor.value = 0; }},
  });
}

TEST_CASE(
    "tensors have names that are safe as paths, shapes that can be counted, and little bytes") {
  std::vector<Corruption> corruptions;
  for (const char* name :
       {"", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".hidden", "a b", "a\n"})
    corruptions.push_back({"this cannot be a name", [name](Job& j) { j.tensors[0].name = name; }});
  check_corruptions(corruptions);
  check_corruptions({
      {"there are two of this name", [](Job& j) { j.tensors[1].name = j.tensors[0].name; }},
      {"the extent 0", [](Job& j) { j.tensors[0].shape[0] = 0; }},
      {"the extent -1", [](Job& j) { j.tensors[0].shape[0] = -1; }},
      {"more elements than can be counted",
       [](Job& j) {
         j.tensors[0].shape = {INT64_MAX, INT64_MAX};
       }},
      {"is too large", [](Job& j) { j.tensors[0].shape = {int64_t{1} << 50}; }},
      {"at most 256 TiB are possible",
       [](Job& j) {
         j.tensors[0].shape = {int64_t{1} << 46};
         j.tensors[1].shape = {int64_t{1} << 46};
       }},
      {"9 dimensions", [](Job& j) { j.tensors[0].shape = Shape(Integers(9, 1)); }},
      {"rows on axis 4", [](Job& j) { j.tensors[0].rows = 4; }},
      {"rows on axis -3", [](Job& j) { j.tensors[0].rows = -3; }},
      {"only results may take over memory", [](Job& j) { j.tensors[0].alias.value = 1; }},
      {"cannot lie where", [](Job& j) { tensor_named(j, "net/flat").alias = id_named(j, "loss"); }},
      {"precision `float31`", [](Job& j) { j.precision = "float31"; }},
  });
}

TEST_CASE("steps fit their signatures") {
  check_corruptions({
      {"1 operands, convolution takes 2", [](Job& j) { j.steps[0].inputs.pop_back(); }},
      {"operand `x` of convolution is int32", [](Job& j) { j.tensors[0].dtype = DType::kInt32; }},
      {"operand `x` of convolution is float32 in a job of float64",
       [](Job& j) { j.precision = "float64"; }},
      {"has no attribute `more`", [](Job& j) { j.steps[0].attributes.set("more", true); }},
      {"lacks the attribute `dilation`", [](Job& j) { j.steps[0].attributes = {}; }},
      {"`groups` of convolution is no count",
       [](Job& j) { j.steps[0].attributes.set("groups", int64_t{0}); }},
      {"`groups` of convolution is no count",
       [](Job& j) { j.steps[0].attributes.set("groups", 1.0); }},
      {"`padding` of convolution is no pads",
       [](Job& j) {
         j.steps[0].attributes.set("padding", Integers{1, 1, 1, -1});
       }},
      {"the result `net/conv/relu` is float32 [4, 2, 7, 6], it must be float32 [4, 2, 6, 6]",
       [](Job& j) { tensor_named(j, "net/conv/relu").shape[2] = 7; }},
      {"the result `net/pool.argmax` is int32",
       [](Job& j) { tensor_named(j, "net/pool.argmax").dtype = DType::kInt32; }},
      {"result 0 must be a tensor", [](Job& j) { j.steps[0].outputs[0] = TensorId(); }},
      {"2 results, convolution has 1",
       [](Job& j) { j.steps[0].outputs.push_back(j.steps[0].outputs[0]); }},
      {"its posts cannot be fused onto convolution",
       [](Job& j) { std::swap(j.steps[0].posts[0], j.steps[0].posts[1]); }},
      {"a bias of [2] along axis 0",
       [](Job& j) { j.steps[0].posts[0].attributes.set("axis", int64_t{0}); }},
      {"cannot be the name of a post", [](Job& j) { j.steps[0].posts[0].name = "../x"; }},
      {"`rate` of dropout is no fraction",
       [](Job& j) { step_named(j, "net/drop").attributes.set("rate", 1.0); }},
      {"`rate` of dropout is no fraction",
       [](Job& j) { step_named(j, "net/drop").attributes.set("rate", kNaN); }},
  });
}

TEST_CASE("steps read what has been made, and taps alone read taps") {
  check_corruptions({
      {"before that is made", [](Job& j) { std::swap(j.steps[1], j.steps[2]); }},
      {"there are two of this name", [](Job& j) { j.steps[1].name = j.steps[0].name; }},
      {"this cannot be a name", [](Job& j) { j.steps[1].name = "a/../b"; }},
      {"is made already",
       [](Job& j) {
         Step again = j.steps[2];
         again.name = "again";
         j.steps.push_back(again);
       }},
      {"which is no result", [](Job& j) { tensor_named(j, "net/conv/relu").role = Role::kInput; }},
      {"no step makes this result",
       [](Job& j) {
         j.tensors.push_back(j.tensors.back());
         j.tensors.back().name = "orphan";
         j.tensors.back().alias = TensorId();
       }},
      {"which a tap makes", [](Job& j) { j.steps[0].tap = true; }},
      {"a tap makes the loss", [](Job& j) { step_named(j, "loss:mean").tap = true; }},
      {"after its update",
       [](Job& j) {
         // The update of the dense weight moves before the product that reads it.
         const auto at = std::ranges::find(j.steps, "net/drop:diff", &Step::name);
         std::iter_swap(at, at + 1);
       }},
      {"does not hold the places of this pooling",
       [](Job& j) {
         // Places of some other origin: an input of the right dtype and shape.
         Tensor places = tensor_named(j, "net/pool.argmax");
         places.name = "forged";
         places.role = Role::kInput;
         j.tensors.push_back(places);
         step_named(j, "net/conv/relu:diff").inputs[1] = TensorId(j.tensors.size() - 1);
       }},
      {"does not hold the places of this pooling",
       [](Job& j) {
         step_named(j, "net/pool").attributes.set("padding", Integers{0, 1, 0, 1});
       }},
      {"does not come from the loss of these labels",
       [](Job& j) {
         j.tensors.push_back(tensor_named(j, "labels"));
         j.tensors.back().name = "other_labels";
         step_named(j, "net/dense/matmul:diff").inputs[0] = TensorId(j.tensors.size() - 1);
       }},
  });
}

TEST_CASE("variables are updated once, in place, by train jobs") {
  check_corruptions({
      {"must take its place",
       [](Job& j) { tensor_named(j, "net/conv/bias:updated").alias = TensorId(); }},
      {"the fused sgd_update takes the variable alone",
       [](Job& j) {
         for (Step& step : j.steps)
           if (!step.posts.empty() && step.posts.back().op == "sgd_update")
             step.posts.back().operands.push_back(id_named(j, "loss:mean"));
       }},
      {"which is no trainable variable", [](Job& j) { j.variables[0].trainable = false; }},
      {"which is no optimizer's slot", [](Job& j) { j.variables[2].slot = false; }},
      {"update variables",
       [](Job& j) {
         j.train = false;
         j.optimizer.reset();
       }},
      {"update variables", [](Job& j) { j.steps.back().tap = true; }},
      {"cannot take the place of",
       [](Job& j) { tensor_named(j, "loss:mean").alias = id_named(j, "loss:mean"); }},
      {"cannot take the place of",
       [](Job& j) { tensor_named(j, "net/drop.mask").alias = id_named(j, "net/drop.mask"); }},
      {"cannot take the place of",
       [](Job& j) { tensor_named(j, "net/conv/relu:diff").alias = id_named(j, "net/conv/relu"); }},
  });
  sample::JobBuilder b("job");
  const TensorId w = b.variable("w", {2});
  b.alias(b.one("relu", "y", {w}), w);
  CHECK_THAT(refusal({kVersion, "", "", {b.done()}, {}}),
             Catch::Matchers::Contains("`y` cannot take the place of `w`"));
}

TEST_CASE("variables and inputs are listed once, with what they start from") {
  check_corruptions({
      {"it is missing among the inputs", [](Job& j) { j.inputs.pop_back(); }},
      {"stands twice", [](Job& j) { j.variables.push_back(j.variables[0]); }},
      {"it is none by its role",
       [](Job& j) {
         j.inputs[0].tensor = j.inputs[1].tensor;
         j.inputs[1].tensor = j.variables[0].tensor;
       }},
      {"unknown type `zeroes`", [](Job& j) { j.variables[1].initializer.type = "zeroes"; }},
      {"truncated_normal lacks `stddev`",
       [](Job& j) { j.variables[0].initializer.values.erase("stddev"); }},
      {"zeros takes 0 numbers, not 1",
       [](Job& j) { j.variables[1].initializer.values["value"] = 1; }},
      {"`stddev` is -1", [](Job& j) { j.variables[0].initializer.values["stddev"] = -1; }},
      {"`mean` is nan", [](Job& j) { j.variables[0].initializer.values["mean"] = kNaN; }},
      {"a path for the initializer npy", [](Job& j) { j.variables[3].initializer.path = ""; }},
      {"a path for the initializer zeros", [](Job& j) { j.variables[1].initializer.path = "x"; }},
  });
}

TEST_CASE("inputs from datasets have columns that fit") {
  check_corruptions({
      {"there is no column `digits.image`",
       [](Job& j) {
         j.inputs[0].source = FromDataset{"digits", "image"};
       }},
      {"rows of `images` are [1, 6, 7]", [](Job& j) { j.datasets[0].columns[0].row_shape[2] = 7; }},
      {"format `csv`", [](Job& j) { j.datasets[0].columns[0].format = "csv"; }},
      {"it has no path", [](Job& j) { j.datasets[0].columns[0].path = ""; }},
      {"scale inf", [](Job& j) { j.datasets[0].columns[0].scale = INFINITY; }},
      {"3 means or deviations",
       [](Job& j) {
         j.datasets[0].columns[0].mean = {1, 2, 3};
       }},
      {"std 0", [](Job& j) { j.datasets[0].columns[0].std = {0}; }},
      {"rows 5..5",
       [](Job& j) {
         j.datasets[0].columns[0].rows = {5, 5};
       }},
      {"two columns are called", [](Job& j) { j.datasets[0].columns[1].name = "images"; }},
      {"this cannot be a name", [](Job& j) { j.datasets[0].name = "a/b"; }},
      {"there are two of this name", [](Job& j) { j.datasets.push_back(j.datasets[0]); }},
      {"it has no path", [](Job& j) { j.inputs[0].source = FromNpy{}; }},
      {"unknown type `dice`",
       [](Job& j) {
         j.inputs[0].source = FromGenerator{"dice", {}};
       }},
      {"random_uniform makes no int32",
       [](Job& j) {
         j.inputs[1].source = FromGenerator{"random_uniform", {{"low", 0}, {"high", 1}}};
       }},
      {"values from 3 to 3",
       [](Job& j) {
         j.inputs[1].source = FromGenerator{"random_int", {{"low", 3}, {"high", 3}}};
       }},
      {"integers from 0 to 1e+300",
       [](Job& j) {
         j.inputs[1].source = FromGenerator{"random_int", {{"low", 0}, {"high", 1e300}}};
       }},
  });
}

TEST_CASE("deliveries have names, steps and formats that can be trusted") {
  std::vector<Corruption> corruptions;
  for (const char* format :
       {"", "%", "%s", "%n", "%d", "%g %g", "%*g", "%.1234g", "%123g", "%lf", "plain", "%%"})
    corruptions.push_back({"formats no number", [format](Job& j) {
                             std::get<PrintSink>(j.hooks[0].sinks[0]).format = format;
                           }});
  check_corruptions(corruptions);
  check_corruptions({
      {"this cannot be a name", [](Job& j) { j.hooks[0].name = "../../x"; }},
      {"it never fires", [](Job& j) { j.hooks[0].steps.clear(); }},
      {"steps 5..5/1",
       [](Job& j) {
         j.hooks[0].steps = {{5, 5, 1}};
       }},
      {"steps 0..5/0",
       [](Job& j) {
         j.hooks[0].steps = {{0, 5, 0}};
       }},
      {"a factor of nan", [](Job& j) { j.hooks[0].factor = kNaN; }},
      {"another hook writes this too", [](Job& j) { j.hooks.push_back(j.hooks[0]); }},
      {"prints every 0", [](Job& j) { std::get<PrintSink>(j.hooks[0].sinks[0]).every = 0; }},
      {"scales by inf", [](Job& j) { std::get<PrintSink>(j.hooks[0].sinks[0]).scale = INFINITY; }},
      {"cannot name a folder", [](Job& j) { j.returns->value.items[1].keys[0] = ".."; }},
      {"cannot name a folder", [](Job& j) { j.returns->value.items[1].keys[0] = "a/b"; }},
      {"stands twice",
       [](Job& j) {
         auto& keys = j.returns->value.items[1].keys;
         keys[0] = keys[1];
       }},
      {"1 keys for 2 returned values", [](Job& j) { j.returns->value.items[1].keys.pop_back(); }},
      {"a returned array holds nothing",
       [](Job& j) {
         j.returns->value.items[1].items.clear();
         j.returns->value.items[1].keys.clear();
       }},
  });
}

TEST_CASE("commands can be given to the system as they are") {
  const auto changed = [](const char* message, void (*change)(CommandSink&)) {
    return Corruption{message,
                      [change](Job& j) { change(std::get<CommandSink>(j.hooks[0].sinks[2])); }};
  };
  check_corruptions({
      changed("runs nothing", [](CommandSink& c) { c.run.clear(); }),
      changed("runs nothing", [](CommandSink& c) { c.run[0].clear(); }),
      changed("a shell is given 3 lines", [](CommandSink& c) { c.shell = true; }),
      changed("holds a NUL", [](CommandSink& c) { c.run[2] = std::string(1, '\0'); }),
      changed("no room for the name `A=B`", [](CommandSink& c) { c.env["A=B"] = ""; }),
      changed("`LR` of a command's environment holds a NUL",
              [](CommandSink& c) { c.env["LR"] = std::string("1\0", 2); }),
      changed("given 0 seconds", [](CommandSink& c) { c.timeout = 0; }),
      changed("given nan seconds", [](CommandSink& c) { c.timeout = kNaN; }),
      changed("given 1e+300 seconds", [](CommandSink& c) { c.timeout = 1e300; }),
      changed("acknowledges none", [](CommandSink& c) { c.mode = CommandSink::Mode::kSpawn; }),
  });
}

TEST_CASE("optimizer, schedule and run section are whole") {
  check_corruptions({
      {"train jobs have an optimizer", [](Job& j) { j.optimizer.reset(); }},
      {"there is no such optimizer", [](Job& j) { j.optimizer->type = "adagrad"; }},
      {"it must be a scalar", [](Job& j) { j.optimizer->loss = id_named(j, "loss"); }},
      {"unknown learning rate", [](Job& j) { j.optimizer->learning_rate.type = "fast"; }},
      {"3 rates for 1 boundaries",
       [](Job& j) { j.optimizer->learning_rate.boundaries.pop_back(); }},
      {"do not grow",
       [](Job& j) {
         j.optimizer->learning_rate.boundaries = {80, 80};
       }},
      {"is not finite", [](Job& j) { j.optimizer->learning_rate.rates[0] = kNaN; }},
      {"constant lacks `base`",
       [](Job& j) {
         j.optimizer->learning_rate = {"constant", {}, {}, {}};
       }},
      {"constant takes 1 numbers, not 2",
       [](Job& j) {
         j.optimizer->learning_rate = {"constant", {{"base", 1}, {"steps", 2}}, {}, {}};
       }},
      {"constant has no boundaries",
       [](Job& j) {
         j.optimizer->learning_rate = {"constant", {{"base", 1}}, {3}, {}};
       }},
      {"`steps` of the learning rate is 0",
       [](Job& j) {
         j.optimizer->learning_rate = {"cosine", {{"alpha", 0}, {"base", 1}, {"steps", 0}}, {}, {}};
       }},
      {"`steps` of the learning rate is 1.5",
       [](Job& j) {
         j.optimizer->learning_rate = {
             "cosine", {{"alpha", 0}, {"base", 1}, {"steps", 1.5}}, {}, {}};
       }},
      {"`base` of the learning rate is nan",
       [](Job& j) {
         j.optimizer->learning_rate = {"constant", {{"base", kNaN}}, {}, {}};
       }},
      {"unknown warm-up `slow`",
       [](Job& j) {
         j.optimizer->learning_rate.warmup = {"slow", 10, 0.5};
       }},
      {"a warm-up of 0 steps",
       [](Job& j) {
         j.optimizer->learning_rate.warmup = {"linear", 0, 0.5};
       }},
      {"a negative number", [](Job& j) { j.run.epochs = -1; }},
      {"cannot be counted", [](Job& j) { j.run.log_every = 0; }},
      {"cannot be counted", [](Job& j) { j.run.checkpoint.keep = 0; }},
  });
  Plan plan = sample::small_plan();
  plan.jobs[0].run.epochs = 1;
  CHECK_THAT(refusal(plan), Catch::Matchers::Contains("epochs without a dataset"));
}

TEST_CASE("jobs that are called are there, once, and share what they can") {
  check_corruptions({
      {"it calls the job `x`, which is not there", [](Job& j) { j.run.also[0].job = "x"; }},
      {"twice, or is it", [](Job& j) { j.run.also[0].job = j.name; }},
      {"twice, or is it", [](Job& j) { j.run.also.push_back(j.run.also[0]); }},
      {"every 0 steps and 0 epochs", [](Job& j) { j.run.also[0].every_epochs = 0; }},
      {"every -1 steps and 2 epochs", [](Job& j) { j.run.also[0].every_steps = -1; }},
      {"run on different devices", [](Job& j) { j.device = DeviceKind::kGpu; }},
  });
}

TEST_CASE("lifetimes that are too short are refused") {
  check_corruptions({{"but is in use", [](Job& j) { --tensor_named(j, "net/pool").last.value; }},
                     {"but is in use", [](Job& j) { ++tensor_named(j, "loss").first.value; }}});
}
