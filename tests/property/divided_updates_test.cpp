// Ranks that divide updates: whatever the optimizer, the bits are those of one rank, and each rank
// has its part of the slots.
#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <mutex>

#include "runtime/exec/core/memory.h"
#include "runtime/exec/ranks/division.h"
#include "tests/support/allocation_count.h"
#include "tests/support/run_job.h"
#include "tests/support/sanitized.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

// Variables of 1 element, of one piece (b), of one element more (d), and of many pieces, in several
// buckets. The update of the one whose gradient is watched is not divided.
constexpr const char* kJob = R"(flow: 1
seed: 5
jobs:
  train:
    type: train
    shards: 8
    precision: PRECISION
    inputs:
      x: {shape: [16, 40], dtype: float32}
      label: {shape: [16], dtype: int32}
    graph:
      a:      {op: dense, in: x, units: 128, activation: tanh}
      b:      {op: dense, units: 128, activation: tanh}
      c:      {op: dense, units: 145, activation: tanh}
      d:      {op: dense, units: 113, activation: tanh}
      e:      {op: dense, units: 900, activation: tanh, kernel_regularizer: {l1: 0.001, l2: 0.01}}
      factor: {op: variable, shape: [1], initializer: ones}
      f:      {op: multiply, in: [e, factor]}
      g:      {op: dense, units: 300}
      logits: {op: dense, units: 10}
      loss:   {op: sparse_softmax_cross_entropy_with_logits, labels: label, logits: logits}
    optimizer: {minimize: loss, learning_rate: 0.05, OPTIMIZER}
    hooks: [{watch_diff: c/weight, to: npy}]
)";

constexpr const char* kOptimizers[] = {
    "type: sgd",
    "type: sgd, grad_clipping: {type: by_global_norm, clip_norm: 0.5}",
    "type: sgd, momentum: 0.9, grad_clipping: {type: by_value, clip_value: 0.001}",
    "type: sgdw, momentum: 0.9, weight_decay: 0.1, learning_rate_scales: {'*/bias': 2}",
    "type: adam, loss_scale: {type: dynamic}",
    "type: adamw, weight_decay: 0.1, excludes: ['*/bias'], "
    "grad_clipping: {type: by_global_norm, clip_norm: 0.5}",
    "type: rmsprop, grad_clipping: {type: by_value, clip_value: 0.001}, loss_scale: {type: "
    "dynamic}",
    "type: rmsprop, centered: true, momentum: 0.9, epsilon_inside: false, weight_decay: 0.01",
    "type: adam, amsgrad: true, weight_decay: 0.01, excludes: ['*/bias'], "
    "grad_clipping: {type: by_global_norm, clip_norm: 0.5, epsilon: 1e-6}",
    "type: adagrad, initial_accumulator_value: 0.1",
    "type: nadam, weight_decay: 0.1, loss_scale: {type: dynamic}",
    "type: ftrl, l1: 0.01, grad_clipping: {type: by_global_norm, clip_norm: 0.5}",
    "type: adafactor, weight_decay: 0.01, loss_scale: {type: dynamic}",
    "type: muon, grad_clipping: {type: by_global_norm, clip_norm: 0.5}",
    "type: muon, loss_scale: {type: dynamic}, lookahead: {steps: 2}",
    "type: lars, weight_decay: 0.01",
    "type: lars, grad_clipping: {type: by_global_norm, clip_norm: 0.5}",
    "type: lamb, weight_decay: 0.01",
    "type: lamb, grad_clipping: {type: by_global_norm, clip_norm: 0.5}, loss_scale: {type: "
    "dynamic}",
};

/// A dynamic loss scale requires mixed precision.
plan::Plan plan_with(const std::string& optimizer) {
  std::string text = kJob;
  const auto replace = [&text](std::string_view place, std::string_view by) {
    text.replace(text.find(place), place.size(), by);
  };
  const bool mixed = optimizer.find("loss_scale") != std::string::npos;
  replace("PRECISION", mixed ? "mixed_float16" : "float32");
  replace("OPTIMIZER", optimizer);
  return plan_of(text);
}

