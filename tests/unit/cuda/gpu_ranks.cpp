// Runs ranks on recording devices.
#include "tests/unit/cuda/gpu_ranks.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "runtime/base/error.h"

namespace flow::test {
namespace {

/// Runs `body` as a rank with a device of its own, of which nothing is left afterwards.
void on_rank(FakeNccl& nccl, exec::Collectives& ranks, const FakeDevice& device,
             const std::function<void(FakeGpu&)>& body) {
  FakeNccl::Thread thread(nccl, ranks.rank());
  FakeGpu gpu(device, FakeNccl::calls);
  thread.use(*gpu.driver);
  const auto require_order = [&] {
    FLOW_CHECK(gpu.driver->problems().empty(), "{}", gpu.driver->problems().front());
  };
  try {
    body(gpu);
  } catch (...) {
    require_order();
    throw;
  }
  require_order();
}

bool are_finite(const Arrays& arrays) {
  return std::ranges::all_of(arrays, [](const auto& named) {
    const Array& array = named.second;
    return array.dtype() != DType::kFloat32 ||
           std::ranges::all_of(array.as<float>(), [](float x) { return std::isfinite(x); });
  });
}

}  // namespace

Arrays positive_values(const plan::Job& job) {
  Arrays values = random_values(job);
  for (const plan::Variable& variable : job.variables)
    if (Array& array = values.at(job[variable.tensor].name); array.dtype() == DType::kFloat32)
      for (float& value : array.as<float>()) value = std::abs(value);
  return values;
}

void on_ranks(ThreadRanks& world, FakeNccl& nccl, const FakeDevice& device,
              const std::function<void(FakeGpu&, exec::Collectives&)>& body) {
  world.run([&](exec::Collectives& ranks) {
    on_rank(nccl, ranks, device, [&](FakeGpu& gpu) { body(gpu, ranks); });
  });
}

void require_bits(const plan::Job& job, const std::vector<std::string>& wanted, int size,
                  const FakeDevice& device, bool eager, unsigned seed) {
  const Arrays values = positive_values(job);
  FakeGpu gpu;
  const Arrays alone = run(job, values, wanted, {.calls = 2, .backend = gpu.backend.get()});
  CHECK(are_finite(alone));
  ThreadRanks world(size, seed);
  FakeNccl nccl(size, seed);
  on_ranks(world, nccl, device, [&](FakeGpu& own, exec::Collectives& ranks) {
    const Arrays found =
        run(job, values, wanted,
            {.calls = 2, .backend = own.backend.get(), .ranks = &ranks, .eager = eager});
    if (ranks.rank() == 0) FLOW_CHECK(same_bits(found, alone), "{} ranks", size);
  });
  CHECK(nccl.problems().empty());
}

int64_t check_failing_nccl(int failing, const std::string& place,
                           const std::function<void(FakeGpu&, exec::Collectives&)>& body) {
  int64_t calls = 0;
  for (bool complete = false; !complete; ++calls) {
    CAPTURE(failing, calls);
    ThreadRanks world(2, static_cast<unsigned>(calls));
    FakeNccl nccl(2, static_cast<unsigned>(calls));
    nccl.fail_at(failing, calls + 1);
    std::string error;
    try {
      on_ranks(world, nccl, {}, body);
      complete = !nccl.has_failed(failing);
    } catch (const RunError& failed) {
      error = failed.what();
    }
    CHECK(nccl.problems().empty());
    if (error.empty()) continue;
    CHECK_THAT(error, Catch::StartsWith(place));
    CHECK_THAT(error, Catch::Contains("unhandled system error") ||
                          Catch::Contains("remote process exited"));
  }
  return calls;
}

std::vector<std::string> variables_of(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

}  // namespace flow::test
