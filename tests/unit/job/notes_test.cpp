// `note:` in every mapping of a job file but a graph.
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

TEST_CASE("the plan keeps the notes among keys that are the user's own", "[job]") {
  const plan::Plan plan = plan_of(R"(flow: 1
vars: {note: of variables, rate: 0.1}
data:
  note: of data
  points:
    note: of a dataset
    a: {npy: a.npy, note: of a column}
networks:
  note: of networks
  net:
    inputs: [x]
    params: {note: of params, units: 3}
    graph: {d: {op: dense, units: $units, in: x}}
jobs:
  note: of jobs
  train:
    type: train
    inputs:
      note: of inputs
      x: {shape: [4, 8], dtype: float32, from: points.a, note: of an input}
    graph: {y: {op: net, in: x}, loss: {op: square}}
    optimizer:
      type: sgd
      learning_rate: $rate
      minimize: loss
      learning_rate_scales: {note: of scales, "y/**": 2}
    returns: {value: loss, to: {type: command, run: [cat], env: {note: of an environment, A: b}}}
)");
  CHECK(plan.notes == std::vector<std::string>{"of variables", "of data", "of a dataset",
                                               "of a column", "of networks", "of params", "of jobs",
                                               "of inputs", "of an input", "of scales",
                                               "of an environment"});
}

}  // namespace
}  // namespace flow
