// Jobs whose shards several GPUs share, on devices that record calls and a stand-in for NCCL: bits,
// the order of calls, memory, failures.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <functional>

#include "runtime/base/error.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/fake_nccl.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/cuda/gpu_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

using plan::TensorId;

// Gradients of several buckets and slices, small ones, statistics, a mean, a tensor whose rows lie
// on its second axis, and an update that looks at whole variables.
constexpr const char* kTraining = R"(flow: 1
seed: 5
jobs:
  train:
    type: train
    shards: 4
    inputs:
      x: {shape: [8, 20], dtype: float32}
      label: {shape: [8], dtype: int32}
    graph:
      wide:   {op: dense, in: x, units: 300}
      normal: {op: batch_normalization}
      active: {op: relu}
      drop:   {op: dropout, rate: 0.2}
      deep:   {op: dense, units: 900}
      turned: {op: transpose, perm: [1, 0]}
      back:   {op: transpose, perm: [1, 0]}
      logits: {op: dense, units: 10}
      loss:   {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: logits}
      mean:   {op: reduce_mean, in: logits, axis: [0, 1]}
    optimizer:
      type: lamb
      learning_rate: 0.05
      minimize: loss
      grad_clipping: {type: by_global_norm, clip_norm: 1}
    returns: {type: "Dict[str, Numpy]", value: {logits: logits, loss: loss, mean: mean, turned: turned}}
    hooks: [{watch_diff: deep/weight, to: npy}]
)";

std::vector<std::string> wanted_of_ranks(const plan::Job& job) {
  std::vector<std::string> wanted = variables_of(job);
  wanted.emplace_back("x");
  for (const plan::ReturnValue& item : job.returns->value.items)
    wanted.push_back(job[item.tensor].name);
  for (const plan::Hook& hook : job.hooks) wanted.push_back(job[hook.tensor].name);
  return wanted;
}

plan::Job training_on_ranks() { return layer_training(8, 64, 32, 4, DType::kFloat32); }

/// Prepares a job on a rank and calls it twice; `then` is called while its program is there.
void train(
    FakeGpu& gpu, exec::Collectives& ranks, bool eager, const std::function<void()>& then = [] {}) {
  const plan::Job job = layer_training(8, 128, 64, 4, DType::kFloat32);
  exec::PrepareOptions options;
  options.deliverables = {tensor(job, "y"), tensor(job, "loss")};
  options.ranks = &ranks;
  options.eager = eager;
  const auto program = gpu.backend->prepare(job, options);
  program->connect();
  const uint8_t wanted[] = {1, 1};
  for (int64_t step = 0; step < 2; ++step) {
    program->launch({step, 0.5, wanted}, 0, 0);
    program->wait(0);
  }
  then();
}

}  // namespace

TEST_CASE("several GPUs compute the bits of one", "[cuda]") {
  const plan::Plan plan = plan_of(kTraining);
  const plan::Job& job = plan.jobs[0];
  const int size = GENERATE(2, 4);
  require_bits(job, wanted_of_ranks(job), size, {}, false, static_cast<unsigned>(size));
}

TEST_CASE("whatever comes first, several GPUs compute the bits of one", "[cuda]") {
  const auto seed = GENERATE(range(1U, 6U));
  const FakeDevice lazy{.graphs = GraphOrder::kLatestFirst}, at_once{.timing = Timing::kEager},
      beside{.timing = Timing::kBeside};
  const plan::Job job = layer_training(8, 64, 32, 8, DType::kFloat32);
  for (const int size : {1, 2, 4, 8})
    for (const FakeDevice& device : {lazy, at_once, beside})
      require_bits(job, {"x", "loss", "y", "dw", "w"}, size, device, seed % 2 == 0, seed);
}

TEST_CASE("what the shards of all GPUs make comes to rank 0", "[cuda]") {
  const plan::Job job = delivering(8);
  for (const int size : {2, 4, 8}) require_bits(job, kDelivered, size, {}, false, 3);
}

