// Programs of the CUDA backend on small jobs: order of calls, slots, probes, faults, memory,
// failures.
#include <catch2/catch.hpp>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/cpu/backend/backend.h"
#include "runtime/exec/run/executor.h"
#include "runtime/io/npy.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"
#include "tests/unit/job/compiled.h"

using namespace flow;
using test::FakeGpu;
using test::floats;
using test::JobBuilder;
using Ints = std::vector<int64_t>;

namespace {

void write(exec::Program& program, plan::TensorId input, size_t slot, std::vector<float> values) {
  std::memcpy(program.input(input, slot).data(), values.data(), values.size() * sizeof(float));
}

std::vector<float> read(const exec::Program& program, plan::TensorId variable, size_t elements) {
  std::vector<float> values(elements);
  program.read_variable(variable, std::as_writable_bytes(std::span(values)));
  return values;
}

/// w -= lr * g, and y = 3 w + g delivered; two updates so that they are launched as one.
struct SmallJob {
  JobBuilder b;
  plan::TensorId g = b.input("g", {2});
  plan::TensorId w = b.variable("w", {2}), v = b.variable("v", {2});
  plan::TensorId tripled = b.step("scale", "tripled", {w}, {{"factor", 3.0}}, {2});
  plan::TensorId early = b.step("sgd_update", "w:update", {g, w},
                                {{"scale", 1.0}, {"rate_scale", 1.0}}, {2}, DType::kFloat32, w);
  plan::TensorId y = b.step("add", "y", {tripled, g}, {}, {2});
  plan::TensorId late = b.step("sgd_update", "v:update", {y, v},
                               {{"scale", 1.0}, {"rate_scale", 1.0}}, {2}, DType::kFloat32, v);
  plan::Job job = b.build();
};

/// A column of int32 zeros, in a file of `folder`.
std::unique_ptr<data::Column> zeros_of(const FreshDirectory& folder, const Shape& shape) {
  io::write_npy(folder / "zeros.npy", Array(DType::kInt32, shape).view());
  plan::Column column;
  column.name = "labels";
  column.source = plan::SourceKind::kNpy;
  column.files = {"zeros.npy"};
  return data::Column::open(column, folder.path());
}

std::string refusal(FakeGpu& gpu, const plan::Job& job, const exec::PrepareOptions& options = {}) {
  try {
    gpu.backend->prepare(job, options);
  } catch (const RunError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("fingerprints follow their steps in the stream, and come to the host in one copy",
          "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.eager = options.fingerprints = true;
  const auto program = gpu.backend->prepare(small.job, options);
  CHECK(program->fingerprinted() == std::vector<plan::TensorId>{small.g, small.w, small.v,
                                                                small.tripled, small.y, small.early,
                                                                small.late});
  write(*program, small.g, 0, {1, -3});
  gpu.driver->forget_calls();
  program->launch({.step = 0, .learning_rate = 0.5, .wanted = {}, .fingerprints = true}, 0, 0);
  program->wait(0);
  CHECK(gpu.driver->calls() ==
        std::vector<std::string>{
            "copy 512 to device stream 1", "launch clear_fingerprints stream 1",
            "launch fingerprint stream 1", "launch fingerprint stream 1",
            "launch fingerprint stream 1", "launch scale stream 1", "launch fingerprint stream 1",
            "launch add stream 1", "launch fingerprint stream 1", "launch sgd_update stream 1",
            "launch fingerprint stream 1", "launch fingerprint stream 1",
            "copy 448 to host stream 1", "record stream 1", "synchronize event"});
  const std::span<const Fingerprint> taken = program->fingerprints(0);
  REQUIRE(taken.size() == 7);
  CHECK(taken[0].count == 2);
  CHECK(taken[0].sum == -2);
  CHECK(taken[4].absolute == 4);  // y = g, where w is 0
  CHECK(taken[5].most == 1.5);    // w -= 0.5 g
  CHECK(program->fingerprint_seconds() > 0);

  gpu.driver->forget_calls();
  program->launch({1, 0.5, {}}, 0, 0);
  program->wait(0);
  for (const std::string& call : gpu.driver->calls())
    CHECK(call.find("fingerprint") == std::string::npos);
}

TEST_CASE("a call copies in, computes, updates last and copies out", "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {small.w, small.y};
  options.always = {1, 1};
  options.eager = true;
  const auto program = gpu.backend->prepare(small.job, options);
  gpu.driver->forget_calls();
  const uint8_t wanted[] = {1, 1};
  program->launch({0, 0.5, wanted}, 0, 0);
  program->wait(0);
  // Stream 1 computes, stream 3 copies to the host; w is read before its update.
  const std::vector<std::string>& calls = gpu.driver->calls();
  CAPTURE(calls);
  const auto at = [&](std::string_view start, size_t from = 0) {
    for (size_t i = from; i < calls.size(); ++i)
      if (calls[i].starts_with(start)) return i;
    FAIL("no call " << start);
    return size_t{0};
  };
  const size_t in = at("copy 512 to device stream 1");
  const size_t w_out = at("copy 8 to host stream 3"), scale = at("launch");
  const size_t y_out = at("copy 8 to host stream 3", w_out + 1);
  CHECK(in == 0);
  CHECK(in < w_out);
  CHECK(w_out < scale);
  CHECK(scale < y_out);
  size_t last_launch = 0;
  for (size_t i = 0; i < calls.size(); ++i)
    if (calls[i].starts_with("launch")) last_launch = i;
  CHECK(y_out < last_launch);
  CHECK(calls[last_launch].find("update") != std::string::npos);
  CHECK(calls[last_launch - 1].starts_with("wait stream 1"));
  CHECK(gpu.driver->count("launch") == 3);  // both updates are one
}

TEST_CASE("a profiled call is launched step by step, and says when each step ended", "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {small.w, small.tripled};
  options.profile = true;
  const auto program = gpu.backend->prepare(small.job, options);
  CHECK(gpu.driver->count("capture stream") == 0);
  const std::vector<exec::TimedStep> steps = program->timed_steps();
  REQUIRE(steps.size() >= 4);
  CHECK(steps.front().name == "inputs");
  CHECK(steps.back().name == "outputs");
  const uint8_t all[] = {1, 1}, none[] = {0, 0};
  program->launch({0, 0.5, all}, 0, 0);
  program->wait(0);
  const auto times = program->step_times(0);
  REQUIRE(times.size() == steps.size() + 1);
  // The fake's pieces of work take a millisecond each.
  for (size_t i = 0; i < steps.size(); ++i) CHECK(times[i + 1] - times[i] >= 1'000'000);
  const int64_t whole = times.back() - times.front(), end = times.back();
  program->launch({1, 0.5, none}, 0, 0);
  program->wait(0);
  CHECK(times.front() >= end);  // calls of a stream follow each other
  CHECK(times.back() - times.front() < whole);
}

TEST_CASE("programs that share variables have them in one memory", "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  const auto first = gpu.backend->prepare(small.job, {});
  exec::PrepareOptions options;
  options.variable_sources = {{&small.job, first.get()}};
  const auto second = gpu.backend->prepare(small.job, options);
  CHECK(second->memory().variables == 0);
  Array value(DType::kFloat32, {2});
  value.as<float>()[1] = 7;
  first->write_variable(small.w, value.view());
  Array read(DType::kFloat32, {2});
  second->read_variable(small.w, read.bytes());
  CHECK(read.as<float>()[1] == 7);
}

TEST_CASE("a captured call is one launch, and its slot's graph another for what fires", "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.input_slots = 2;
  options.deliverables = {small.y, small.tripled};
  options.always = {1, 0};
  const auto program = gpu.backend->prepare(small.job, options);
  CHECK(gpu.driver->count("capture stream") == 4);  // two forms for two input slots
  write(*program, small.g, 0, {1, 2});
  write(*program, small.g, 1, {3, 4});
  const Array ones = [] {
    Array array(DType::kFloat32, {2});
    array.as<float>()[0] = array.as<float>()[1] = 1;
    return array;
  }();
  program->write_variable(small.w, ones.view());
  gpu.driver->forget_calls();
  const uint8_t quiet[] = {1, 0}, all[] = {1, 1};
  program->launch({0, 0.5, quiet}, 0, 0);
  program->wait(0);
  CHECK(floats(program->delivered(small.y, 0)) == std::vector<float>{4, 5});
  CHECK(floats(program->delivered(small.tripled, 0)) == std::vector<float>{0, 0});
  program->launch({1, 0.5, all}, 1, 0);
  program->wait(0);
  CHECK(floats(program->delivered(small.tripled, 0)) == std::vector<float>{1.5, 0});
  CHECK(floats(program->delivered(small.y, 0)) == std::vector<float>{4.5, 4});
  CHECK(gpu.driver->calls() ==
        std::vector<std::string>{"launch graph stream 1", "record stream 1", "synchronize event",
                                 "launch graph stream 1", "record stream 1", "synchronize event"});
  CHECK(read(*program, small.w, 2) == std::vector<float>{-1, -2});
}

TEST_CASE("each pass of a loop draws what it draws on the CPU", "[cuda]") {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  run:\n    type: predict\n    inputs:\n"
      "      x: {shape: [3, 5], dtype: float32}\n    graph:\n"
      "      normal: {op: random_normal, like: x}\n      ones: {op: bernoulli, in: normal}\n"
      "      four: {op: constant, value: 4, dtype: int32}\n"
      "      places: {op: multinomial, in: x, samples: 9}\n"
      "      token: {op: sample, in: x, position: four}\n      y: {op: add, in: [x, 1]}\n"
      "    returns: {value: [normal, ones, places, token]}\n"
      "    run: {loop: {feed: {x: y}, steps: 3}}\n");
  const plan::Job& job = plan.jobs[0];
  const std::vector<std::string> names = {"normal:all", "ones:all", "places:all", "token:all"};
  const auto drawn = [&](exec::Backend& backend, bool eager) {
    exec::PrepareOptions options;
    for (const std::string& name : names) options.deliverables.push_back(test::tensor(job, name));
    options.segments = exec::segments_of(job);
    options.eager = eager;
    const auto program = exec::make_loop(job, backend.prepare(job, options));
    const std::vector<uint8_t> wanted(names.size(), 1);
    std::vector<std::vector<std::byte>> made;
    for (const int64_t step : {0, 1}) {
      program->launch({.step = step, .wanted = wanted}, 0, 0);
      program->wait(0);
      for (const plan::TensorId id : options.deliverables) {
        const auto bytes = program->delivered(id, 0);
        made.emplace_back(bytes.begin(), bytes.end());
      }
    }
    return made;
  };
  const auto expected = drawn(*cpu::make_backend(), false);
  CHECK(expected[0] != expected[names.size()]);  // of another step
  for (const bool eager : {false, true}) {
    FakeGpu gpu;
    CHECK(drawn(*gpu.backend, eager) == expected);
    CHECK(gpu.driver->problems().empty());
  }
}

TEST_CASE("a variable is delivered as it was before the call's update", "[cuda]") {
  SmallJob small;
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {small.w, small.early};
  options.eager = GENERATE(false, true);
  const auto program = gpu.backend->prepare(small.job, options);
  write(*program, small.g, 0, {1, 2});
  const uint8_t wanted[] = {1, 1};
  program->launch({0, 0.5, wanted}, 0, 0);
  program->wait(0);
  CHECK(floats(program->delivered(small.w, 0)) == std::vector<float>{0, 0});
  CHECK(floats(program->delivered(small.early, 0)) == std::vector<float>{-0.5, -1});
}

TEST_CASE("slots of inputs and outputs keep calls apart that are launched together", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {3});
  const auto y = b.step("scale", "y", {x}, {{"factor", 3.0}}, {3});
  const plan::Job job = b.build();
  FakeGpu gpu;
  exec::PrepareOptions options{1, 2, 2, {y}};
  options.eager = GENERATE(false, true);
  const auto program = gpu.backend->prepare(job, options);
  write(*program, x, 0, {1, 2, 3});
  write(*program, x, 1, {4, 5, 6});
  const uint8_t wanted[] = {1};
  program->launch({0, 0, wanted}, 0, 0);
  program->launch({1, 0, wanted}, 1, 1);
  program->wait(0);
  program->wait(1);
  CHECK(floats(program->delivered(y, 0)) == std::vector<float>{3, 6, 9});
  CHECK(floats(program->delivered(y, 1)) == std::vector<float>{12, 15, 18});
}

TEST_CASE("a tap runs only in calls that want what it makes", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {3});
  const auto tapped = b.step("scale", "tapped", {x}, {{"factor", 2.0}}, {3});
  b.last_step().probe = true;
  const auto y = b.step("relu", "y", {x}, {}, {3});
  const plan::Job job = b.build();
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {y, tapped};
  options.always = {1, 0};
  const auto program = gpu.backend->prepare(job, options);
  CHECK(gpu.driver->count("captured launch") == 1 + 2);
  write(*program, x, 0, {1, -2, 3});
  const uint8_t wanted[] = {0, 1};
  program->launch({0, 0, wanted}, 0, 0);
  program->wait(0);
  CHECK(floats(program->delivered(tapped, 0)) == std::vector<float>{2, -4, 6});
}

