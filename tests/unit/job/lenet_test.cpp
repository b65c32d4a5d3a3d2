// The shipped LeNet job, from text to checked plan.
#include <chrono>

#include "runtime/base/file.h"
#include "tests/support/source_files.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

std::string lenet() { return read_text(test::source_path("jobs/lenet.yaml")); }

TEST_CASE("LeNet compiles to a plan for each of its jobs", "[job]") {
  const plan::Plan plan = plan_of(lenet());
  REQUIRE(plan.jobs.size() == 4);
  const plan::Job& train = plan.jobs[0];
  CHECK(train.name == "train");
  CHECK(train.train);
  CHECK(train.seed == 1);
  CHECK(train.device == plan::DeviceKind::kCpu);
  CHECK_FALSE(plan.jobs[1].train);
  CHECK(plan.source == "job.yaml");
  CHECK(fs::path(plan.root).is_absolute());
}

TEST_CASE("LeNet's variables have OneFlow's shapes and the initializers of the file", "[job]") {
  const plan::Plan plan = plan_of(lenet());
  const plan::Job& train = plan.jobs[0];
  REQUIRE(train.variables.size() == 8);
  const plan::Variable& weight = variable(train, "lenet/conv1/weight");
  CHECK(train[weight.tensor].shape == Shape{32, 1, 5, 5});
  CHECK(std::get<plan::initializers::TruncatedNormal>(weight.initializer).stddev == 0.1);
  CHECK(weight.trainable);
  CHECK(train[variable(train, "lenet/dense1/weight").tensor].shape == Shape{512, 3136});
  CHECK(plan::type_name(variable(train, "lenet/dense2/bias").initializer) == "zeros");
}

TEST_CASE("LeNet's inputs say which rows they read", "[job]") {
  const plan::Plan plan = plan_of(lenet());
  const plan::Job& train = plan.jobs[0];
  REQUIRE(train.inputs.size() == 2);
  const auto& from = std::get<plan::FromDataset>(train.inputs[0].source);
  CHECK(from.dataset == "mnist_train");
  CHECK(from.column == "images");
  CHECK(train[train.inputs[0].tensor].batch_axis == 0);
  REQUIRE(train.datasets.size() == 1);
  REQUIRE(train.datasets[0].columns.size() == 2);
  CHECK(train.datasets[0].columns[0].scale == 1.0 / 255);
  CHECK(train.datasets[0].columns[0].row_shape == Shape{1, 28, 28});
  CHECK(train.datasets[0].columns[1].row_shape == Shape{});
}

TEST_CASE("LeNet's optimizer, return and run section are data of its plan", "[job]") {
  const plan::Plan plan = plan_of(lenet());
  const plan::Job& train = plan.jobs[0];
  REQUIRE(train.optimizer);
  CHECK(std::get<plan::schedules::Constant>(train.optimizer->learning_rate.function).base == 0.1);
  CHECK(train.optimizer->loss_name == "loss");
  CHECK(train[train.optimizer->loss].shape == Shape{});
  REQUIRE(train.returns);
  CHECK(train.returns->type == "Numpy");
  CHECK(train[train.returns->value.tensor].name == "loss");
  CHECK(std::get<plan::PrintSink>(train.returns->sinks.at(0)).every == 20);
  CHECK(train.run.epochs == 1);
  CHECK(plan.jobs[1].returns->type == "Tuple[Numpy, Numpy]");
}

TEST_CASE("dropout is in LeNet's train job alone", "[job]") {
  const plan::Plan plan = plan_of(lenet());
  CHECK(has_step(plan.jobs[0], "lenet/drop"));
  CHECK_FALSE(has_step(plan.jobs[1], "lenet/drop"));
}

TEST_CASE("the same file compiles to the same plan, and to one job when one is asked for",
          "[job]") {
  CompileRequest request;
  request.job = "eval";
  const plan::Plan plan = plan_of(lenet(), request);
  REQUIRE(plan.jobs.size() == 1);
  CHECK(plan.jobs[0].name == "eval");
}

TEST_CASE("LeNet in float64 widens its images and nothing else", "[job]") {
  CompileRequest request;
  request.sets = {"jobs.train.precision=float64"};
  const plan::Plan plan = plan_of(lenet(), request);
  const plan::Job& train = plan.jobs[0];
  CHECK(find_tensor(train, "images")->dtype == DType::kFloat32);
  CHECK(find_tensor(train, "labels")->dtype == DType::kInt32);
  CHECK(train[variable(train, "lenet/conv1/weight").tensor].dtype == DType::kFloat64);
  CHECK(find_tensor(train, "loss")->dtype == DType::kFloat64);
}

TEST_CASE("hooks of the command line watch values and gradients", "[job]") {
  CompileRequest request;
  request.job = "train";
  request.watches = {"lenet", "lenet/*/weight:1000"};
  request.watch_diffs = {"lenet:2", "lenet/*/bias"};
  const plan::Plan plan = plan_of(lenet(), request);
  const auto& hooks = plan.jobs[0].hooks;
  REQUIRE(hooks.size() == 1 + 4 + 1 + 4);
  CHECK(hooks[0].name == "lenet");
  CHECK(hooks[0].kind == plan::Hook::Kind::kWatch);
  CHECK(hooks[1].name == "lenet/conv1/weight");
  CHECK(hooks[1].steps.at(0).stride == 1000);
  CHECK(hooks[5].kind == plan::Hook::Kind::kWatchDiff);
  CHECK(hooks[5].factor == 1);
  CHECK(plan.jobs[0][hooks[5].tensor].shape == Shape{100, 10});
}

TEST_CASE("everything of LeNet can be watched, in train and predict jobs", "[job]") {
  CompileRequest request;
  request.watches = {"**"};
  const plan::Plan plan = plan_of(lenet(), request);
  for (const plan::Job& job : plan.jobs) CHECK(job.hooks.size() > 20);
}

}  // namespace
}  // namespace flow
