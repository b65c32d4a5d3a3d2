// `--set`: any lines, each an override of a small job file, give a plan or messages, without a
// crash or a defect of ours.
#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/compile.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace {

constexpr const char* kJob = R"yaml(flow: 1
seed: 1
vars: {batch: 4, rate: 0.1, sizes: [3, 2]}
networks:
  net:
    inputs: [x]
    graph:
      hidden: {op: dense, units: "$(batch + 1)", activation: relu}
      logits: {op: dense, units: 2}
jobs:
  train:
    type: train
    inputs:
      x: {shape: [$batch, 3], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
      labels: {shape: [$batch], dtype: int32, from: {type: random_int, low: 0, high: 2}}
    graph:
      net: {op: net, in: x}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: net}
    optimizer: {type: sgd, learning_rate: $rate, minimize: loss}
    hooks:
      - {watch: net, every: 2, when: max > 1, to: npy}
    returns: {value: loss, to: [npy, print]}
    run: {steps: 3}
)yaml";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  flow::CompileRequest request;
  request.file = "job.yaml";
  request.sets = flow::split(std::string(reinterpret_cast<const char*>(data), size), '\n');
  const flow::CompileResult result = flow::compile_text(request, kJob);
  FLOW_CHECK(result.plan.has_value() == (result.errors == 0));
  FLOW_CHECK(result.errors == 0 || !result.messages.empty());
  return 0;
}