TEST_CASE("what is delivered is kept from steps that could work in its place", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {3});
  const auto a = b.step("scale", "a", {x}, {{"factor", 2.0}}, {3});
  const auto c = b.step("relu", "c", {a}, {}, {3}, DType::kFloat32, a);
  const plan::Job job = b.build();
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {c};
  CHECK(gpu.backend->prepare(job, options)->memory().arena == 256);
  options.deliverables = {a, c};
  const auto program = gpu.backend->prepare(job, options);
  CHECK(program->memory().arena == 512);
  write(*program, x, 0, {-1, 0, 1});
  const uint8_t wanted[] = {1, 1};
  program->launch({0, 0, wanted}, 0, 0);
  program->wait(0);
  CHECK(floats(program->delivered(a, 0)) == std::vector<float>{-2, 0, 2});
  CHECK(floats(program->delivered(c, 0)) == std::vector<float>{0, 0, 2});
}

TEST_CASE("a constant is computed before the first call, and nothing takes its memory", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {3});
  const auto early = b.step("scale", "early", {x}, {{"factor", 2.0}}, {3});
  const auto sum = b.step("add", "sum", {early, x}, {}, {3});
  const auto ones = b.step("fill", "ones", {},
                           {{"dtype", DType::kFloat32}, {"shape", Ints{3}}, {"value", 1.0}}, {3});
  const auto next = b.step("add", "next", {ones, sum}, {}, {3}, DType::kFloat32, ones);
  const plan::Job job = b.build();
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {next, ones};
  options.always = {1, 0};
  options.eager = GENERATE(false, true);
  const auto program = gpu.backend->prepare(job, options);
  gpu.driver->forget_calls();
  const uint8_t wanted[] = {1, 1};
  for (const float value : {1.f, 5.f}) {
    write(*program, x, 0, {value, value, value});
    program->launch({0, 0, wanted}, 0, 0);
    program->wait(0);
    CHECK(floats(program->delivered(next, 0)) == std::vector<float>(3, 3 * value + 1));
    CHECK(floats(program->delivered(ones, 0)) == std::vector<float>(3, 1));
  }
  if (options.eager) CHECK(gpu.driver->count("launch") == 2 * 3);
}

