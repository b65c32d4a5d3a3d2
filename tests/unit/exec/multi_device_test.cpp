// Jobs on two devices, of which both are CPUs here: turns, copies, memory, times.
#include "runtime/exec/multi_device/multi_device.h"

#include <algorithm>

#include "ops/core/spec.h"
#include "runtime/compare/compare.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/run/run.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

namespace flow::exec {
namespace {

using plan::DeviceKind;

/// Three layers, the second where `placement` says, the third of its weight.
std::string net(const std::string& placement, const std::string& more = "") {
  return "flow: 1\njobs:\n  train:\n    type: train\n"
         "    inputs:\n      x: {shape: [8, 6], dtype: float32}\n"
         "      labels: {shape: [8], dtype: int32}\n"
         "    graph:\n      a: {op: dense, units: 6, activation: relu, in: x}\n"
         "      b: {op: dense, units: 6, activation: tanh" +
         placement +
         "}\n      c: {op: dense, units: 6, activation: relu, variables: b}\n"
         "      out: {op: dense, units: 10}\n"
         "      loss: {op: sparse_softmax_cross_entropy_with_logits, labels: labels, logits: out}\n"
         "    optimizer: {type: adam, learning_rate: 0.1, minimize: loss, grad_clipping: {type: "
         "by_global_norm, clip_norm: 0.5}}\n    returns: {value: loss}\n" +
         more;
}

const std::string kOnGpu = ", placement: {device: gpu}";

std::unique_ptr<Backend> two_cpus() {
  return make_multi_device_backend(cpu::make_backend(), cpu::make_backend());
}

std::vector<std::string> variables_of(const plan::Job& job) {
  std::vector<std::string> names{"loss"};
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

std::string turns_of(const plan::Job& job) {
  std::string text;
  for (const Turn& turn : split_job(job, {}).turns)
    text += fmt::format("{}{} ", plan::name_of(turn.device),
                        turn.awaits ? fmt::format("<{}", *turn.awaits) : "");
  return text;
}

/// Gives random values to variables and inputs.
void fill(Program& program, const plan::Job& job) {
  for (const auto& [name, value] : test::random_values(job)) {
    const plan::TensorId id = test::tensor(job, name);
    if (job[id].role == plan::Role::kVariable)
      program.write_variable(id, value.view());
    else
      std::ranges::copy(value.bytes(), program.input(id, 0).begin());
  }
}

using Made = std::function<void(const std::string& tensor, std::span<std::byte>)>;

/// Of the first call, with their tensors.
std::vector<std::pair<plan::TensorId, Fingerprint>> fingerprints_of(const plan::Job& job,
                                                                    Backend& backend,
                                                                    const Made& made = {}) {
  PrepareOptions options;
  options.threads = 1;
  options.fingerprints = true;
  if (made)
    options.made = [&](int64_t, plan::TensorId id, std::span<std::byte> bytes) {
      made(job[id].name, bytes);
    };
  const auto program = backend.prepare(job, options);
  fill(*program, job);
  program->launch({.step = 0, .learning_rate = 0.1, .wanted = {}, .fingerprints = true}, 0, 0);
  program->wait(0);
  const std::vector<plan::TensorId> tensors = program->fingerprinted();
  const std::span<const Fingerprint> taken = program->fingerprints(0);
  REQUIRE(tensors.size() == taken.size());
  std::vector<std::pair<plan::TensorId, Fingerprint>> all;
  for (size_t i = 0; i < tensors.size(); ++i) all.emplace_back(tensors[i], taken[i]);
  return all;
}

}  // namespace

TEST_CASE("a job on two devices has the fingerprints of one on one, and of each copy", "[exec]") {
  const plan::Plan plain = plan_of(net("")), mixed = plan_of(net(kOnGpu));
  const plan::Job &one = plain.jobs[0], &two = mixed.jobs[0];
  std::map<std::string, Fingerprint> expected;
  for (const auto& [id, print] : fingerprints_of(one, *cpu::make_backend()))
    expected[one[id].name] = print;
  const auto got = fingerprints_of(two, *two_cpus());
  std::map<plan::TensorId, Fingerprint> by_tensor(got.begin(), got.end());
  CHECK(by_tensor.size() == got.size());
  size_t found = 0, copies = 0;
  for (const auto& [id, print] : got)
    if (const auto same = expected.find(two[id].name); same != expected.end()) {
      INFO(same->first);
      CHECK(print.is_same(same->second));
      ++found;
    }
  CHECK(found == expected.size());
  for (const plan::Step& step : two.steps) {
    if (!step.op->between_devices) continue;
    INFO(step.name);
    REQUIRE(by_tensor.contains(step.outputs[0]));
    if (const auto source = by_tensor.find(step.inputs[0]); source != by_tensor.end()) {
      CHECK(by_tensor[step.outputs[0]].is_same(source->second));
      ++copies;
    }
  }
  CHECK(copies > 5);
}

TEST_CASE(
    "the first fingerprint that differs is of the tensor of which a bit flips, on two devices",
    "[exec]") {
  const plan::Plan plan = plan_of(net(kOnGpu));
  const plan::Job& job = plan.jobs[0];
  const auto clean = fingerprints_of(job, *two_cpus());
  for (const auto& [flipped, print] : clean) {
    if (job[flipped].dtype != DType::kFloat32) continue;
    const std::string& name = job[flipped].name;
    INFO(name);
    const auto bad = fingerprints_of(job, *two_cpus(),
                                     [&](const std::string& tensor, std::span<std::byte> bytes) {
                                       if (tensor == name) bytes[bytes.size() / 2] ^= std::byte{1};
                                     });
    REQUIRE(bad.size() == clean.size());
    const auto is_same = [](const auto& a, const auto& b) { return a.second.is_same(b.second); };
    const auto first = std::ranges::mismatch(clean, bad, is_same).in1;
    REQUIRE(first != clean.end());
    CHECK(job[first->first].name == name);
  }
}

TEST_CASE("a job on two devices gives the bits of one on one", "[exec]") {
  const std::string hooks = "    hooks: [{watch: b}, {watch_diff: b/weight}]\n";
  const plan::Plan plain = plan_of(net("")), mixed = plan_of(net(kOnGpu, hooks));
  const plan::Job &one = plain.jobs[0], &two = mixed.jobs[0];
  REQUIRE(plan::has_two_devices(two));
  const auto backend = two_cpus();
  const test::Arrays values = test::random_values(one);
  const std::vector<std::string> wanted = variables_of(one);
  const test::Arrays expected = test::run(one, values, wanted, {.calls = 3});
  const test::Arrays got = test::run(two, values, wanted, {.calls = 3, .backend = backend.get()});
  CHECK(test::same_bits(got, expected));
}

TEST_CASE("jobs that are called have the variables of the one that calls them, on either device",
          "[exec]") {
  const std::string inputs = "{x: {shape: [4, 3], dtype: float32, from: {type: random_normal}}}";
  const std::string text =
      "flow: 1\nnetworks:\n  net:\n    inputs: [x]\n    graph:\n"
      "      a: {op: dense, units: 5, activation: relu, placement: {device: gpu}}\n"
      "      bn: {op: batch_normalization}\n      out: {op: dense, units: 3}\n"
      "jobs:\n  train:\n    type: train\n    inputs: " +
      inputs +
      "\n    graph:\n"
      "      net: {op: net, in: x}\n      loss: {op: mse, prediction: net, target: x}\n"
      "    optimizer: {type: sgd, momentum: 0.9, learning_rate: 0.1, minimize: loss}\n"
      "    returns: {type: Callback, value: [loss, net/a]}\n"
      "    hooks: [{watch_scope: net/a}]\n"
      "    run: {steps: 6, also: [{job: eval, every: {steps: 2}}]}\n"
      "  eval:\n    type: predict\n    inputs: " +
      inputs +
      "\n    graph: {net: {op: net, in: x}}\n"
      "    returns: {value: net}\n";
  const FreshDirectory home;
  const auto run_on = [&](Backend& backend, const CompileRequest& request, const char* out) {
    const plan::Plan plan = plan_of(text, request);
    fs::create_directories(home / out);
    RunRequest run(plan, plan.jobs.front(), home.path(), home / out);
    run.threads = 1;
    CHECK(exec::run(backend, run).exit_status == 0);
  };
  CompileRequest forced;
  forced.target.forced = true;
  run_on(*cpu::make_backend(), forced, "one");
  run_on(*two_cpus(), {}, "two");
  for (const char* part : {"returns", "watch", "checkpoints/000006", "also/eval/returns"}) {
    INFO(part);
    const compare::Comparison compared = compare::compare_paths(
        home / "one" / part, home / "two" / part, {.relative = 0, .absolute = 0, .rules = {}});
    CHECK(compared.pairs() > 0);
    for (const compare::ArrayDifference& array : compared.arrays) {
      INFO(array.name);
      CHECK_FALSE(array.failed());
    }
  }
}

TEST_CASE("a device keeps its turn until it needs what the other has not passed on", "[exec]") {
  // b's weight for c, b's result, and where all gradients are: forward, backward, the factor.
  CHECK(turns_of(plan_of(net(kOnGpu)).jobs[0]) == "gpu cpu<0 gpu<0 cpu<1 gpu<1 cpu<2 gpu<2 ");
  CHECK(turns_of(plan_of(net("")).jobs[0]) == "cpu ");
}

TEST_CASE("the parts of a job have what lies on their device, and both ends of each copy",
          "[exec]") {
  const plan::Plan plan = plan_of(net(kOnGpu));
  const Split both = split_job(plan.jobs[0], {});
  const Part &cpu = both.parts[0], &gpu = both.parts[1];
  CHECK(cpu.job.variables.size() + gpu.job.variables.size() == plan.jobs[0].variables.size());
  CHECK(gpu.job.variables.size() == 6);  // two, with two slots each
  CHECK(gpu.job.inputs.empty());
  CHECK(cpu.transferred.size() == both.transfers.size());
  CHECK(gpu.transferred.size() == both.transfers.size());
  for (const Part& part : both.parts) {
    CHECK(part.segments.back() == part.job.steps.size());
    CHECK(std::ranges::is_sorted(part.segments));
  }
}

TEST_CASE("the memory of a job on two devices is that of both, and what lies between them",
          "[exec]") {
  const plan::Plan plan = plan_of(net(kOnGpu));
  const auto backend = two_cpus();
  const auto program = backend->prepare(plan.jobs[0], {});
  const MemoryReport& memory = program->memory();
  REQUIRE(memory.parts.size() == 2);
  CHECK(memory.parts[0].device == "cpu");
  CHECK(memory.total() == memory.parts[0].total() + memory.parts[1].total());
  CHECK(memory.pinned == split_job(plan.jobs[0], {}).transfers.size() * 256);
}

TEST_CASE("a profile of two devices lists the steps of each turn, and times that do not go back",
          "[exec]") {
  const plan::Plan plan = plan_of(net(kOnGpu));
  const plan::Job& job = plan.jobs[0];
  const auto backend = two_cpus();
  PrepareOptions options;
  options.threads = 1;
  options.profile = true;
  options.deliverables = {test::tensor(job, "loss")};
  const auto program = backend->prepare(job, options);
  fill(*program, job);
  const uint8_t wanted[] = {1};
  program->launch({0, 0.1, wanted}, 0, 0);
  program->wait(0);
  const std::vector<TimedStep> steps = program->timed_steps();
  const auto times = program->step_times(0);
  REQUIRE(times.size() == steps.size() + 1);
  CHECK(std::ranges::is_sorted(times));
  for (const plan::Step& step : job.steps) {
    INFO(step.name);
    CHECK(std::ranges::count(steps, step.name, &TimedStep::name) >= 1);
  }
}

TEST_CASE("a loop of a job on one device makes the same passes on a backend of two", "[exec]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  count:\n    type: predict\n"
      "    inputs: {y: {shape: [2, 3], dtype: float32, from: {type: random_normal}}}\n"
      "    graph:\n      next: {op: add, in: [y, 1]}\n      total: {op: reduce_sum, in: next}\n"
      "    returns: {value: total}\n    run: {loop: {feed: {y: next}, steps: 3}}\n");
  const FreshDirectory home;
  const auto run_on = [&](Backend& backend, const char* out) {
    fs::create_directories(home / out);
    RunRequest run(plan, plan.jobs.front(), home.path(), home / out);
    CHECK(exec::run(backend, run).exit_status == 0);
    return read_text(home / out / "returns/total/value.npy");
  };
  CHECK(run_on(*two_cpus(), "two") == run_on(*cpu::make_backend(), "one"));
}

TEST_CASE("a job of one device runs on a backend of two as on its own", "[exec]") {
  const plan::Plan plan = plan_of(net(""));
  const plan::Job& job = plan.jobs[0];
  const auto backend = two_cpus();
  const test::Arrays values = test::random_values(job);
  CHECK(test::same_bits(test::run(job, values, {"loss"}, {.backend = backend.get()}),
                        test::run(job, values, {"loss"})));
}

TEST_CASE("a label out of range is a fault, whichever part reads it", "[exec]") {
  plan::Plan plan = plan_of(net(kOnGpu));
  const plan::Job& job = plan.jobs[0];
  const auto backend = two_cpus();
  const auto program = backend->prepare(job, {});
  Array labels(DType::kInt32, {8});
  labels.as<int32_t>()[5] = 10;
  std::ranges::copy(labels.bytes(), program->input(test::tensor(job, "labels"), 0).begin());
  program->launch({0, 0.1, {}}, 0, 0);
  program->wait(0);
  const auto fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->row == 5);
}

}  // namespace flow::exec
