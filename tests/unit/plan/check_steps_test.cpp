// What the plan check refuses of a job's steps, one corruption at a time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

TEST_CASE("steps fit the records of their ops", "[plan]") {
  check_corruptions({
      {"unknown op `dense`", [](Job& j) { j.steps[0].op = "dense"; }},
      {"unknown op `stop_gradient`", [](Job& j) { j.steps[0].op = "stop_gradient"; }},
      {"result `net/pool` has batch axis 1; expected 0",
       [](Job& j) { tensor_named(j, "net/pool").batch_axis = 1; }},
      {"result `loss:mean` has batch axis -1; expected -2",
       [](Job& j) { tensor_named(j, "loss:mean").batch_axis = kNoBatch; }},
      {"1 operands; convolution takes 2", [](Job& j) { j.steps[0].inputs.pop_back(); }},
      {"operand `x` of convolution is int32", [](Job& j) { j.tensors[0].dtype = DType::kInt32; }},
      {"operand `x` of convolution is float32 in a job of float64",
       [](Job& j) { j.precision = "float64"; }},
      {"unknown attribute `more`", [](Job& j) { j.steps[0].attributes.set("more", true); }},
      {"missing attribute `strides`", [](Job& j) { j.steps[0].attributes = {}; }},
      {"`groups` of convolution is not a valid count",
       [](Job& j) { j.steps[0].attributes.set("groups", int64_t{0}); }},
      {"`groups` of convolution is not a valid count",
       [](Job& j) { j.steps[0].attributes.set("groups", 1.0); }},
      {"`padding` of convolution is not a valid padding",
       [](Job& j) {
         j.steps[0].attributes.set("padding", Integers{1, 1, 1, -1});
       }},
      {"result `net/conv/relu` is float32 [4, 2, 7, 6]; expected float32 [4, 2, 6, 6]",
       [](Job& j) { tensor_named(j, "net/conv/relu").shape[2] = 7; }},
      {"result `net/pool.argmax` is int32",
       [](Job& j) { tensor_named(j, "net/pool.argmax").dtype = DType::kInt32; }},
      {"result 0 must be a tensor", [](Job& j) { j.steps[0].outputs[0] = TensorId(); }},
      {"2 results; convolution has 1",
       [](Job& j) { j.steps[0].outputs.push_back(j.steps[0].outputs[0]); }},
      {"cannot fuse its epilogue onto convolution",
       [](Job& j) { std::swap(j.steps[0].epilogue[0], j.steps[0].epilogue[1]); }},
      {"cannot fuse its epilogue onto max_pool2d",
       [](Job& j) {
         step_named(j, "net/pool").epilogue = {epilogue_op(
             "bias_add", "net/x", {id_named(j, "net/conv/bias")}, {{"axis", int64_t{1}}})};
       }},
      {"cannot fuse its epilogue onto max_pool2d",
       [](Job& j) { step_named(j, "net/pool").epilogue = {epilogue_op("relu", "net/x", {})}; }},
      {"cannot fuse its epilogue onto matmul",
       [](Job& j) {
         step_named(j, "net/dense/weight:updated")
             .epilogue.push_back(epilogue_op("relu", "net/x", {}));
       }},
      {"cannot fuse its epilogue onto max_pool2d",
       [](Job& j) {
         step_named(j, "net/pool").epilogue = {
             epilogue_op("cast", "net/x", {}, {{"dtype", DType::kFloat32}})};
       }},
      {"the bias is [2] for [4, 2, 6, 6]; expected [4] for axis 0",
       [](Job& j) { j.steps[0].epilogue[0].attributes.set("axis", int64_t{0}); }},
      {"in the epilogue", [](Job& j) { j.steps[0].epilogue[0].name = "../x"; }},
      {"`rate` of dropout is not a valid fraction",
       [](Job& j) { step_named(j, "net/drop").attributes.set("rate", 1.0); }},
      {"`rate` of dropout is not a valid fraction",
       [](Job& j) { step_named(j, "net/drop").attributes.set("rate", kNaN); }},
  });
}

