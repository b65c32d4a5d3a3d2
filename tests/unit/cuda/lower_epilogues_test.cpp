// Epilogue ops as steps, updates last: plan to plan, without a device.
#include "runtime/cuda/program/passes.h"

#include <catch2/catch.hpp>
#include <functional>

#include "runtime/exec/core/memory.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::JobBuilder;
using test::step_names;

namespace {

const plan::Step& step_named(const plan::Job& job, const std::string& name) {
  for (const plan::Step& step : job.steps)
    if (step.name == name) return step;
  FAIL("no step " << name);
  return job.steps.front();
}

bool alike(plan::TensorId, plan::TensorId) { return true; }

/// w and v, updated by two products; the bias by a step in the middle, before `late` reads w.
plan::Job two_layers() {
  JobBuilder b;
  const auto x = b.input("x", {4, 3});
  const auto dy = b.input("dy", {4, 2});
  const auto w = b.variable("w", {2, 3}), v = b.variable("v", {2, 3}), bias = b.variable("b", {2});
  b.step("bias_add_grad", "b:diff", {dy}, {{"axis", int64_t{1}}}, {2});
  const auto db = test::tensor(b.build(), "b:diff");
  b.step("sgd_update", "b:update", {db, bias}, {{"scale", 0.5}, {"rate_scale", 1.0}}, {2},
         DType::kFloat32, bias);
  b.step("matmul", "late", {dy, w}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 3});
  for (const auto& [name, variable] : {std::pair{"w", w}, {"v", v}}) {
    b.step("matmul", std::string(name) + ":diff", {dy, x},
           {{"transpose_a", true}, {"transpose_b", false}}, {2, 3}, DType::kFloat32, variable);
    b.fuse("sgd_update", {variable},
           {{"scale", name == std::string("w") ? 0.5 : 0.25}, {"rate_scale", 1.0}});
  }
  return b.build();
}

}  // namespace

TEST_CASE("a bias and a relu stay with the product or convolution that takes them", "[cuda]") {
  const plan::Job job = test::lenet_training(2);
  const plan::Job expanded = cuda::lower_epilogues(job);
  for (const char* name : {"conv1/conv", "conv2/conv", "dense1/matmul", "dense2/matmul"})
    CHECK(step_named(expanded, name).epilogue.size() == step_named(job, name).epilogue.size());
  for (const char* name : {"dense1:dw", "dense2:dw"})
    CHECK(step_named(expanded, name).epilogue.empty());
  CHECK(expanded.steps.size() == job.steps.size() + 2);
}

TEST_CASE("posts that a kernel does not take are steps that work in place", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {3, 3}), bias = b.variable("b", {3});
  const auto y = b.step("scale", "y", {x}, {{"factor", 2.0}}, {3, 3});
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.fuse("relu", {}, {});
  const plan::Job job = cuda::lower_epilogues(b.build());
  CHECK(step_names(job) == std::vector<std::string>{"y", "y/bias_add", "y/relu"});
  CHECK(job.steps[2].outputs[0] == y);
  CHECK(job.steps[1].inputs == std::vector<plan::TensorId>{job.steps[0].outputs[0], bias});
  const auto owners = exec::share_memory(job, alike);
  for (const plan::Step& step : job.steps)
    CHECK(owners[step.outputs[0].index()] == job.steps[0].outputs[0]);
}

TEST_CASE("what is rounded at last is wide until then", "[cuda]") {
  JobBuilder b;
  const DType low_precision = DType::kBFloat16;
  const auto x = b.input("x", {4, 3}), w = b.input("w", {3, 2}), bias = b.variable("b", {2});
  b.step("matmul", "y", {x, w}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 2},
         low_precision);
  b.fuse("relu", {}, {});
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.fuse("cast", {}, {{"dtype", low_precision}});
  plan::Job job = b.build();
  job.precision = "mixed_bfloat16";
  job = cuda::lower_epilogues(job);
  CHECK(step_names(job) == std::vector<std::string>{"y", "y/bias_add", "y/cast"});
  CHECK(job[job.steps[0].outputs[0]].dtype == DType::kFloat32);
  CHECK(job[job.steps[1].outputs[0]].dtype == DType::kFloat32);
  CHECK(job[job.steps[2].outputs[0]].dtype == low_precision);
}