/// Weights are small, and moments are not negative. `loss_scale`: of a dynamic one.
test::Arrays values_of(const plan::Job& job, float loss_scale) {
  test::Arrays values = test::random_values(job);
  for (const plan::Variable& variable : job.variables)
    for (float& value : values.at(job[variable.tensor].name).as<float>())
      value = variable.slot ? std::abs(value) : 0.1F * value;
  if (job.optimizer->loss_scale)
    values.at(job[job.optimizer->loss_scale->scale].name).as<float>()[0] = loss_scale;
  return values;
}

/// What is watched, the loss, and all variables.
std::vector<std::string> wanted_of(const plan::Job& job) {
  std::vector<std::string> wanted = {job[job.hooks[0].tensor].name};
  wanted.push_back(job[job.optimizer->loss].name);
  for (const plan::Variable& variable : job.variables) wanted.push_back(job[variable.tensor].name);
  return wanted;
}

bool all_finite(const test::Arrays& arrays) {
  return std::ranges::all_of(arrays, [](const auto& named) {
    return std::ranges::all_of(named.second.template as<float>(),
                               [](float value) { return std::isfinite(value); });
  });
}

struct Case {
  int ranks = 1;
  unsigned seed = 0;
  int first = 0, calls = 3;
};

/// What rank 0 finds.
test::Arrays run_on_ranks(const plan::Job& job, const test::Arrays& values, const Case& one) {
  test::Arrays found;
  ThreadRanks world(one.ranks, one.seed);
  world.run([&](exec::Collectives& ranks) {
    const test::Arrays here = test::run(
        job, values, wanted_of(job),
        {.threads = 1 + one.ranks % 3, .calls = one.calls, .ranks = &ranks, .first = one.first});
    if (ranks.rank() == 0) found = here;
  });
  return found;
}

std::vector<std::string> divided(const plan::Job& job,
                                 const std::vector<plan::TensorId>& deliverables) {
  const auto owners = exec::share_memory(job, [](plan::TensorId, plan::TensorId) { return true; });
  std::vector<std::string> names;
  for (const auto& update : exec::find_divided_updates(job, owners, deliverables))
    names.push_back(job[update.variable].name);
  std::ranges::sort(names);
  return names;
}

/// Each rank of two, as if the other had zeros.
class HalfOfTwo final : public exec::Collectives {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string library() const override { return "half"; }
  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override {
    std::copy_n(send.memory + send.offsets[0], send.bytes[0], receive.memory + receive.offsets[0]);
    std::fill_n(receive.memory + receive.offsets[1], receive.bytes[1], std::byte{0});
    return 0;
  }
  Operation gather(const exec::RankBlocks& blocks) override { return gather_at(0, blocks); }
  Operation gather_at(int, const exec::RankBlocks& blocks) override {
    std::fill_n(blocks.memory + blocks.offsets[1], blocks.bytes[1], std::byte{0});
    return 0;
  }
  Operation broadcast(int, std::span<std::byte>) override { return 0; }
  bool test(Operation) override { return true; }
  void post(int, std::span<const std::byte>) override {}
  std::optional<exec::RankMessage> poll() override { return {}; }
  void finish() override {}
};

/// Counts what a rank sends for sums and updates. With one byte ranks agree.
class CountedRank final : public exec::Collectives {
 public:
  explicit CountedRank(exec::Collectives& ranks) : ranks_(ranks) {}
  size_t sent() const { return sent_; }

  int rank() const override { return ranks_.rank(); }
  int size() const override { return ranks_.size(); }
  std::string library() const override { return ranks_.library(); }
  Operation exchange(const exec::RankBlocks& send, const exec::RankBlocks& receive) override {
    for (int other = 0; other < size(); ++other)
      if (other != rank() && send.bytes[0] != 1) sent_ += send.bytes[static_cast<size_t>(other)];
    return ranks_.exchange(send, receive);
  }
  Operation gather(const exec::RankBlocks& blocks) override {
    const size_t own = blocks.bytes[static_cast<size_t>(rank())];
    sent_ += own * static_cast<size_t>(size() - 1);
    return ranks_.gather(blocks);
  }
  Operation gather_at(int root, const exec::RankBlocks& blocks) override {
    return ranks_.gather_at(root, blocks);
  }
  Operation broadcast(int root, std::span<std::byte> bytes) override {
    return ranks_.broadcast(root, bytes);
  }
  bool test(Operation operation) override { return ranks_.test(operation); }
  void post(int to, std::span<const std::byte> message) override { ranks_.post(to, message); }
  std::optional<exec::RankMessage> poll() override { return ranks_.poll(); }
  void finish() override { ranks_.finish(); }

