// Small jobs whose batch is cut into shards, and what tests of several backends ask of them.
#include "tests/support/shard_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/base/error.h"
#include "runtime/plan/model/shards.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

namespace flow::test {

using plan::Combine;
using plan::TensorId;
using Extents = std::vector<int64_t>;

plan::Job layer_training(int64_t batch, int64_t in, int64_t out, int64_t shards, DType dtype) {
  const int64_t rows = batch / shards;
  JobBuilder b;
  const TensorId x = b.input("x", {rows, in}, dtype), w = b.variable("w", {out, in}, dtype);
  const TensorId y = b.step("matmul", "y", {x, w}, {{"transpose_a", false}, {"transpose_b", true}},
                            {rows, out}, dtype);
  const TensorId squares = b.step("square", "squares", {y}, {}, {rows, out}, dtype);
  const TensorId loss = b.step("reduce_mean", "loss", {squares},
                               {{"axes", Extents{0, 1}}, {"keepdims", false}}, {}, dtype);
  const TensorId dy = b.step(
      "scale", "dy", {y}, {{"factor", 2.0 / static_cast<double>(batch * out)}}, {rows, out}, dtype);
  const TensorId dw = b.step("matmul", "dw", {dy, x},
                             {{"transpose_a", true}, {"transpose_b", false}}, {out, in}, dtype);
  for (const TensorId id : {x, y, squares, dy}) b.rows(id);
  b.combined(loss, Combine::kMean);
  b.combined(dw, Combine::kSum);
  b.end_shards(shards);
  b.step("sgd_update", "w:new", {dw, w}, {{"scale", 1.0}, {"rate_scale", 1.0}}, {out, in}, dtype,
         w);
  return b.build();
}

plan::Job dropping(Shape shape, int axis, int64_t shards, DType dtype) {
  shape[axis] /= shards;
  JobBuilder b;
  const TensorId x =
      b.step("fill", "ones", {}, {{"value", 1.0}, {"shape", shape.extents()}, {"dtype", dtype}},
             shape, dtype);
  const TensorId y = b.step("dropout", "drop", {x},
                            {{"rate", 0.4}, {"consumer", std::string("drop")}}, shape, dtype);
  const TensorId mask = b.second_result("mask", shape, DType::kBool);
  for (const TensorId id : {x, y, mask}) b.rows(id, axis);
  b.end_shards(shards);
  return b.build();
}

plan::Job delivering(int64_t shards) {
  const int64_t rows = 8 / shards;
  JobBuilder b;
  const TensorId x = b.input("x", {rows, 3}), w = b.variable("w", {3});
  const TensorId flat = b.step("reshape", "flat", {x}, {{"shape", Extents{rows * 3}}}, {rows * 3},
                               DType::kFloat32, x);
  const TensorId split = b.step("scale", "split", {x}, {{"factor", 2.0}}, {rows, 3});
  const TensorId across =
      b.step("transpose", "across", {split}, {{"perm", Extents{1, 0}}}, {3, rows});
  const plan::Attributes over_rows = [] {
    plan::Attributes attributes;
    attributes.set("axes", Extents{0});
    attributes.set("keepdims", false);
    return attributes;
  }();
  const TensorId sum = b.step("reduce_sum", "sum", {x}, over_rows, {3});
  const TensorId most = b.step("reduce_max", "most", {x}, over_rows, {3});
  const TensorId same = b.step("scale", "same", {w}, {{"factor", 3.0}}, {3});
  for (const TensorId id : {x, flat, split}) b.rows(id);
  b.rows(across, 1);
  b.combined(sum, Combine::kSum);
  b.combined(most, Combine::kMax);
  b.end_shards(shards);
  b.step("add", "behind", {sum, same}, {}, {3});
  return b.build();
}

const std::vector<std::string> kDelivered = {"x",   "w",    "flat", "split", "across",
                                             "sum", "most", "same", "behind"};

void require_whole_batches(exec::Program& program, const plan::Job& job) {
  const TensorId x = tensor(job, "x"), split = tensor(job, "split");
  const auto elements = static_cast<size_t>(plan::whole_shape(job, job[x]).elements());
  const uint8_t wanted[] = {1};
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    const std::vector<float> values(elements, static_cast<float>(slot + 1));
    FLOW_CHECK(program.input(x, slot).size() == elements * sizeof(float));
    std::memcpy(program.input(x, slot).data(), values.data(), elements * sizeof(float));
    program.launch({static_cast<int64_t>(slot), 0, wanted}, slot, slot);
  }
  for (const size_t slot : {size_t{0}, size_t{1}}) {
    program.wait(slot);
    const std::vector<float> expected(elements, 2 * static_cast<float>(slot + 1));
    FLOW_CHECK(floats(program.delivered(split, slot)) == expected, "slot {}", slot);
  }
}