TEST_CASE("a label out of range is a fault of its call and not of the next", "[cuda]") {
  const plan::Job job = test::mlp_training(3, 4);
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.eager = GENERATE(false, true);
  const auto program = gpu.backend->prepare(job, options);
  auto* labels = reinterpret_cast<int32_t*>(program->input(test::tensor(job, "labels"), 0).data());
  labels[0] = 9, labels[1] = 10, labels[2] = -1;
  program->launch({0, 0.1, {}}, 0, 0);
  program->wait(0);
  const auto fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->where == "job.yaml:2:1");
  CHECK(fault->operand == "labels");
  CHECK(fault->row == 1);
  CHECK(fault->value == 10);
  CHECK(fault->limit == 10);
  labels[1] = labels[2] = 0;
  program->launch({1, 0.1, {}}, 0, 0);
  program->wait(0);
  CHECK_FALSE(program->fault(0));
}

TEST_CASE("the report accounts for all that is allocated on the device", "[cuda]") {
  const plan::Job job = test::lenet_training(2);
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.input_slots = 2;
  options.deliverables = {test::tensor(job, "loss")};
  const auto program = gpu.backend->prepare(job, options);
  const exec::MemoryReport& memory = program->memory();
  CHECK(memory.outputs == 0);
  CHECK(memory.columns == 0);
  CHECK(memory.total() == gpu.driver->allocated());
  CHECK(memory.pinned == 2 * memory.inputs + 512);
  CHECK_FALSE(memory.at_peak.empty());
}