TEST_CASE("a convolution of 16 bits makes 16 bits, and reads such a bias", "[cuda]") {
  const DType low_precision = DType::kBFloat16;
  const bool rounded = GENERATE(true, false);
  JobBuilder b;
  const auto x = b.input("x", {1, 1, 3, 3}, low_precision),
             w = b.input("w", {2, 1, 1, 1}, low_precision);
  const auto bias = b.variable("b", {2});
  b.step("convolution", "y", {x, w}, {}, {1, 2, 3, 3}, rounded ? low_precision : DType::kFloat32);
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.fuse("relu", {}, {});
  if (rounded) b.fuse("cast", {}, {{"dtype", low_precision}});
  plan::Job job = b.build();
  job.precision = "mixed_bfloat16";
  job = cuda::lower_epilogues(job);
  std::vector<std::string> steps = {"y/bias:bfloat16", "y"};
  if (!rounded) steps.push_back("y:float32");
  CHECK(step_names(job) == steps);
  const plan::Step& convolution = step_named(job, "y");
  CHECK(convolution.epilogue.size() == 2);
  CHECK(job[convolution.outputs[0]].dtype == low_precision);
  CHECK(job[convolution.epilogue[0].operands[0]].dtype == low_precision);
  CHECK(job[convolution.epilogue[0].operands[0]].role == plan::Role::kResult);
  CHECK(job[test::tensor(job, "y")].dtype == (rounded ? low_precision : DType::kFloat32));
}

TEST_CASE("an update that was fused gets a gradient in memory of its own", "[cuda]") {
  const plan::Job job = cuda::lower_epilogues(two_layers());
  const plan::Step& product = step_named(job, "w:diff");
  const plan::Step& update = step_named(job, "w:diff/sgd_update");
  const auto w = test::tensor(job, "w");
  CHECK(update.inputs == std::vector<plan::TensorId>{product.outputs[0], w});
  CHECK(job[update.outputs[0]].alias == w);
  CHECK_FALSE(job[product.outputs[0]].alias.valid());
  const auto owners = exec::share_memory(job, alike);
  CHECK(owners[product.outputs[0].index()] == product.outputs[0]);
  CHECK(owners[update.outputs[0].index()] == w);
}

TEST_CASE("updates come last, after all that reads the variables, those alike together", "[cuda]") {
  const cuda::Grouped grouped = cuda::group_updates(cuda::lower_epilogues(two_layers()));
  CHECK(step_names(grouped.job) == std::vector<std::string>{"b:diff", "late", "w:diff", "v:diff",
                                                            "b:update", "w:diff/sgd_update",
                                                            "v:diff/sgd_update"});
  REQUIRE(grouped.updates.size() == 2);  // the scale of v's differs
  CHECK(grouped.updates[0].first == 4);
  CHECK(grouped.updates[0].end == 6);
  CHECK(grouped.updates[1].first == 6);
  CHECK(grouped.updates[1].end == 7);
}

TEST_CASE("a gradient lives until its update, and nothing takes its memory before", "[cuda]") {
  const cuda::Grouped grouped = cuda::group_updates(cuda::lower_epilogues(two_layers()));
  const plan::Job& job = grouped.job;
  CHECK(job[test::tensor(job, "b:diff")].last == plan::StepId(size_t{4}));
  const auto owners = exec::share_memory(job, alike);
  const exec::MemoryPlan memory =
      exec::plan_memory({.job = job, .owners = owners, .workspaces = {}, .alignment = 256});
  CHECK(memory.report.arena == 3 * 256);  // the gradients; `late` is gone before the last is made
}

