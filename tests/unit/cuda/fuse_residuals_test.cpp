// Which residual sums become parts of other steps: plan to plan, without a device.
#include "runtime/cuda/program/passes.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {
namespace {

using plan::TensorId;
using Names = std::vector<std::string>;

const Shape kBlockShape = {2, 3, 4, 4};

/// relu(batch_norm(x) + shortcut), and the gradient of the relu for da + db.
struct Block {
  JobBuilder b;
  TensorId x = b.input("x", kBlockShape), shortcut = b.input("shortcut", kBlockShape);
  TensorId da = b.input("da", kBlockShape), db = b.input("db", kBlockShape);
  TensorId normalized = normalize("bn", x), sum, y, dy, dsum;

  Block() {
    sum = add("sum", normalized, shortcut);
    y = b.step("relu", "y", {sum}, {}, kBlockShape, DType::kFloat32, sum);
    dy = add("dy", da, db);
    dsum = b.step("relu_grad", "dsum", {dy, y}, {}, kBlockShape, DType::kFloat32, dy);
  }
  TensorId normalize(const std::string& name, TensorId of) {
    const TensorId gamma = b.variable(name + "/gamma", {3}), beta = b.variable(name + "/beta", {3});
    const TensorId made = b.step("batch_norm", name, {of, gamma, beta},
                                 {{"axis", int64_t{1}}, {"epsilon", 0.125}}, kBlockShape);
    b.second_result(name + ".mean", {3}, DType::kFloat32);
    b.second_result(name + ".variance", {3}, DType::kFloat32);
    return made;
  }
  TensorId add(const std::string& name, TensorId one, TensorId other) {
    return b.step("add", name, {one, other}, {}, kBlockShape, DType::kFloat32, one);
  }
};

plan::Job fused_block(Block& block, const std::vector<TensorId>& visible = {}) {
  return cuda::fuse_residuals(cuda::lower_epilogues(block.b.build()), visible);
}

Names epilogue_of(const plan::Step& step) {
  Names names;
  for (const plan::EpilogueOp& op : step.epilogue) names.push_back(op.op.name());
  return names;
}

}  // namespace

TEST_CASE("a residual sum and its ReLU are part of the normalization before them", "[cuda]") {
  Block block;
  const plan::Job job = fused_block(block);
  REQUIRE(step_names(job) == Names{"bn", "dy"});
  const plan::Step &forward = job.steps[0], &backward = job.steps[1];
  CHECK(epilogue_of(forward) == Names{"add", "relu"});
  CHECK(forward.epilogue[0].operands == std::vector{block.shortcut});
  CHECK(forward.outputs[0] == block.y);
  CHECK(forward.outputs.size() == 3);
  CHECK(epilogue_of(backward) == Names{"relu_grad"});
  CHECK(backward.inputs == std::vector{block.da, block.db});
  CHECK(backward.epilogue[0].operands == std::vector{block.y});
  CHECK(backward.outputs == std::vector{block.dsum});
}

TEST_CASE("the later of two normalizations takes their sum, if the shortcut is there by then",
          "[cuda]") {
  Block block;
  const TensorId around = block.normalize("around", block.x);
  block.add("both", around, block.normalize("main", block.x));
  const TensorId early = block.normalize("early", block.x);
  const TensorId late = block.b.step("relu", "late", {block.x}, {}, kBlockShape);
  block.add("alone", early, late);
  const plan::Job job = fused_block(block);
  CHECK(step_names(job) == Names{"bn", "dy", "around", "main", "early", "late", "alone"});
  CHECK(epilogue_of(job.steps[3]) == Names{"add"});
  CHECK(job.steps[3].epilogue[0].operands == std::vector{around});
}

TEST_CASE("sums that others read, or that broadcast, stay", "[cuda]") {
  Block block;
  block.add("twice", block.sum, block.dy);  // reads what one step alone may read
  const TensorId row = block.b.input("row", {4});
  const TensorId wide = block.add("wide", block.x, row);
  block.b.step("relu", "of_wide", {wide}, {}, kBlockShape);
  const TensorId weight = block.b.variable("weight", kBlockShape);
  const TensorId of_weight = block.add("of_weight", block.x, weight);
  block.b.step("relu", "of_variable", {of_weight}, {}, kBlockShape);
  const plan::Job job = fused_block(block);
  CHECK(step_names(job) ==
        Names{"bn", "y", "dy", "dsum", "twice", "wide", "of_wide", "of_weight", "of_variable"});
  CHECK(epilogue_of(job.steps[0]) == Names{"add"});
}

TEST_CASE("what is watched of a residual sum is made by taps", "[cuda]") {
  Block block;
  const plan::Job job = fused_block(block, {block.sum, block.dy});
  plan::Job probes = job, others = job;
  std::erase_if(probes.steps, [](const plan::Step& step) { return !step.probe; });
  std::erase_if(others.steps, [](const plan::Step& step) { return step.probe; });
  CHECK(step_names(others) == step_names(fused_block(block)));
  REQUIRE(step_names(probes) == Names{"bn:tap", "sum:tap", "dy:tap"});
  CHECK(probes.steps[0].outputs == std::vector{block.normalized, TensorId(), TensorId()});
  CHECK(probes.steps[1].inputs == std::vector{block.normalized, block.shortcut});
  CHECK(probes.steps[1].outputs == std::vector{block.sum});
}

}  // namespace flow::test
