// Updates that GPUs divide: the bits of one device, slots in slices, what is sent, failures.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "runtime/base/error.h"
#include "runtime/base/host_device.h"
#include "runtime/exec/core/collectives.h"
#include "runtime/exec/core/memory.h"
#include "tests/unit/cuda/gpu_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

using plan::TensorId;

struct Job {
  std::string optimizer;
  std::string precision = "float32";
  std::string hooks = "[]";
  int units = 200;  // of the layer `deep`
};

/// The weights of `deep` are three pieces of slices, of which several ranks have some; those of the
/// other layers are one piece each.
plan::Plan plan_of_job(const Job& job) {
  return plan_of(R"(flow: 1
seed: 5
jobs:
  train:
    type: train
    shards: 4
    inputs:
      x: {shape: [8, 12], dtype: float32}
      label: {shape: [8], dtype: int32}
    graph:
      wide:   {op: dense, in: x, units: 220, activation: tanh, kernel_regularizer: {l2: 0.01}}
      deep:   {op: dense, kernel_regularizer: {l1: 0.01}, units: )" +
                 std::to_string(job.units) + R"(}
      logits: {op: dense, units: 10}
      loss:   {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: logits}
    returns: {value: loss}
    optimizer: {learning_rate: 0.05, minimize: loss, )" +
                 job.optimizer + "}\n    precision: " + job.precision +
                 "\n    hooks: " + job.hooks + "\n");
}

constexpr const char* kClipping = "grad_clipping: {type: by_global_norm, clip_norm: 0.5}";

const std::string kMomentum = "type: sgd, momentum: 0.9, nesterov: true";
const std::string kAdam = std::string("type: adamw, weight_decay: 0.1, ") + kClipping;
const std::string kLamb = std::string("type: lamb, ") + kClipping;

struct RankOptions {
  bool eager = false, profile = false;
};

/// The first job of the plan.
std::unique_ptr<exec::Program> prepare_on_rank(FakeGpu& gpu, exec::Collectives& ranks,
                                               const plan::Plan& plan,
                                               const RankOptions& wanted = {}) {
  exec::PrepareOptions options;
  options.ranks = &ranks;
  options.eager = wanted.eager;
  options.profile = wanted.profile;
  return gpu.backend->prepare(plan.jobs[0], options);
}

/// Nothing is wanted of the call.
void call(exec::Program& program) {
  program.launch({0, 0.5, {}}, 0, 0);
  program.wait(0);
}

std::vector<std::string> wanted_of(const plan::Job& job) {
  std::vector<std::string> wanted = variables_of(job);
  wanted.push_back(job[job.returns->value.tensor].name);
  for (const plan::Hook& hook : job.hooks) wanted.push_back(job[hook.tensor].name);
  return wanted;
}

size_t aligned_bytes(const plan::Job& job, TensorId id) {
  return round_up(exec::bytes_of(job[id]), 256);
}

/// Bytes of variables, and of those among them that are optimizer slots.
struct VariableBytes {
  explicit VariableBytes(const plan::Job& job) {
    for (const plan::Variable& variable : job.variables) {
      all += aligned_bytes(job, variable.tensor);
      if (variable.slot) slots += aligned_bytes(job, variable.tensor);
    }
  }
  size_t all = 0, slots = 0;
};

/// By rank. `deliverables`: names.
std::vector<exec::MemoryReport> reports(const plan::Job& job, int size,
                                        const std::vector<std::string>& deliverables = {}) {
  std::vector<exec::MemoryReport> all(static_cast<size_t>(size));
  ThreadRanks world(size);
  FakeNccl nccl(size);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    exec::PrepareOptions options;
    options.ranks = &ranks;
    for (const std::string& name : deliverables) options.deliverables.push_back(tensor(job, name));
    const auto program = gpu.backend->prepare(job, options);
    FLOW_CHECK(program->memory().total() == gpu.driver->allocated());
    all[static_cast<size_t>(ranks.rank())] = program->memory();
  });
  return all;
}

size_t variables_of_all(const std::vector<exec::MemoryReport>& reports) {
  return std::transform_reduce(reports.begin(), reports.end(), size_t{0}, std::plus<>(),
                               [](const exec::MemoryReport& report) { return report.variables; });
}

}  // namespace

