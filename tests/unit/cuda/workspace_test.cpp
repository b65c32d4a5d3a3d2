// What workspaces of convolutions may take, and what reports say of them.
#include <catch2/catch.hpp>

#include <memory>

#include "runtime/cuda/program/backend.h"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/job_builder.h"

namespace flow::test {
namespace {

constexpr size_t kMega = 1 << 20;

/// Has a fast algorithm that needs a workspace, and one that needs none.
class RoomyLibraries : public cuda::NaiveLibraries {
 public:
  RoomyLibraries(cuda::Driver& driver, size_t workspace)
      : NaiveLibraries(driver), workspace_(workspace) {}
  using NaiveLibraries::find;
  Expected<cuda::LibraryKernel> find(const cuda::ConvolutionSpec& spec) override {
    cuda::LibraryKernel kernel = NaiveLibraries::find(spec).value();
    const bool fast = workspace_ <= spec.most_workspace;
    kernel.workspace = fast ? workspace_ : 0;
    kernel.name = fast ? "fast" : "slow";
    return kernel;
  }

 private:
  size_t workspace_;
};

struct Outcome {
  exec::MemoryReport memory;
  std::vector<exec::TimedStep> timed;
};

/// LeNet on a device of `memory`, whose convolutions want `workspace`.
Outcome prepare(size_t memory, size_t workspace, int64_t batch = 2, size_t taken = 0) {
  auto driver = std::make_unique<FakeDriver>(FakeDevice{.memory = memory});
  FakeDriver& fake = *driver;
  std::byte* const others = taken > 0 ? fake.allocate(taken) : nullptr;
  auto libraries = std::make_unique<RoomyLibraries>(fake, workspace);
  const auto backend = cuda::make_backend(std::move(driver), std::move(libraries));
  exec::PrepareOptions options;
  options.profile = true;
  Outcome outcome;
  {
    const auto program = backend->prepare(lenet_training(batch), options);
    outcome = {program->memory(), program->timed_steps()};
  }
  if (others) fake.release(others);
  CHECK(fake.problems().empty());
  return outcome;
}

std::vector<std::string> convolutions(const exec::MemoryReport& memory) {
  std::vector<std::string> kernels;
  for (const exec::LibraryStep& step : memory.library_steps)
    if (step.kernel.ends_with(", NCHW")) kernels.push_back(step.kernel);
  return kernels;
}

}  // namespace

TEST_CASE("a workspace may take a quarter of the device's memory", "[cuda]") {
  const std::vector<std::string> all_fast(5, "fast, NCHW"), all_slow(5, "slow, NCHW");
  const Outcome fits = prepare(1024 * kMega, 256 * kMega);
  CHECK(convolutions(fits.memory) == all_fast);
  CHECK_FALSE(fits.memory.workspace_limit);
  CHECK(fits.memory.arena >= 256 * kMega);
  CHECK(convolutions(prepare(1024 * kMega, 257 * kMega).memory) == all_slow);
}

TEST_CASE("a workspace never depends on what other processes use", "[cuda]") {
  const Outcome alone = prepare(1024 * kMega, 200 * kMega);
  const Outcome beside = prepare(1024 * kMega, 200 * kMega, 2, 200 * kMega);
  CHECK(convolutions(beside.memory) == convolutions(alone.memory));
  CHECK_THROWS_WITH(prepare(1024 * kMega, 200 * kMega, 2, 900 * kMega),
                    Catch::Contains("workspace of"));
}

TEST_CASE("a job that fills the device leaves workspaces the rest", "[cuda]") {
  const size_t tensors = prepare(1024 * kMega, 0, 50).memory.total();
  // Of so much memory three quarters are for a job, and a quarter would be for a workspace.
  const size_t memory = (tensors + 2 * kMega) / 3 * 4;
  const Outcome full = prepare(memory, memory / 4 - kMega, 50);
  REQUIRE(full.memory.workspace_limit);
  CHECK(*full.memory.workspace_limit < memory / 4 - kMega);
  CHECK(convolutions(full.memory) == std::vector<std::string>(5, "slow, NCHW"));
  const Outcome small = prepare(memory, kMega / 4, 50);
  CHECK_FALSE(small.memory.workspace_limit);
  CHECK(convolutions(small.memory) == std::vector<std::string>(5, "fast, NCHW"));
}

TEST_CASE("a profile names the kernels of libraries and their workspaces", "[cuda]") {
  std::vector<std::string> kernels;
  for (const exec::TimedStep& step : prepare(1024 * kMega, 3 * kMega).timed)
    if (step.op.starts_with("convolution")) kernels.push_back(step.kernel);
  CHECK(kernels == std::vector<std::string>(5, "fast, NCHW, 3.00 MiB"));
}

}  // namespace flow::test