TEST_CASE("steps read what has been made, and taps alone read taps", "[plan]") {
  check_corruptions({
      {"before it is computed", [](Job& j) { std::swap(j.steps[1], j.steps[2]); }},
      {"duplicate name", [](Job& j) { j.steps[1].name = j.steps[0].name; }},
      {"invalid name", [](Job& j) { j.steps[1].name = "a/../b"; }},
      {"is already computed",
       [](Job& j) {
         Step again = j.steps[2];
         again.name = "again";
         j.steps.push_back(again);
       }},
      {"which is not a result",
       [](Job& j) { tensor_named(j, "net/conv/relu").role = Role::kInput; }},
      {"before it is computed",
       [](Job& j) { j.steps[0].epilogue[0].operands[0] = id_named(j, "net/conv/bias:diff"); }},
      {"no step computes this result",
       [](Job& j) {
         j.tensors.push_back(j.tensors.back());
         j.tensors.back().name = "orphan";
         j.tensors.back().alias = TensorId();
       }},
      {"the result of a tap", [](Job& j) { j.steps[0].probe = true; }},
      {"comes from a tap", [](Job& j) { step_named(j, "loss:mean").probe = true; }},
      {"after its update",
       [](Job& j) {
         // The update of the dense weight moves before the product that reads it.
         const auto at = std::ranges::find(j.steps, "net/drop:diff", &Step::name);
         std::iter_swap(at, at + 1);
       }},
      {"does not come from the matching max_pool2d",
       [](Job& j) {
         // Places of some other origin: an input of the right dtype and shape.
         Tensor places = tensor_named(j, "net/pool.argmax");
         places.name = "forged";
         places.role = Role::kInput;
         j.tensors.push_back(places);
         step_named(j, "net/conv/relu:diff").inputs[1] = TensorId(j.tensors.size() - 1);
       }},
      {"does not come from the matching max_pool2d",
       [](Job& j) {
         step_named(j, "net/pool").attributes.set("padding", Integers{0, 1, 0, 1});
       }},
      {"does not come from the matching max_pool2d",
       [](Job& j) {
         step_named(j, "net/pool").attributes.set("ksize", Integers{1, 1});
       }},
      {"does not come from the loss with these labels",
       [](Job& j) {
         j.tensors.push_back(tensor_named(j, "labels"));
         j.tensors.back().name = "other_labels";
         step_named(j, "net/dense/matmul:diff").inputs[0] = TensorId(j.tensors.size() - 1);
       }},
      {"does not come from the loss with these labels",
       [](Job& j) {
         Tensor shares = j[step_named(j, "loss").outputs[1]];
         shares.name = "forged";
         shares.role = Role::kInput;
         j.tensors.push_back(shares);
         step_named(j, "net/dense/matmul:diff").inputs[1] = TensorId(j.tensors.size() - 1);
       }},
  });
}

TEST_CASE("products are cast to the 16 bits of their job alone", "[plan]") {
  const auto refused = [](DType to, Attribute said) {
    sample::JobBuilder b("j");
    b.job.precision = "mixed_bfloat16";
    const TensorId x = b.input("x", DType::kFloat32, {2, 2});
    const TensorId y =
        b.one("matmul", "y", {x, x}, {{"transpose_a", false}, {"transpose_b", false}},
              {epilogue_op("cast", "y:cast", {}, {{"dtype", said}})});
    b.job[y].dtype = to;
    return refusal({kVersion, "", "", {b.done()}, {}});
  };
  CHECK(refused(DType::kBFloat16, DType::kBFloat16).empty());
  CHECK_THAT(refused(DType::kFloat16, DType::kFloat16),
             Catch::Contains("cannot cast a fused product to float16"));
  CHECK_THAT(refused(DType::kFloat32, true),
             Catch::Contains("`dtype` of cast is not a valid dtype"));
}

TEST_CASE("variables are updated once, in place, by train jobs", "[plan]") {
  check_corruptions({
      {"must be in place",
       [](Job& j) { tensor_named(j, "net/conv/bias:updated").alias = TensorId(); }},
      {"fused sgd_update takes only the variable",
       [](Job& j) {
         for (Step& step : j.steps)
           if (!step.epilogue.empty() && step.epilogue.back().op == "sgd_update")
             step.epilogue.back().operands.push_back(id_named(j, "loss:mean"));
       }},
      {"which is not a trainable variable", [](Job& j) { j.variables[0].trainable = false; }},
      {"which is not a trainable variable", [](Job& j) { j.variables[1].slot = true; }},
      {"which is not a trainable variable",
       [](Job& j) {
         step_named(j, "net/conv/bias:updated").inputs[1] = id_named(j, "net/conv/bias:diff");
       }},
      {"which is not a slot of the optimizer", [](Job& j) { j.variables[2].slot = false; }},
      {"update variables",
       [](Job& j) {
         j.train = false;
         j.optimizer.reset();
       }},
      {"update variables", [](Job& j) { j.steps.back().probe = true; }},
      {"cannot reuse the memory of",
       [](Job& j) { tensor_named(j, "loss:mean").alias = id_named(j, "loss:mean"); }},
      {"cannot reuse the memory of",
       [](Job& j) { tensor_named(j, "net/drop.mask").alias = id_named(j, "net/drop.mask"); }},
      {"cannot reuse the memory of",
       [](Job& j) { tensor_named(j, "net/conv/relu:diff").alias = id_named(j, "net/conv/relu"); }},
  });
  sample::JobBuilder b("job");
  const TensorId w = b.variable("w", {2});
  b.alias(b.one("relu", "y", {w}), w);
  CHECK_THAT(refusal({kVersion, "", "", {b.done()}, {}}),
             Catch::Matchers::Contains("`y` cannot reuse the memory of `w`"));
}

