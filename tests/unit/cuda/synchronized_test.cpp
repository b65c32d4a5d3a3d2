// Synchronized batch normalization on GPUs: no kernel exchanges statistics, so it is refused.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/fake_nccl.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

std::string normalizing(int shards, bool synchronized) {
  return fmt::format(R"(flow: 1
jobs:
  train:
    type: train
    shards: {}
    inputs: {{x: {{shape: [8, 3], dtype: float32}}}}
    graph:
      d: {{op: dense, in: x, units: 4}}
      n: {{op: batch_normalization, synchronized: {}}}
      loss: {{op: square, in: n}}
    optimizer: {{type: sgd, learning_rate: 0.1, minimize: loss}}
)",
                     shards, synchronized);
}

void require_refusal(exec::Backend& backend, const plan::Job& job, exec::Collectives* ranks) {
  exec::PrepareOptions options;
  options.ranks = ranks;
  try {
    backend.prepare(job, options);
  } catch (const RunError& error) {
    const std::string text = error.what();
    FLOW_CHECK(text ==
                   "job.yaml:9:15: step `n/normalize`: synchronized batch normalization is not "
                   "supported on GPUs",
               "{}", text);
    FLOW_CHECK(error.hint() == "write `synchronized: false`, or use --device cpu", "{}",
               error.hint());
    return;
  }
  FLOW_CHECK(false, "it is prepared");
}

}  // namespace

TEST_CASE("synchronized batch normalization is refused on a GPU, with its line", "[cuda]") {
  const plan::Plan plan = plan_of(normalizing(4, true));
  FakeGpu gpu;
  require_refusal(*gpu.backend, plan.jobs[0], nullptr);
  CHECK(gpu.driver->problems().empty());
}

TEST_CASE("synchronized batch normalization is refused on each GPU of several", "[cuda]") {
  const plan::Plan plan = plan_of(normalizing(2, true));
  ThreadRanks world(2);
  FakeNccl nccl(2);
  world.run([&](exec::Collectives& ranks) {
    FakeNccl::Thread thread(nccl, ranks.rank());
    FakeGpu gpu({}, FakeNccl::calls);
    thread.use(*gpu.driver);
    require_refusal(*gpu.backend, plan.jobs[0], &ranks);
  });
}

TEST_CASE("batch normalization runs on a GPU where shards need no other statistics", "[cuda]") {
  FakeGpu gpu;
  for (const auto& [shards, synchronized] : {std::pair{1, true}, {4, false}}) {
    const plan::Plan plan = plan_of(normalizing(shards, synchronized));
    CHECK(gpu.backend->prepare(plan.jobs[0], {}));
  }
}

}  // namespace flow::test