TEST_CASE("a job that does not fit is refused before anything is allocated", "[cuda]") {
  test::FakeDevice device;
  device.memory = size_t{1} << 20;
  FakeGpu gpu(device);
  CHECK(refusal(gpu, test::lenet_training(2)) ==
        "job.yaml:1:1: job `job` needs 6.12 MiB of GPU memory; 768 KiB available; largest: "
        "`dense1/weight`");
  JobBuilder b;
  b.step("relu", "y", {b.input("x", {1 << 17})}, {}, {1 << 17});
  b.step("relu", "z", {b.input("v", {1 << 17})}, {}, {1 << 17});
  CHECK(refusal(gpu, b.build()) ==
        "job.yaml:1:1: job `job` needs 1.50 MiB of GPU memory; 768 KiB available; largest: "
        "`y` 512 KiB");
  CHECK(gpu.driver->count("allocate") == 0);
}

TEST_CASE("a part of the free memory is left to kernels and graphs", "[cuda]") {
  JobBuilder b;
  b.step("relu", "y", {b.input("x", {1 << 20, 1 << 16})}, {}, {1 << 20, 1 << 16});
  const plan::Job job = b.build();
  const auto [memory, available] = GENERATE(table<size_t, std::string>(
      {{512 << 20, "384 MiB"}, {size_t{8} << 30, "7.75 GiB"}, {size_t{100} << 30, "98.0 GiB"}}));
  test::FakeDevice device;
  device.memory = memory;
  FakeGpu gpu(device);
  CHECK(refusal(gpu, job) == "job.yaml:1:1: job `job` needs 256 GiB of GPU memory; " + available +
                                 " available; largest: `x`");
}