TEST_CASE("a variable is not updated twice by one step, or while it is read", "[plan]") {
  const std::vector<Attributes::Entry> plain = {{"transpose_a", false}, {"transpose_b", false}};
  sample::JobBuilder fused("job", true);
  const TensorId dy = fused.input("dy", DType::kFloat32, {2, 2});
  const TensorId weight = fused.variable("w", {2, 2});
  fused.alias(fused.one("matmul", "w:updated", {dy, weight}, plain,
                        {epilogue_op("sgd_update", "w:update", {weight},
                                     {{"scale", 1.0}, {"rate_scale", 1.0}})}),
              weight);
  CHECK_THAT(refusal({kVersion, "", "", {fused.done()}, {}}),
             Catch::Contains("`w` is updated twice, or while it is read"));

  sample::JobBuilder twice("job", true);
  const TensorId dw = twice.input("dw", DType::kFloat32, {2});
  const TensorId w = twice.variable("w", {2}), slot = twice.variable("slot", {2}, {}, true);
  const auto updated = twice.step("adam_update", "w:updated", {dw, w, slot, slot},
                                  {{"beta1", 0.5},
                                   {"beta2", 0.5},
                                   {"bias_correction", true},
                                   {"epsilon", 0.5},
                                   {"scale", 1.0},
                                   {"rate_scale", 1.0},
                                   {"weight_decay", 0.0}});
  twice.alias(updated[0], w);
  twice.alias(updated[1], slot);
  twice.alias(updated[2], slot);
  CHECK_THAT(refusal({kVersion, "", "", {twice.done()}, {}}),
             Catch::Contains("`slot` is updated twice, or while it is read"));
}

TEST_CASE("layers move statistics that are variables of their own", "[plan]") {
  const auto refused = [](bool variable) {
    sample::JobBuilder b("job", true);
    const TensorId x = b.input("x", DType::kFloat32, {2});
    const TensorId mean = b.variable("mean", {2}), variance = b.variable("variance", {2});
    for (Variable& each : b.job.variables) each.trainable = false;
    const TensorId of = variable ? variance : b.one("relu", "r", {variance});
    const auto moved =
        b.step("move_statistics", "moved", {x, x, mean, of}, {{"momentum", 0.5}, {"unbias", 1.0}});
    b.alias(moved[0], mean);
    b.alias(moved[1], of);
    b.minimize(b.one("reduce_mean", "loss", {x}, {{"axes", Integers{0}}, {"keepdims", false}}));
    return refusal({kVersion, "", "", {b.done()}, {}});
  };
  CHECK(refused(true).empty());
  CHECK_THAT(refused(false), Catch::Contains("`r`, which is not a statistic of a layer"));
}

TEST_CASE("nothing is computed in a variable's memory, or in that of another tensor", "[plan]") {
  const auto cannot = Catch::Contains("cannot reuse the memory of");
  const std::vector<Attributes::Entry> four = {{"shape", Integers{4}}};

  sample::JobBuilder viewed("job");
  const TensorId w = viewed.variable("w", {2, 2});
  const TensorId view = viewed.one("reshape", "view", {w}, four);
  viewed.alias(view, w);
  CHECK(refusal({kVersion, "", "", {viewed.done()}, {}}).empty());
  viewed.alias(viewed.one("relu", "y", {view}), view);
  CHECK_THAT(refusal({kVersion, "", "", {viewed.done()}, {}}), cannot);

  Plan updated = sample::full_plan();
  sample::JobBuilder after("train");
  static_cast<Job&>(after.job) = updated.jobs[0];
  const TensorId bias = id_named(after.job, "net/conv/bias:updated");
  const TensorId y = after.one("relu", "y", {bias});
  updated.jobs[0] = after.done();
  CHECK(refusal(updated).empty());
  after.alias(y, bias);
  updated.jobs[0] = after.done();
  CHECK_THAT(refusal(updated), cannot);

  sample::JobBuilder other("job");
  const TensorId x = other.input("x", DType::kFloat32, {2, 2});
  const TensorId a = other.one("relu", "a", {x}), c = other.one("relu", "c", {x});
  other.alias(other.one("relu", "z", {c}), a);
  CHECK_THAT(refusal({kVersion, "", "", {other.done()}, {}}), cannot);

  sample::JobBuilder shaped("job");
  const TensorId row = shaped.input("x", DType::kFloat32, {1, 4});
  const TensorId line = shaped.one("relu", "a", {shaped.one("reshape", "b", {row}, four)});
  shaped.alias(shaped.one("add", "sum", {row, line}), line);
  CHECK_THAT(refusal({kVersion, "", "", {shaped.done()}, {}}), cannot);
}