TEST_CASE("parts of the shards of all GPUs come to rank 0", "[cuda]") {
  const plan::Job job = delivering(4);
  const TensorId x = tensor(job, "x"), sum = tensor(job, "sum"), across = tensor(job, "across");
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.deliverables = {sum, across};
    options.in_parts = {1, 1};
    options.ranks = &ranks;
    options.streamed = {x};  // as from a pipe
    const auto program = gpu.backend->prepare(job, options);
    program->connect();
    std::vector<float> values(24);
    for (size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
    if (ranks.rank() != 0) std::ranges::fill(values, -1.0F);
    std::memcpy(program->input(x, 0).data(), values.data(), 24 * sizeof(float));
    const uint8_t wanted[] = {1, 1};
    program->launch({0, 0, wanted}, 0, 0);
    program->wait(0);
    FLOW_CHECK(floats(program->delivered(sum, 0)) == std::vector<float>({84, 92, 100}));
    program->read_variable(tensor(job, "w"), {});  // as all ranks do when rank 0 reads it
    if (ranks.rank() != 0) return;
    const auto part = [&](TensorId id, int64_t shard) {
      return floats(program->delivered_part(id, shard, 0));
    };
    FLOW_CHECK(part(sum, 0) == std::vector<float>({3, 5, 7}));
    FLOW_CHECK(part(sum, 3) == std::vector<float>({39, 41, 43}));
    FLOW_CHECK(part(across, 3) == std::vector<float>({36, 42, 38, 44, 40, 46}));
  });
}

TEST_CASE("a sum over GPUs that a probe makes is exchanged where it runs", "[cuda]") {
  const plan::Job job = probing();
  const TensorId x = tensor(job, "x"), sum = tensor(job, "sum");
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.deliverables = {sum};
    options.ranks = &ranks;
    const auto program = gpu.backend->prepare(job, options);
    program->connect();
    for (const bool probes : {true, false, true}) {
      const float values[] = {1, 2, 3, 4};
      std::memcpy(program->input(x, 0).data(), values, sizeof values);
      const uint8_t wanted[] = {probes};
      gpu.driver->forget_calls();
      program->launch({0, 0, wanted}, 0, 0);
      program->wait(0);
      FLOW_CHECK(gpu.driver->count("group") == (probes ? 1 : 0));
      if (probes) FLOW_CHECK(floats(program->delivered(sum, 0)) == std::vector<float>({4, 6}));
    }
  });
}

TEST_CASE("a fault on one GPU is that of all", "[cuda]") {
  const plan::Job job = labeling();
  const TensorId labels = tensor(job, "labels");
  ThreadRanks world(4);
  FakeNccl nccl(4);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.ranks = &ranks;
    const auto program = gpu.backend->prepare(job, options);
    program->connect();
    const auto call = [&](const std::vector<int32_t>& values) {
      std::memcpy(program->input(labels, 0).data(), values.data(), values.size() * 4);
      program->launch({0, 0, {}}, 0, 0);
      program->wait(0);
      return program->fault(0);
    };
    const auto fault = call({0, 1, 2, 0, 1, 3, 0, -1});
    FLOW_CHECK(fault && fault->row == 5 && fault->value == 3);
    FLOW_CHECK(!call({0, 1, 2, 0, 1, 2, 0, 1}));
  });
}

TEST_CASE("a rank exchanges the sums of its last shard, and then runs the rest", "[cuda]") {
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    const plan::Job job = training_on_ranks();
    exec::PrepareOptions options;
    options.ranks = &ranks;
    options.eager = true;
    const auto program = gpu.backend->prepare(job, options);
    program->connect();
    gpu.driver->forget_calls();
    program->launch({0, 0.5, {}}, 0, 0);
    const std::vector<std::string> calls = gpu.driver->calls();
    program->wait(0);
    const std::vector<std::string> inputs = {"copy 32 to device stream 1",
                                             "copy 512 to device stream 1"};
    const std::vector<std::string> loss = {"launch naive_matmul stream 1", "launch square stream 1",
                                           "launch sum stream 1"};
    const std::vector<std::string> gradient = {"launch scale stream 1",
                                               "launch naive_matmul stream 1"};
    const auto exchange = [](int bytes) {
      return std::vector<std::string>{
          "launch join_parts stream 1",  // the totals of this rank
          "record stream 1",
          "wait stream 3",
          // Its own: of a small bucket each rank adds up all.
          fmt::format("copy {} on device stream 3", bytes),
          "group of 2 stream 3",
          "launch join_ranks stream 3",
      };
    };
    const std::vector<std::string> rest = {"record stream 3",
                                           "wait stream 1",
                                           "copy 4 on device stream 1",  // the loss, the gradient
                                           "copy 8192 on device stream 1",
                                           "launch sgd_update stream 1",
                                           "record stream 1"};
    std::vector<std::string> expected = inputs;
    const auto add = [&](const std::vector<std::string>& more) {
      expected.insert(expected.end(), more.begin(), more.end());
    };
    add(loss);
    add(gradient);
    add({"launch join_parts stream 1"});
    add(inputs);
    add(loss);
    add(exchange(64));
    add(gradient);
    add(exchange(8192));
    add(rest);
    std::string text;
    for (const std::string& line : calls) text += line + "\n";
    FLOW_CHECK(calls == expected, "{}", text);
  });
}

