// Jobs on the CPU and a GPU that is not there: a graph a segment, what is waited for, failures.
#include "runtime/exec/multi_device/multi_device.h"

#include <catch2/catch.hpp>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/cpu/backend/backend.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::FakeGpu;
using test::floats;
using test::JobBuilder;

namespace {

/// On the GPU a = x + w, on the CPU h = relu(a), on the GPU y = h + x, and w -= lr * y.
struct MixedJob {
  JobBuilder b;
  plan::TensorId x = b.input("x", {2}), w = b.variable("w", {2});
  plan::TensorId a = b.step("add", "a", {x, w}, {}, {2});
  plan::TensorId a_cpu = b.step("copy", "a:cpu", {a}, {}, {2});
  plan::TensorId h = b.step("relu", "h", {a_cpu}, {}, {2});
  plan::TensorId h_gpu = b.step("copy", "h:gpu", {h}, {}, {2});
  plan::TensorId y = b.step("add", "y", {h_gpu, x}, {}, {2});
  plan::TensorId moved = b.step("sgd_update", "w:update", {y, w},
                                {{"scale", 1.0}, {"rate_scale", 1.0}}, {2}, DType::kFloat32, w);
  plan::Job job = placed(b.build());

  plan::Job placed(plan::Job made) const {
    made.device = plan::DeviceKind::kGpu;
    for (const plan::TensorId id : {a_cpu, h})
      made.tensors[id.index()].device = plan::DeviceKind::kCpu;
    for (const size_t step : {size_t{1}, size_t{2}})
      made.steps[step].device = plan::DeviceKind::kCpu;
    return made;
  }
};

/// The GPU's driver outlives its backend here no longer than the backend that has it.
struct MixedGpu {
  FakeGpu gpu;
  std::unique_ptr<exec::Backend> backend =
      exec::make_multi_device_backend(cpu::make_backend(), std::move(gpu.backend));
};

void write(exec::Program& program, plan::TensorId input, std::vector<float> values) {
  std::memcpy(program.input(input, 0).data(), values.data(), values.size() * sizeof(float));
}

}  // namespace

TEST_CASE("each segment on the GPU is a graph, and the CPU waits for what it reads", "[cuda]") {
  MixedJob mixed;
  MixedGpu rig;
  exec::PrepareOptions options{1, 1, 1, {mixed.h, mixed.y, mixed.a}};
  options.always = {1, 1, 1};
  const auto program = rig.backend->prepare(mixed.job, options);
  CHECK(rig.gpu.driver->count("capture stream") == 2);
  write(*program, mixed.x, {-1, 2});
  rig.gpu.driver->forget_calls();
  const uint8_t wanted[] = {1, 1, 1};
  program->launch({0, 0.5, wanted}, 0, 0);
  program->wait(0);
  CHECK(rig.gpu.driver->calls() ==
        std::vector<std::string>{"launch graph stream 1", "record stream 1", "synchronize event",
                                 "launch graph stream 1", "record stream 1", "synchronize event"});
  CHECK(floats(program->delivered(mixed.a, 0)) == std::vector<float>{-1, 2});
  CHECK(floats(program->delivered(mixed.h, 0)) == std::vector<float>{0, 2});
  CHECK(floats(program->delivered(mixed.y, 0)) == std::vector<float>{-1, 4});
  std::vector<float> w(2);
  program->read_variable(mixed.w, std::as_writable_bytes(std::span(w)));
  CHECK(w == std::vector<float>{0.5, -2});
}

TEST_CASE("each segment leaves times, in the order of the call", "[cuda]") {
  MixedJob mixed;
  MixedGpu rig;
  exec::PrepareOptions options{1, 1, 1, {mixed.y}};
  options.profile = true;
  const auto program = rig.backend->prepare(mixed.job, options);
  const uint8_t wanted[] = {1};
  for (int64_t call = 0; call < 2; ++call) {
    program->launch({call, 0.5, wanted}, 0, 0);
    program->wait(0);
  }
  std::vector<std::string> names;
  for (const exec::TimedStep& step : program->timed_steps()) names.push_back(step.name);
  CHECK(names == std::vector<std::string>{"inputs", "a", "a:cpu", "steps on the gpu",
                                          "inputs and variables", "h", "h:gpu", "h:gpu", "y",
                                          "w:update", "outputs"});
  const auto times = program->step_times(0);
  REQUIRE(times.size() == names.size() + 1);
  CHECK(std::ranges::is_sorted(times));
}

TEST_CASE("each call of the driver may fail under a job on two devices", "[cuda]") {
  const bool eager = GENERATE(false, true);
  MixedJob mixed;
  int64_t calls = 0;
  for (bool complete = false; !complete; ++calls) {
    CAPTURE(eager, calls);
    MixedGpu rig;
    rig.gpu.driver->fail_at(calls + 1);
    try {
      exec::PrepareOptions options{1, 2, 1, {mixed.y, mixed.h}};
      options.always = {1, 0};
      options.eager = eager;
      const auto program = rig.backend->prepare(mixed.job, options);
      const uint8_t quiet[] = {1, 0}, all[] = {1, 1};
      program->launch({0, 0.5, quiet}, 0, 0);
      program->wait(0);
      program->launch({1, 0.5, all}, 1, 0);
      program->wait(0);
      complete = true;
    } catch (const RunError& error) {
      const std::string text = error.what();
      CHECK_THAT(text, Catch::StartsWith("job.yaml:1:1: job `job`: "));
      CHECK_THAT(text, Catch::Contains(": the fake device"));
    }
    CHECK(rig.gpu.driver->problems().empty());
  }
  CHECK(calls > 40);
}