TEST_CASE("GPUs that divide updates compute the bits of one", "[cuda]") {
  const auto job = GENERATE(
      values<Job>({{kMomentum},
                   {"type: sgd"},
                   {kAdam},
                   {"type: rmsprop, centered: true, learning_rate_scales: {\"deep/**\": 0.5}"},
                   {"type: radam, beta2: 0.9, learning_rate_scales: {\"deep/**\": 0.5}"},
                   {"type: lars, epsilon: 0.1"},
                   {kLamb},
                   {kLamb, "mixed_bfloat16"},
                   {kAdam + ", loss_scale: {type: dynamic, initial: 1024}", "mixed_float16"},
                   {kLamb, "float64"},
                   {kLamb, "float32", "[{watch_diff: deep/weight, to: npy}]"}}));
  CAPTURE(job.optimizer, job.precision, job.hooks);
  const plan::Plan plan = plan_of_job(job);
  for (const int size : {2, 4})
    require_bits(plan.jobs[0], wanted_of(plan.jobs[0]), size, {}, size == 4,
                 static_cast<unsigned>(size));
}

TEST_CASE("whatever comes first, divided updates have the same bits", "[cuda]") {
  const plan::Plan plan = plan_of_job({kLamb});
  const auto device =
      GENERATE(FakeDevice{.graphs = GraphOrder::kLatestFirst}, FakeDevice{.timing = Timing::kEager},
               FakeDevice{.timing = Timing::kBeside});
  for (const unsigned seed : {1U, 2U, 3U})
    require_bits(plan.jobs[0], wanted_of(plan.jobs[0]), 2, device, seed == 2, seed);
}

TEST_CASE("GPUs divide some updates of a step, and do others whole", "[cuda]") {
  // The weights of `logits` and `deep` fill a bucket. The rest is small.
  const plan::Plan plan = plan_of_job({.optimizer = kLamb, .units = 1150});
  const plan::Job& job = plan.jobs[0];
  require_bits(job, wanted_of(job), 2, {}, false, 1);
  size_t whole = 0;
  for (const char* name : {"deep/bias", "wide/weight", "wide/bias"})
    whole += 2 * aligned_bytes(job, tensor(job, name));  // two slots
  const VariableBytes bytes(job);
  CHECK(variables_of_all(reports(job, 2)) == 2 * (bytes.all - bytes.slots) + bytes.slots + whole);
}

TEST_CASE("each GPU has a slice of the optimizer slots", "[cuda]") {
  const auto optimizer = GENERATE(values({kMomentum, kAdam, kLamb}));
  const auto size = GENERATE(2, 4);
  const plan::Plan plan = plan_of_job({optimizer});
  const plan::Job& job = plan.jobs[0];
  const VariableBytes bytes(job);
  const std::vector<exec::MemoryReport> found = reports(job, size);
  const auto ranks = static_cast<size_t>(size);
  CHECK(variables_of_all(found) == ranks * (bytes.all - bytes.slots) + bytes.slots);
  for (const exec::MemoryReport& report : found)
    CHECK(report.variables < bytes.all - bytes.slots / ranks / 2);
}

TEST_CASE("what GPUs do not divide, each has all of", "[cuda]") {
  const auto [job, divided] =
      GENERATE(table<Job, bool>({{{kAdam, "float64"}, false}, {{kAdam, "mixed_bfloat16"}, true}}));
  const plan::Plan plan = plan_of_job(job);
  const VariableBytes bytes(plan.jobs[0]);
  CHECK((reports(plan.jobs[0], 2)[0].variables < bytes.all) == divided);
}

TEST_CASE("a watched gradient leaves its slots whole", "[cuda]") {
  const plan::Plan plan = plan_of_job({kAdam, "float32", "[{watch_diff: deep/weight, to: npy}]"});
  const plan::Job& job = plan.jobs[0];
  const size_t deep = aligned_bytes(job, tensor(job, "deep/weight"));
  const size_t watched = variables_of_all(reports(job, 2, {job[job.hooks[0].tensor].name}));
  CHECK(watched == variables_of_all(reports(job, 2)) + 2 * deep);
}

TEST_CASE("GPUs send the parameters twice, and the sums of norms", "[cuda]") {
  const auto size = GENERATE(2, 4);
  const plan::Plan plain = plan_of_job({"type: sgd"}),
                   clipping = plan_of_job({std::string("type: sgd, ") + kClipping});
  const plan::Job& job = plain.jobs[0];
  size_t gradients = 0, pieces = 0;
  for (const plan::Variable& variable : job.variables) {
    const auto n = job[variable.tensor].shape.elements();
    gradients += round_up(static_cast<size_t>(n) * sizeof(float), 64);
    pieces += static_cast<size_t>(ceil_div(n, 8192));
  }
  const auto others = static_cast<size_t>(size - 1), all = static_cast<size_t>(size);
  const size_t sent = reports(job, size)[0].sent;
  CHECK(sent == 2 * gradients * others / all + 64 * others);  // and the loss
  CHECK(reports(clipping.jobs[0], size)[0].sent == sent + pieces * sizeof(double) * others / all);
}