TEST_CASE("a profile on several GPUs has the time of sums and exchanges", "[cuda]") {
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.ranks = &ranks;
    options.profile = true;
    const plan::Job job = training_on_ranks();
    const auto program = gpu.backend->prepare(job, options);
    program->connect();
    const std::vector<exec::TimedStep> steps = program->timed_steps();
    FLOW_CHECK(steps[job.steps.size()].name == "sums over shards and ranks");
    for (const int64_t step : {0, 1}) {
      program->launch({step, 0.5, {}}, 0, 0);
      program->wait(0);
      const auto times = program->step_times(0);
      FLOW_CHECK(times.size() == steps.size() + 1);
      const auto took = [&](size_t i) { return times[i + 1] - times[i]; };
      for (size_t i = 1; i < job.steps.size(); ++i) FLOW_CHECK(took(i) == 2'000'000);
      FLOW_CHECK(took(job.steps.size()) >= 4'000'000);
    }
  });
}

TEST_CASE("memory for sums over GPUs is counted in the arena", "[cuda]") {
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.ranks = &ranks;
    const auto program = gpu.backend->prepare(training_on_ranks(), options);
    const exec::MemoryReport& report = program->memory();
    const auto holds = [&](const char* name) {
      return std::ranges::find(report.at_peak, name, &exec::MemoryReport::Holder::name) !=
             report.at_peak.end();
    };
    FLOW_CHECK(holds("sums over shards") && holds("sums over ranks"));
    FLOW_CHECK(report.total() == gpu.driver->allocated());
    FLOW_CHECK(report.sent > 0);
  });
}

TEST_CASE("where a call of NCCL fails, all ranks end and abort", "[cuda]") {
  const int failing = GENERATE(0, 1);
  const bool eager = GENERATE(false, true);
  CAPTURE(eager);
  const int64_t calls = check_failing_nccl(
      failing, "job.yaml:1:1: job `job`: ", [&](FakeGpu& gpu, exec::Collectives& ranks) {
        train(gpu, ranks, eager);
      });
  CHECK(calls > 20);
}

TEST_CASE("where a device of one rank fails, all ranks end", "[cuda]") {
  const int failing = GENERATE(0, 1);
  int64_t calls = 0;
  for (bool complete = false; !complete; calls += 3) {
    CAPTURE(failing, calls);
    ThreadRanks world(2, static_cast<unsigned>(calls));
    FakeNccl nccl(2, static_cast<unsigned>(calls));
    std::string error;
    try {
      on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
        if (ranks.rank() == failing) gpu.driver->fail_at(calls + 1);
        train(gpu, ranks, false, [&] {
          if (ranks.rank() == failing) complete = !gpu.driver->has_failed();
        });
      });
    } catch (const RunError& failed) {
      error = failed.what();
    }
    CHECK(nccl.problems().empty());
    if (!complete) CHECK_THAT(error, Catch::StartsWith("job.yaml:1:1: job `job`: "));
  }
  CHECK(calls > 60);
}

TEST_CASE("several GPUs without NCCL are refused before the first step", "[cuda]") {
  const auto missing = []() -> const cuda::NcclCalls& {
    throw RequestError("several GPUs require NCCL; libnccl.so.2 is missing", "install NCCL");
  };
  FakeGpu gpu({}, missing);
  ThreadRanks world(2);
  exec::PrepareOptions options;
  options.ranks = &world.rank(0);
  try {
    gpu.backend->prepare(training_on_ranks(), options);
    FAIL("prepared");
  } catch (const RunError& error) {
    CHECK_THAT(error.what(), Catch::Contains("require NCCL; libnccl.so.2 is missing"));
    CHECK(error.exit_status() == kRequestWrong);
  }
  options.ranks = nullptr;
  CHECK(gpu.backend->prepare(training_on_ranks(), options));
}

}  // namespace flow::test
