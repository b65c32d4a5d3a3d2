// What the plan check refuses of jobs whose batch is cut, one corruption at a time.
#include <catch2/catch.hpp>

#include "runtime/plan/model/lifetimes.h"
#include "tests/unit/plan/corruptions.h"

namespace flow::plan::sample {
namespace {

void check_sharded(const std::vector<Corruption>& corruptions) {
  check_corruptions(corruptions, true, sharded_plan());
}

Corruption with_border(const char* message, size_t steps) {
  return {message, [steps](Job& j) { j.sharding->steps = StepId(steps); }};
}

/// An outer tensor that no step reads.
TensorId add_outer(Job& j, Role role, int batch_axis) {
  Tensor tensor = tensor_named(j, "dense/weight");
  tensor.name = "outer";
  tensor.role = role;
  tensor.batch_axis = batch_axis;
  j.tensors.push_back(tensor);
  return TensorId(j.tensors.size() - 1);
}

TEST_CASE("shards are a power of two, and run steps that the job has", "[plan]") {
  const auto with_count = [](int64_t count) {
    return [count](Job& j) { j.sharding->count = j.devices = count; };
  };
  check_sharded({
      {"1 shards; expected a power of two from 2 to 4096", with_count(1)},
      {"-4 shards", with_count(-4)},
      {"6 shards", with_count(6)},
      {"8192 shards", with_count(8192)},
      {"-1 steps of shards; the job has 8", [](Job& j) { j.sharding->steps = StepId(); }},
      with_border("9 steps of shards; the job has 8", 9),
      {"2 devices for 4 shards", [](Job& j) { j.devices = 2; }},
      {"tensor `loss`: parts to combine, without shards",
       [](Job& j) {
         j.sharding.reset();
         j.devices = 1;
       }},
  });
  Plan plan = sharded_plan();
  with_count(kMaxShards)(plan.jobs[0]);
  CHECK(refusal(plan).empty());
}

TEST_CASE("the whole batch has a size that can be counted", "[plan]") {
  check_sharded({{"is too large", [](Job& j) { j.tensors[0].shape = {int64_t{1} << 45}; }}});
}

TEST_CASE("the devices of ranks are named once and share the shards", "[plan]") {
  const auto with_ids = [](std::vector<DeviceRange> ids) { return [ids](Job& j) { j.ids = ids; }; };
  check_sharded({
      {"devices -1:0-0", with_ids({{-1, 0, 0}})},
      {"devices 0:-1-0", with_ids({{0, -1, 0}})},
      {"devices 0:2-1", with_ids({{0, 2, 1}})},
      {"devices 0:0-64", with_ids({{0, 0, 64}})},
      {"3 named devices for 4 shards", with_ids({{0, 0, 1}, {1, 0, 0}})},
      {"a device named twice", with_ids({{0, 0, 2}, {0, 1, 1}})},
  });
}

TEST_CASE("inputs of shards are cut along their first axis, and variables are not", "[plan]") {
  check_sharded({
      {"tensor `outer`: batch axis 1 of an input of shards; expected 0",
       [](Job& j) {
         j.inputs.push_back({add_outer(j, Role::kInput, 1), {}, "", ""});
       }},
      {"tensor `outer`: a variable has no batch axis",
       [](Job& j) {
         j.variables.push_back({add_outer(j, Role::kVariable, 0), {}, true, false});
       }},
  });
}

TEST_CASE("behind the shards steps read the whole", "[plan]") {
  check_sharded({
      with_border("step `flat`: reads rows of `dense/matmul` behind the shards", 1),
      with_border("step `dense/weight:scaled`: reads `dense/weight:diff`, whose parts are not", 5),
      {"optimizer `sgd`: reads `loss`, whose parts are not combined",
       [](Job& j) { tensor_named(j, "loss").combine.reset(); }},
      {"hook `flat`: reads `dense/weight:diff`, whose parts are not combined",
       [](Job& j) { j.hooks[0].tensor = id_named(j, "dense/weight:diff"); }},
      {"return `Numpy`: reads `dense/weight:diff`, whose parts are not combined",
       [](Job& j) {
         const TensorId part = id_named(j, "dense/weight:diff");
         j.returns =
             Returns{"Numpy", false, {ReturnValue::Kind::kNumpy, part, {}, {}, "out"}, {}, ""};
       }},
  });
}

TEST_CASE("parts are combined as the steps that make them say", "[plan]") {
  check_sharded({
      {"tensor `loss`: combines parts by sum; expected mean",
       [](Job& j) { tensor_named(j, "loss").combine = Combine::kSum; }},
      {"tensor `loss`: combines parts by none; expected mean",
       [](Job& j) { tensor_named(j, "loss").combine = Combine::kNone; }},
      {"tensor `flat`: shards do not make parts of it",
       [](Job& j) { tensor_named(j, "flat").combine = Combine::kSum; }},
      {"tensor `clip`: shards do not make parts of it",
       [](Job& j) { tensor_named(j, "clip").combine = Combine::kSum; }},
      {"tensor `dense/weight`: shards do not make parts of it",
       [](Job& j) { tensor_named(j, "dense/weight").combine = Combine::kMax; }},
  });
}

TEST_CASE("each shard can run its steps on its own rows", "[plan]") {
  check_sharded({
      with_border("step `clip`: clip_factor of shards cannot read `dense/weight:scaled`", 7),
      {"step `dense/weight:update`: updates variables on each shard",
       [](Job& j) {
         std::swap(j.steps[6], j.steps[7]);
         j.steps[6].inputs.pop_back();
         j.sharding->steps = StepId(size_t{7});
       }},
      {"step `dense/weight:scaled`: square of shards cannot read `dense/weight:diff`",
       [](Job& j) {
         Step& step = step_named(j, "dense/weight:scaled");
         step.op = "square";
         step.attributes = {};
         tensor_named(j, "dense/weight:scaled").alias = {};
       }},
      {"step `loss`: logsumexp of shards cannot be combined",
       [](Job& j) { step_named(j, "loss").op = "logsumexp"; }},
      {"step `dense/weight:diff`: bias_add of shards cannot read `outer`",
       [](Job& j) {
         const TensorId bias = add_outer(j, Role::kVariable, kNoBatch);
         j.tensors.back().shape = {3};
         j.variables.push_back({bias, {}, true, false});
         step_named(j, "dense/weight:diff").epilogue = {
             epilogue_op("bias_add", "dense/bias_add", {bias}, {{"axis", int64_t{1}}})};
       }},
      {"step `dense/weight:diff`: updates variables on each shard",
       [](Job& j) {
         step_named(j, "dense/weight:diff").epilogue = {
             epilogue_op("sgd_update", "early", {id_named(j, "dense/weight")},
                         {{"scale", 1.0}, {"rate_scale", 1.0}})};
         Tensor& updated = tensor_named(j, "dense/weight:diff");
         updated.alias = id_named(j, "dense/weight");
         updated.batch_axis = kNoBatch;
         j.steps.resize(5);
         j.sharding->steps = StepId(size_t{5});
         const TensorId scaled = id_named(j, "dense/weight:scaled");
         j.tensors.resize(scaled.index());
       }},
  });
}

/// The largest elements of each shard, one array for each.
Plan own_plan() {
  JobBuilder b("job");
  b.job.sharding = Sharding{2, StepId(size_t{1})};
  b.job.devices = 2;
  const TensorId most = b.one("reduce_max", "most", {b.input("x", DType::kFloat32, {3, 2})},
                              {{"axes", Integers{0}}, {"keepdims", false}});
  b.job.steps[0].per_shard = true;
  b.job[most].combine.reset();
  b.job.returns =
      Returns{"ListNumpy", false, {ReturnValue::Kind::kListNumpy, most, {}, {}, "most"}, {}, ""};
  return {kVersion, "", "", {b.done()}, {}};
}

TEST_CASE("what each shard has for itself is delivered by shards, and read by them alone",
          "[plan]") {
  CHECK(refusal(own_plan()).empty());
  const auto refused = [](auto corrupt) {
    Plan plan = own_plan();
    corrupt(plan.jobs[0]);
    assign_lifetimes(plan.jobs[0]);
    return refusal(plan);
  };
  CHECK_THAT(refused([](Job& j) { j.returns->value.kind = ReturnValue::Kind::kNumpy; }),
             Catch::Contains("reads `most`, which differs between shards"));
  CHECK_THAT(refused([](Job& j) { j.sharding->steps = StepId(size_t{0}); }),
             Catch::Contains("per shard, behind the shards"));
  CHECK_THAT(refused([](Job& j) { tensor_named(j, "most").batch_axis = kNoBatch; }),
             Catch::Contains("`most` does not depend on the batch"));
  CHECK_THAT(refused([](Job& j) { tensor_named(j, "most").combine = Combine::kNone; }),
             Catch::Contains("`most` has parts without a sum"));
  CHECK_THAT(refused([](Job& j) {
               j.sharding.reset();
               j.devices = 1;
             }),
             Catch::Contains("per shard, without shards"));
}

TEST_CASE("all steps may be those of shards", "[plan]") {
  JobBuilder b("job");
  b.job.sharding = Sharding{2, StepId(size_t{1})};
  b.job.devices = 2;
  const TensorId y = b.one("relu", "y", {b.input("x", DType::kFloat32, {3, 2})});
  b.job.returns =
      Returns{"Numpy", false, {ReturnValue::Kind::kListNumpy, y, {}, {}, "out"}, {}, ""};
  CHECK(refusal({kVersion, "", "", {b.done()}, {}}).empty());
}

TEST_CASE("inputs, deliveries and the optimizer see the whole batch", "[plan]") {
  Plan plan = sharded_plan();
  Job& job = plan.jobs[0];
  job.inputs[0].source = FromGenerator{generators::Constant{1}};
  job.hooks[0].per_device = true;
  CHECK(refusal(plan).empty());
  job.optimizer->loss = id_named(job, "flat");
  assign_lifetimes(job);
  CHECK_THAT(refusal(plan), Catch::Contains("is float32 [32]; expected a scalar"));
}

}  // namespace
}  // namespace flow::plan::sample
