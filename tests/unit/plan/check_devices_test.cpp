// What the plan check refuses of a job on two devices.
#include <catch2/catch.hpp>

#include "tests/unit/plan/corruptions.h"
#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;
using namespace flow::plan::sample;

namespace {

/// x -> a -> copy -> b, the latter two on a GPU.
Job mixed_job() {
  sample::JobBuilder b("job");
  const TensorId x = b.input("x", DType::kFloat32, {2});
  const TensorId a = b.one("relu", "a", {x});
  const TensorId copy = b.one("copy", "a:gpu", {a});
  const TensorId y = b.one("relu", "b", {copy});
  for (const TensorId id : {copy, y}) b.job[id].device = DeviceKind::kGpu;
  for (const size_t step : {size_t{1}, size_t{2}}) b.job.steps[step].device = DeviceKind::kGpu;
  return b.done();
}

std::string refusal_of(const std::function<void(Job&)>& corrupt) {
  Job job = mixed_job();
  corrupt(job);
  return refusal({kVersion, "", "", {job}, {}});
}

}  // namespace

TEST_CASE("steps read and make tensors of their own device, and copies read those of the other",
          "[plan]") {
  CHECK(refusal_of([](Job&) {}).empty());
  const std::vector<Corruption> corruptions = {
      {"step `b`: `a` is on another device",
       [](Job& j) { step_named(j, "b").inputs[0] = id_named(j, "a"); }},
      {"step `a`: `x` is on another device",
       [](Job& j) { tensor_named(j, "x").device = DeviceKind::kGpu; }},
      {"step `a:gpu`: `a` is on the same device",
       [](Job& j) { step_named(j, "a:gpu").device.reset(); }},
      {"step `b`: result `b` is on another device",
       [](Job& j) { tensor_named(j, "b").device.reset(); }},
      {"step `a`: repeats the device of the job",
       [](Job& j) { step_named(j, "a").device = DeviceKind::kCpu; }},
      {"tensor `x`: repeats the device of the job",
       [](Job& j) { tensor_named(j, "x").device = DeviceKind::kCpu; }},
      {"step `b`: `a:gpu` is on another device", [](Job& j) { step_named(j, "b").device.reset(); }},
      {"`a:gpu` cannot reuse the memory of `a`",
       [](Job& j) { tensor_named(j, "a:gpu").alias = id_named(j, "a"); }},
  };
  for (const Corruption& corruption : corruptions)
    CHECK_THAT(refusal_of(corruption.corrupt), Catch::Contains(corruption.expected));
}

TEST_CASE("jobs that share a variable have it on one device", "[plan]") {
  const auto job = [](const std::string& name, bool on_gpu) {
    sample::JobBuilder b(name);
    const TensorId w = b.variable("w", {2});
    const TensorId x = b.input("x", DType::kFloat32, {2});
    b.one("relu", "r", {x});
    const TensorId y = b.one("relu", "y", {w});
    if (on_gpu) {
      for (const TensorId id : {w, y}) b.job[id].device = DeviceKind::kGpu;
      b.job.steps.back().device = DeviceKind::kGpu;
    }
    return b.done();
  };
  const auto refused = [&](bool first, bool second) {
    Plan plan{kVersion, "", "", {job("main", first), job("other", second)}, {}};
    plan.jobs[0].run.also.push_back({"other", 1, 0, ""});
    return refusal(plan);
  };
  CHECK(refused(true, true).empty());
  CHECK(refused(false, false).empty());
  CHECK_THAT(
      refused(true, false),
      Catch::Contains("the variable `w` is on the gpu in `main`, but on the cpu in `other`"));
}