TEST_CASE("averages of variables come after all updates, and are launched as one", "[cuda]") {
  JobBuilder b;
  for (const char* name : {"v", "w"}) {
    const std::string own(name);
    const auto g = b.input("g/" + own, {2});
    const auto variable = b.variable(own, {2}), ema = b.variable(own + "/ema", {2});
    // Their scales differ, so that they are not alike.
    const auto updated = b.step("sgd_update", own + ":update", {g, variable},
                                {{"scale", own == "v" ? 1.0 : 2.0}, {"rate_scale", 1.0}}, {2},
                                DType::kFloat32, variable);
    b.step("ema_update", own + "/ema:update", {updated, ema}, {{"decay", 0.5}}, {2},
           DType::kFloat32, ema);
  }
  const cuda::Grouped grouped = cuda::group_updates(b.build());
  CHECK(step_names(grouped.job) ==
        std::vector<std::string>{"v:update", "w:update", "v/ema:update", "w/ema:update"});
  REQUIRE(grouped.updates.size() == 3);
  CHECK(grouped.updates[2].first == 2);
  CHECK(grouped.updates[2].end == 4);
}

/// `w` of a cycle of Lookahead; `update` makes its new value of itself.
void add_lookahead(JobBuilder& b, plan::TensorId w, const std::string& own,
                   const std::function<plan::TensorId()>& update) {
  const auto slow = b.variable(own + "/slow", {2});
  const auto kept = b.step("lookahead_start", own + "/slow:update", {w, slow},
                           {{"steps", int64_t{5}}}, {2}, DType::kFloat32, slow);
  const auto updated = update();
  b.step("lookahead_update", own + ":update.lookahead", {kept, updated},
         {{"steps", int64_t{5}}, {"alpha", 0.5}}, {2}, DType::kFloat32, updated);
}

TEST_CASE("cycles of Lookahead start before all updates and end behind them", "[cuda]") {
  JobBuilder b;
  for (const std::string own : {"v", "w"}) {
    const auto g = b.input("g/" + own, {2});
    const auto w = b.variable(own, {2});
    add_lookahead(b, w, own, [&] {
      return b.step("sgd_update", own + ":update", {g, w}, {{"scale", 1.0}, {"rate_scale", 1.0}},
                    {2}, DType::kFloat32, w);
    });
  }
  const cuda::Grouped grouped = cuda::group_updates(b.build());
  CHECK(step_names(grouped.job) ==
        std::vector<std::string>{"v/slow:update", "w/slow:update", "v:update", "w:update",
                                 "v:update.lookahead", "w:update.lookahead"});
  CHECK(grouped.updates.size() == 3);
}

TEST_CASE("a cycle of Lookahead starts before an update that stays", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {2});
  const auto w = b.variable("w", {2});
  add_lookahead(b, w, "w", [&] {
    return b.step("add", "w:update", {x, x}, {}, {2}, DType::kFloat32, w);
  });
  CHECK(step_names(cuda::group_updates(b.build()).job) ==
        std::vector<std::string>{"w/slow:update", "w:update", "w:update.lookahead"});
}

TEST_CASE("an update whose result a step reads stays where it is", "[cuda]") {
  JobBuilder b;
  const auto g = b.input("g", {2});
  const auto w = b.variable("w", {2});
  const auto updated = b.step("sgd_update", "update", {g, w}, {{"scale", 1.0}, {"rate_scale", 1.0}},
                              {2}, DType::kFloat32, w);
  b.step("scale", "seen", {updated}, {{"factor", 2.0}}, {2});
  const cuda::Grouped grouped = cuda::group_updates(b.build());
  CHECK(step_names(grouped.job) == std::vector<std::string>{"update", "seen"});
  REQUIRE(grouped.updates.size() == 1);
  CHECK(grouped.updates[0].first == 0);
  CHECK(grouped.updates[0].end == 1);
}