 private:
  exec::Collectives& ranks_;
  size_t sent_ = 0;
};

}  // namespace

TEST_CASE("ranks that divide updates compute the bits of one rank", "[property]") {
  for (size_t i = 0; i < std::size(kOptimizers); i += test::kCasesPerTried) {
    const char* optimizer = kOptimizers[i];
    CAPTURE(optimizer);
    const plan::Plan plan = plan_with(optimizer);
    const plan::Job& job = plan.jobs[0];
    const test::Arrays values = values_of(job, 16);
    const test::Arrays alone = test::run(job, values, wanted_of(job), {.calls = 3});
    CHECK(all_finite(alone));
    for (const int ranks : {2, i % 2 == 0 ? 4 : 8}) {
      CAPTURE(ranks);
      CHECK(test::same_bits(run_on_ranks(job, values, {ranks, 7}), alone));
    }
  }
}

// The update of z is not divided, and all of y is one piece.
TEST_CASE("a rank that updates nothing knows the norm of all gradients", "[property]") {
  const plan::Plan plan = plan_of(R"(flow: 1
jobs:
  train:
    type: train
    shards: 4
    inputs: {x: {shape: [8, 100], dtype: float32}}
    graph:
      y:    {op: dense, in: x, units: 100, use_bias: false}
      z:    {op: dense, units: 50, use_bias: false}
      loss: {op: square, in: z}
    optimizer: {type: lars, minimize: loss, learning_rate: 0.05, grad_clipping: {type: by_global_norm, clip_norm: 0.5}}
    hooks: [{watch_diff: z/weight, to: npy}]
)");
  const plan::Job& job = plan.jobs[0];
  const test::Arrays values = values_of(job, 1);
  const test::Arrays alone = test::run(job, values, wanted_of(job), {.calls = 3});
  for (const int ranks : {2, 4})
    CHECK(test::same_bits(run_on_ranks(job, values, {ranks, 1}), alone));
}

TEST_CASE("ranks that divide updates skip them together", "[property]") {
  const plan::Plan plan = plan_with(kOptimizers[std::size(kOptimizers) - 1]);
  const plan::Job& job = plan.jobs[0];
  const test::Arrays values = values_of(job, std::numeric_limits<float>::max());
  const test::Arrays alone = test::run(job, values, wanted_of(job), {.calls = 1});
  CHECK(std::ranges::equal(alone.at("g/weight/m").bytes(), values.at("g/weight/m").bytes()));
  CHECK(test::same_bits(run_on_ranks(job, values, {4, 1, 0, 1}), alone));
}

TEST_CASE("another number of ranks continues with the same bits", "[property]") {
  const plan::Plan plan = plan_with("type: lamb");
  const plan::Job& job = plan.jobs[0];
  test::Arrays values = values_of(job, 1);
  const test::Arrays alone = test::run(job, values, wanted_of(job), {.calls = 4});
  const test::Arrays half = run_on_ranks(job, values, {4, 1, 0, 2});
  for (auto& [name, value] : values)
    if (half.contains(name)) value = half.at(name);
  CHECK(test::same_bits(run_on_ranks(job, values, {2, 2, 2, 2}), alone));
}