TEST_CASE("GPUs gather sums and variables between graphs", "[cuda]") {
  const bool eager = GENERATE(false, true);
  const plan::Plan plan = plan_of_job({kLamb});
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    const auto program = prepare_on_rank(gpu, ranks, plan, {.eager = eager});
    FLOW_CHECK(gpu.driver->count("captured group") == 0);
    program->connect();
    gpu.driver->forget_calls();
    call(*program);
    // Loss, gradients; the norm of all gradients, those of variables; the variables.
    FLOW_CHECK(gpu.driver->count("group") == 5);
    // The first shard; the second one, to the loss and to the end; to the norm; to the sums of the
    // update; the rest.
    if (!eager) FLOW_CHECK(gpu.driver->count("launch graph") == 6);
  });
}

TEST_CASE("GPUs resume with another number of ranks to the same bits", "[cuda]") {
  const plan::Plan plan = plan_of_job({kLamb});
  const plan::Job& job = plan.jobs[0];
  const std::vector<std::string> wanted = variables_of(job);
  const auto run_on = [&](int size, const Arrays& values, int first, int calls) {
    Arrays found;
    ThreadRanks world(size);
    FakeNccl nccl(size);
    on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
      Arrays own =
          run(job, values, wanted,
              {.calls = calls, .backend = gpu.backend.get(), .ranks = &ranks, .first = first});
      if (ranks.rank() == 0) found = std::move(own);
    });
    return found;
  };
  const auto with_inputs = [&](Arrays variables) {
    for (const auto& [name, value] : positive_values(job)) variables.try_emplace(name, value);
    return variables;
  };
  FakeGpu gpu;
  const Arrays alone =
      run(job, with_inputs({}), wanted, {.calls = 3, .backend = gpu.backend.get()});
  const Arrays begun = run_on(4, with_inputs({}), 0, 2);
  for (const int size : {1, 2, 4}) CHECK(same_bits(run_on(size, with_inputs(begun), 2, 1), alone));
}

TEST_CASE("variables keep their values while GPUs connect", "[cuda]") {
  const plan::Plan plan = plan_of_job({kMomentum});
  const plan::Job& job = plan.jobs[0];
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    const auto program = prepare_on_rank(gpu, ranks, plan);
    const TensorId id = tensor(job, "deep/weight");
    Array value(DType::kFloat32, job[id].shape), read(DType::kFloat32, job[id].shape);
    std::ranges::fill(value.as<float>(), static_cast<float>(1 + ranks.rank()));
    program->write_variable(id, value.view());
    program->connect();
    exec::agree(ranks, 0);  // a rank that goes aborts what others wait for
    program->read_variable(id, read.bytes());
    FLOW_CHECK(std::ranges::equal(read.as<float>(), value.as<float>()));
  });
}

TEST_CASE("a profile has the time in which GPUs gather variables", "[cuda]") {
  const plan::Plan plan = plan_of_job({kLamb});
  ThreadRanks world(2);
  FakeNccl nccl(2);
  on_ranks(world, nccl, {}, [&](FakeGpu& gpu, exec::Collectives& ranks) {
    const auto program = prepare_on_rank(gpu, ranks, plan, {.profile = true});
    program->connect();
    call(*program);
    const std::vector<exec::TimedStep> steps = program->timed_steps();
    const auto took = [&](std::string_view name) {
      const auto found = std::ranges::find(steps, name, &exec::TimedStep::name);
      FLOW_CHECK(found != steps.end(), "{}", name);
      const auto i = static_cast<size_t>(found - steps.begin());
      return program->step_times(0)[i + 1] - program->step_times(0)[i];
    };
    FLOW_CHECK(steps[steps.size() - 2].name == "variables from other ranks");
    FLOW_CHECK(took("variables from other ranks") > 0);
    // Kernels before and behind the gather.
    const auto clip = std::ranges::find(steps, "clip_factor", &exec::TimedStep::op);
    FLOW_CHECK(clip != steps.end() && took(clip->name) >= 4'000'000);
  });
}

TEST_CASE("where a call of NCCL fails while updates are divided, all ranks end", "[cuda]") {
  const int failing = GENERATE(0, 1);
  const plan::Plan plan = plan_of_job({kLamb});
  const int64_t calls = check_failing_nccl(
      failing, "job.yaml:4:3: job `train`: ", [&](FakeGpu& gpu, exec::Collectives& ranks) {
        const auto program = prepare_on_rank(gpu, ranks, plan);
        program->connect();
        call(*program);
      });
  CHECK(calls > 30);
}

}  // namespace flow::test
