// What a job lets NVIDIA's libraries do.
#include "runtime/cuda/program/bound_kernels.h"

#include <catch2/catch.hpp>

#include "runtime/exec/core/memory.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"

namespace flow::test {
namespace {

/// Notes the math mode of each product and convolution.
class NotingLibraries : public cuda::NaiveLibraries {
 public:
  using NaiveLibraries::NaiveLibraries;
  Expected<cuda::LibraryKernel> find(const cuda::MatmulSpec& spec) override {
    math_modes.push_back(spec.math_mode);
    return NaiveLibraries::find(spec);
  }
  Expected<cuda::LibraryKernel> find(const cuda::ConvolutionSpec& spec) override {
    math_modes.push_back(spec.math_mode);
    return NaiveLibraries::find(spec);
  }
  std::vector<cuda::MathMode> math_modes;
};

}  // namespace

TEST_CASE("libraries round and reorder as the job allows", "[cuda]") {
  const bool tf32 = GENERATE(true, false), deterministic = GENERATE(true, false);
  plan::Job job = lenet_training(2);
  if (tf32) job.precision = "tf32";
  job.deterministic = deterministic;
  const cuda::Grouped grouped = cuda::group_updates(cuda::lower_epilogues(job));
  const auto owners =
      exec::share_memory(grouped.job, [](plan::TensorId, plan::TensorId) { return true; });
  FakeDriver driver;
  NotingLibraries libraries(driver);
  const exec::Division whole;
  cuda::bind_kernels(grouped, owners, {whole}, 0, {driver, libraries});
  CHECK(libraries.math_modes.size() ==
        11);  // 4 layers, forward and back, but for the images' gradient
  for (const cuda::MathMode& math_mode : libraries.math_modes) {
    CHECK(math_mode.tf32 == tf32);
    CHECK(math_mode.any_order == !deterministic);
  }
}

}  // namespace flow::test