TEST_CASE("each rank has its part of the slots", "[property]") {
  const plan::Plan plan = plan_with("type: adam");
  const plan::Job& job = plan.jobs[0];
  size_t variables = 0, slots = 0;
  for (const plan::Variable& variable : job.variables)
    (variable.slot ? slots : variables) += exec::bytes_of(job[variable.tensor]);
  const size_t whole = 2 * exec::bytes_of(job[test::tensor(job, "c/weight/m")]);  // not divided
  for (const int size : {1, 2, 4, 8}) {
    std::mutex mutex;
    std::vector<size_t> held;
    ThreadRanks world(size);
    world.run([&](exec::Collectives& ranks) {
      exec::PrepareOptions options{.deliverables = {job.hooks[0].tensor}, .ranks = &ranks};
      const auto program = cpu::make_backend()->prepare(job, options);
      const std::lock_guard lock(mutex);
      held.push_back(program->memory().variables - variables - whole);
    });
    CAPTURE(size, slots, held);
    const auto parts = static_cast<size_t>(size);
    const size_t small = 64 * job.variables.size() + (size_t{1} << 15);  // lines, and what is small
    for (const size_t bytes : held) CHECK(bytes <= (slots - whole) / parts + small + 6 * 4 * 16384);
    size_t all = 0;
    for (const size_t bytes : held) all += bytes;
    CHECK(all >= slots - whole);
    CHECK(all <= slots - whole + parts * small);
  }
}

TEST_CASE("ranks send as many bytes as reported", "[property]") {
  const char* optimizer =
      GENERATE("type: sgd", "type: lamb, grad_clipping: {type: by_global_norm, clip_norm: 1}");
  const plan::Plan plan = plan_with(optimizer);
  const plan::Job& job = plan.jobs[0];
  for (const int size : {2, 4, 8}) {
    std::mutex mutex;
    size_t sent = 0, reported = 0;
    ThreadRanks world(size);
    world.run([&](exec::Collectives& ranks) {
      CountedRank counted(ranks);
      const exec::PrepareOptions options{.ranks = &counted};
      const auto program = cpu::make_backend()->prepare(job, options);
      program->launch({0, 0.1, {}}, 0, 0);
      const std::lock_guard lock(mutex);
      sent += counted.sent();
      reported += program->memory().sent;
    });
    CAPTURE(optimizer, size);
    CHECK(std::abs(static_cast<double>(sent) / static_cast<double>(reported) - 1) < 0.001);
  }
}

TEST_CASE("a call that divides updates allocates nothing", "[property]") {
  const plan::Plan plan =
      plan_with("type: lamb, grad_clipping: {type: by_global_norm, clip_norm: 1}");
  const plan::Job& job = plan.jobs[0];
  HalfOfTwo ranks;
  const exec::PrepareOptions options{.profile = GENERATE(false, true), .ranks = &ranks};
  const auto program = cpu::make_backend()->prepare(job, options);
  program->launch({0, 0.1, {}}, 0, 0);
  const plan::TensorId moment = test::tensor(job, "g/weight/m");
  Array value(DType::kFloat32, job[moment].shape);
  if (!allocations_are_counted()) return;
  const int64_t before = allocations_of_this_thread();
  program->launch({1, 0.1, {}}, 0, 0);
  program->read_variable(moment, value.bytes());
  CHECK(allocations_of_this_thread() == before);
}

TEST_CASE("updates are divided where slices of a gradient suffice", "[property]") {
  const plan::Plan plan = plan_with(
      "type: adam, grad_clipping: {type: by_value, clip_value: 1}, loss_scale: {type: dynamic}");
  const plan::Job& job = plan.jobs[0];
  std::vector<std::string> all;
  for (const plan::Variable& variable : job.variables)
    if (variable.trainable) all.push_back(job[variable.tensor].name);
  std::ranges::sort(all);
  CHECK(divided(job, {}) == all);
  const auto without = [&](const std::string& deliverable) {
    std::vector<std::string> rest = all;
    for (const std::string& name : divided(job, {test::tensor(job, deliverable)}))
      std::erase(rest, name);
    return rest;
  };
  CHECK(without("b/weight").empty());  // as it is before the update
  CHECK(without("b/weight:diff") == std::vector<std::string>{"b/weight"});
  CHECK(without("b/weight/m") == std::vector<std::string>{"b/weight"});
  CHECK(without("b/weight:update") == std::vector<std::string>{"b/weight"});
  CHECK(without("e/weight:clipped") == std::vector<std::string>{"e/weight"});
}

}  // namespace flow