size_t bytes_at_peak(const exec::MemoryReport& report, const std::string& holder) {
  const auto found = std::ranges::find(report.at_peak, holder, &exec::MemoryReport::Holder::name);
  return found == report.at_peak.end() ? 0 : found->bytes;
}

plan::Job labeling() {
  JobBuilder b;
  const TensorId labels = b.input("labels", {2}, DType::kInt32), logits = b.input("logits", {2, 3});
  const TensorId loss =
      b.step("sparse_softmax_cross_entropy_with_logits", "loss", {labels, logits}, {}, {2});
  const TensorId prob = b.second_result("loss.prob", {2, 3}, DType::kFloat32);
  for (const TensorId id : {labels, logits, loss, prob}) b.rows(id);
  b.end_shards(4);
  return b.build();
}

plan::Job probing() {
  JobBuilder b;
  const TensorId x = b.input("x", {1, 2});
  const TensorId sum =
      b.step("reduce_sum", "sum", {x}, {{"axes", Extents{0}}, {"keepdims", false}}, {2});
  b.last_step().probe = true;
  b.rows(x);
  b.combined(sum, Combine::kSum);
  b.end_shards(2);
  return b.build();
}

std::string training_on_ranks(const TrainingSizes& sizes) {
  return fmt::format(R"(flow: 1
seed: 5
jobs:
  train:
    type: train
    shards: {}
    inputs:
      x: {{shape: [{}, {}], dtype: float32}}
      label: {{shape: [{}], dtype: int32}}
    graph:
      wide:   {{op: dense, in: x, units: {}}}
      normal: {{op: batch_normalization}}
      active: {{op: relu}}
      drop:   {{op: dropout, rate: 0.2}}
      deep:   {{op: dense, units: {}}}
      turned: {{op: transpose, perm: [1, 0]}}
      back:   {{op: transpose, perm: [1, 0]}}
      logits: {{op: dense, units: 10}}
      loss:   {{op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: logits}}
      mean:   {{op: reduce_mean, in: logits, axis: [0, 1]}}
    optimizer:
      type: lamb
      learning_rate: 0.05
      minimize: loss
      grad_clipping: {{type: by_global_norm, clip_norm: 1}}
    returns: {{type: "Dict[str, Numpy]", value: {{logits: logits, loss: loss, mean: mean, turned: turned}}}}
    hooks: [{{watch: x, to: npy}}, {{watch_diff: deep/weight, to: npy}}]
)",
                     sizes.shards, sizes.rows, sizes.columns, sizes.rows, sizes.wide, sizes.deep);
}

std::vector<std::string> tensors_to_compare(const plan::Job& job) {
  std::vector<std::string> names;
  const auto add = [&](TensorId id) { names.push_back(job[id].name); };
  const std::function<void(const plan::ReturnValue&)> add_leaves = [&](const auto& value) {
    if (value.is_leaf()) add(value.tensor);
    std::ranges::for_each(value.items, add_leaves);
  };
  if (job.returns) add_leaves(job.returns->value);
  for (const plan::Hook& hook : job.hooks) add(hook.tensor);
  for (const plan::Variable& variable : job.variables) add(variable.tensor);
  return names;
}

}  // namespace flow::test
