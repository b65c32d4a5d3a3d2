// What the plan check refuses of a job's steps, one corruption at a time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

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
