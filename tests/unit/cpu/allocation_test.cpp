// From the second step on, a real training step on the CPU allocates nothing on its thread.
#include <catch2/catch.hpp>

#include <vector>

#include "compiler/compile.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/multi_device/multi_device.h"
#include "runtime/exec/run/run.h"
#include "tests/support/allocation_count.h"
#include "tests/support/fresh_directory.h"

namespace flow {
namespace {

constexpr const char* kJob = R"(flow: 1
networks:
  net:
    inputs: [images]
    graph:
      conv: {op: conv2d, filters: 8, kernel_size: 3, padding: same, activation: relu}
      pool: {op: max_pool2d, ksize: 2}
      large: {op: resize, scale: 2, mode: bilinear}
      flat: {op: flatten}
      hidden: {op: dense, units: 32, activation: relu}
      drop: {op: dropout, rate: 0.5}
      logits: {op: dense, units: 10}
jobs:
  train:
    type: train
    inputs:
      images: {shape: [20, 1, 12, 12], dtype: float32, from: {type: random_uniform, low: -1, high: 1}}
      labels: {shape: [20], dtype: int32, from: {type: random_int, low: 0, high: 10}}
    graph:
      net: {op: net, in: images}
      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: net}
    optimizer: {type: sgd, momentum: 0.9, learning_rate: 0.1, minimize: loss}
    returns: {type: Numpy, value: loss}
    hooks:
      - {watch: net/conv, every: 2}
      - {watch_diff: "net/*/weight", every: 3}
    run: {steps: 20, checkpoint: {every: {steps: 5}}}
)";

constexpr const char* kLoop = R"(flow: 1
jobs:
  run:
    type: predict
    inputs:
      x: {shape: [4, 8], dtype: float32, from: {type: random_normal}}
      place: {shape: [], dtype: int32, rows: false, from: {type: constant, value: 0}}
    graph:
      kept: {op: constant, value: 0, shape: [4, 16, 8]}
      all: {op: scatter_update, in: kept, indices: place, updates: x, axis: 1}
      logits: {op: reduce_mean, in: all, axis: 1}
      drawn: {op: sample, in: logits, position: place, top_k: 5, top_p: 0.9}
      ended: {op: greater, in: [drawn, 100]}
      y: {op: relu, in: logits}
      next: {op: add, in: [place, 1]}
    returns: {type: Numpy, value: drawn}
    run:
      steps: 20
      loop: {feed: {x: y, place: next, kept: all}, steps: 16, until: ended}
)";

TEST_CASE("from the second batch on the passes of a loop allocate nothing", "[cpu]") {
  CompileRequest request;
  request.file = "job.yaml";
  const CompileResult compiled = compile_text(request, kLoop);
  INFO(compiled.messages);
  REQUIRE(compiled.plan);
  const FreshDirectory home;
  const auto backend = cpu::make_backend();
  std::vector<int64_t> counts;
  counts.reserve(64);
  exec::RunRequest run(*compiled.plan, compiled.plan->jobs.front(), home.path(), home.path());
  run.threads = 2;
  run.stop_signal = [&counts] {
    counts.push_back(allocations_of_this_thread());
    return 0;
  };
  CHECK(exec::run(*backend, run).steps == 20);
  REQUIRE(counts.size() >= 20);
  if (!allocations_are_counted()) return;
  for (size_t i = 2; i < counts.size(); ++i) CHECK(counts[i] == counts[1]);
}

TEST_CASE("from the second step on a training step on the CPU allocates nothing", "[cpu]") {
  const bool profile = GENERATE(false, true), mixed = GENERATE(false, true);
  CAPTURE(profile, mixed);
  CompileRequest request;
  request.file = "job.yaml";
  if (mixed)
    request.sets = {"+networks.net.graph.pool.placement={device: gpu}",
                    "+networks.net.graph.hidden.placement={device: gpu}"};
  const CompileResult compiled = compile_text(request, kJob);
  INFO(compiled.messages);
  REQUIRE(compiled.plan);
  const FreshDirectory home;
  // Another CPU stands for the GPU.
  const auto backend =
      mixed ? exec::make_multi_device_backend(cpu::make_backend(), cpu::make_backend())
            : cpu::make_backend();
  std::vector<int64_t> counts;
  counts.reserve(64);
  exec::RunRequest run(*compiled.plan, compiled.plan->jobs.front(), home.path(), home.path());
  run.threads = 2;
  run.profile = profile;
  run.stop_signal = [&counts] {  // asked before each step, on the thread that computes
    counts.push_back(allocations_of_this_thread());
    return 0;
  };
  CHECK(exec::run(*backend, run).steps == 20);
  REQUIRE(counts.size() >= 20);
  if (!allocations_are_counted()) return;
  for (size_t i = 2; i < counts.size(); ++i) {
    CAPTURE(i);
    CHECK(counts[i] == counts[1]);
  }
}

}  // namespace
}  // namespace flow