TEST_CASE("an op that the GPU has no kernel for is named with its line", "[cuda]") {
  JobBuilder b;
  b.step("stop_gradient", "y", {b.input("x", {2})}, {}, {2});
  FakeGpu gpu;
  CHECK(refusal(gpu, b.build()) ==
        "job.yaml:2:1: step `y`: the GPU has no kernel for `stop_gradient`");
}

TEST_CASE("the backend says what it is", "[cuda]") {
  FakeGpu gpu;
  CHECK(gpu.backend->device() == "cuda:0 Fake Device");
  CHECK(gpu.backend->instruction_set() == "sm_90");
  CHECK(gpu.backend->libraries() ==
        std::map<std::string, std::string>{{"cuda", "13.0"}, {"driver", "13.0"}, {"naive", "1"}});
}

TEST_CASE("each call of the driver may fail: a clean error, and nothing is left", "[cuda]") {
  const bool eager = GENERATE(false, true);
  const plan::Job job = test::mlp_training(2, 4);
  const plan::TensorId labels = test::tensor(job, "labels"), loss = test::tensor(job, "loss");
  const plan::TensorId weight = test::tensor(job, "dense2/weight");
  const FreshDirectory folder;
  const auto column = zeros_of(folder, {3});
  int64_t calls = 0;
  for (bool complete = false; !complete; ++calls) {
    CAPTURE(eager, calls);
    FakeGpu gpu;
    gpu.driver->fail_at(calls + 1);
    try {
      exec::PrepareOptions options{1, 2, 1, {loss, weight}};
      options.always = {1, 0};
      options.columns = {{labels, column.get()}};
      options.eager = eager;
      const auto program = gpu.backend->prepare(job, options);
      const uint8_t quiet[] = {1, 0}, all[] = {1, 1};
      program->launch({0, 0.5, quiet}, 0, 0);
      program->wait(0);
      program->launch({1, 0.5, all}, 1, 0);
      program->wait(0);
      read(*program, weight, 40);
      complete = !gpu.driver->has_failed();  // or a product was left as it was
    } catch (const RunError& error) {
      const std::string text = error.what();
      CHECK_THAT(text, Catch::StartsWith("job.yaml:1:1: job `job`: "));
      CHECK_THAT(text, Catch::Contains(": the fake device"));
    }
    CHECK(gpu.driver->problems().empty());
  }
  CHECK(calls > 60);
}
