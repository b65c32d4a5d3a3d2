// What the plan check refuses of variables that Lookahead replaces, one corruption at a time.
#include <catch2/catch.hpp>

#include "runtime/plan/model/lifetimes.h"
#include "tests/unit/job/compiled.h"
#include "tests/unit/plan/corruptions.h"

namespace flow::plan::sample {
namespace {

Plan lookahead_plan() {
  return plan_of(R"(flow: 1
jobs:
  train:
    type: train
    inputs: {x: {shape: [4, 8], dtype: float32}}
    graph: {y: {op: dense, units: 3, in: x}}
    optimizer: {type: adam, learning_rate: 0.1, minimize: y, lookahead: {steps: 5}}
)");
}

/// The step that replaces the weight, reading something else in place of its update.
Corruption reading(const char* message, std::string name) {
  return {message, [name](Job& j) {
            Step& step = step_named(j, "y/weight:update.lookahead");
            step.inputs[1] = id_named(j, name);
            tensor_named(j, "y/weight:update.lookahead").alias = id_named(j, name);
          }};
}

TEST_CASE("only updates of trained variables are replaced, in place and once", "[plan]") {
  const auto refused = [](const std::vector<Corruption>& corruptions) {
    check_corruptions(corruptions, true, lookahead_plan());
  };
  constexpr const char* kOther = "which is not the updated value of a trained variable";
  refused({
      reading(kOther, "y/weight:diff"),
      reading(kOther, "y/weight:update.m"),
      reading(kOther, "y/weight/slow:update"),
      {"must be in place",
       [](Job& j) { tensor_named(j, "y/weight:update.lookahead").alias = TensorId(); }},
      {"must be in place",
       [](Job& j) {
         tensor_named(j, "y/weight:update.lookahead").alias = id_named(j, "y/weight");
       }},
      {"must be in place",
       [](Job& j) {
         Step& step = step_named(j, "y/weight:update.lookahead");
         step.inputs[0] = step.inputs[1];
       }},
      {"after its update",
       [](Job& j) {
         Step again = step_named(j, "y/weight:update.lookahead");
         Tensor tensor = j[again.outputs[0]];
         again.name = tensor.name = "again";
         again.outputs[0] = TensorId(j.tensors.size());
         j.tensors.push_back(tensor);
         j.steps.push_back(again);
       }},
      {"is not a valid count",
       [](Job& j) {
         step_named(j, "y/weight:update.lookahead").attributes.set("steps", int64_t{0});
       }},
      {"is not a valid magnitude",
       [](Job& j) { step_named(j, "y/weight:update.lookahead").attributes.set("alpha", -0.5); }},
  });
}

}  // namespace
}  // namespace flow::plan::sample
