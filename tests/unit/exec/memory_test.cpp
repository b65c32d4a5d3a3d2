// Who shares memory with whom.
#include "runtime/exec/core/memory.h"

#include <catch2/catch.hpp>

#include "tests/support/job_builder.h"

namespace flow::exec {
namespace {

using test::JobBuilder;

TEST_CASE("a view shares memory that is read later, and nobody writes over both", "[exec]") {
  for (const bool read_later : {true, false}) {
    JobBuilder b;
    const auto g = b.input("g", {4});
    const auto x = b.step("scale", "x", {g}, {{"factor", 2.0}}, {4});
    const auto view = b.step("reshape", "view", {x}, {}, {2, 2}, DType::kFloat32, x);
    const auto relu = b.step("relu", "relu", {view}, {}, {2, 2}, DType::kFloat32, view);
    if (read_later) b.step("scale", "later", {x}, {{"factor", 3.0}}, {4});
    const auto owners =
        share_memory(b.build(), [](plan::TensorId, plan::TensorId) { return true; });
    CHECK(owners[view.index()] == x);
    CHECK(owners[relu.index()] == (read_later ? relu : x));
  }
}

const LieAlike kAlike = [](plan::TensorId, plan::TensorId) { return true; };

TEST_CASE("a view of a variable is a copy where it is read after the variable's update", "[exec]") {
  for (const bool read_after : {false, true}) {
    JobBuilder b;
    const auto g = b.input("g", {4}), w = b.variable("w", {4});
    const auto view = b.step("reshape", "view", {w}, {}, {2, 2}, DType::kFloat32, w);
    const auto read = [&] { b.step("scale", "read", {view}, {{"factor", 2.0}}, {2, 2}); };
    if (!read_after) read();
    b.step("sgd_update", "w:update", {g, w}, {{"rate_scale", 1.0}, {"scale", 1.0}}, {4},
           DType::kFloat32, w);
    if (read_after) read();
    CHECK(share_memory(b.build(), kAlike)[view.index()] == (read_after ? view : w));
  }
}

TEST_CASE("nobody writes over what is delivered, and it keeps its memory to the end", "[exec]") {
  JobBuilder b;
  const auto g = b.input("g", {4});
  const auto x = b.step("scale", "x", {g}, {{"factor", 2.0}}, {4});
  const auto relu = b.step("relu", "relu", {x}, {}, {4}, DType::kFloat32, x);
  b.step("scale", "later", {relu}, {{"factor", 3.0}}, {4});
  b.step("scale", "last", {g}, {{"factor", 3.0}}, {4});
  const plan::Job job = b.build();
  CHECK(share_memory(job, kAlike)[relu.index()] == x);
  const plan::TensorId kept[] = {x};
  const auto owners = share_memory(job, kAlike, kept);
  CHECK(owners[relu.index()] == relu);
  const std::vector<Holding> holdings = list_holdings(job, owners, kept);
  REQUIRE(holdings.front().tensor == x);
  CHECK(holdings.front().block.last == job.steps.size() - 1);
  CHECK(holdings[1].block.last == 2);  // relu, which nobody keeps
}

TEST_CASE("what a step's epilogue reads is not written over before, and lives until then",
          "[exec]") {
  JobBuilder b;
  const auto g = b.input("g", {4, 4});
  const auto bias = b.step("scale", "bias", {g}, {{"factor", 2.0}}, {4, 4});
  const auto relu = b.step("relu", "relu", {bias}, {}, {4, 4}, DType::kFloat32, bias);
  b.step("matmul", "y", {g, g}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 4});
  b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
  b.step("scale", "last", {g}, {{"factor", 3.0}}, {4, 4});
  const plan::Job job = b.build();
  const auto owners = share_memory(job, kAlike);
  CHECK(owners[relu.index()] == relu);
  const std::vector<Holding> holdings = list_holdings(job, owners);
  REQUIRE(holdings.front().tensor == bias);
  CHECK(holdings.front().block.last == 2);
  CHECK(job[bias].last.value == 2);
}

TEST_CASE("a part of shards is not written over before it is combined", "[exec]") {
  for (const bool ends_with_shards : {false, true}) {
    JobBuilder b;
    const auto g = b.input("g", {32});
    const auto part = b.step("scale", "part", {g}, {{"factor", 2.0}}, {32});
    const auto relu = b.step("relu", "relu", {part}, {}, {32}, DType::kFloat32, part);
    b.step("scale", "later", {relu}, {{"factor", 3.0}}, {32});
    if (!ends_with_shards) b.step("scale", "behind", {part}, {{"factor", 3.0}}, {32});
    plan::Job job = b.build();
    job.sharding = plan::Sharding{2, plan::StepId(size_t{3})};
    CHECK(share_memory(job, kAlike)[relu.index()] == (ends_with_shards ? part : relu));
    job.tensors[part.index()].combine = plan::Combine::kSum;
    const auto owners = share_memory(job, kAlike);
    CHECK(owners[relu.index()] == relu);
    const std::vector<Holding> holdings = list_holdings(job, owners);
    REQUIRE(holdings.front().tensor == part);
    CHECK(holdings.front().block.last == (ends_with_shards ? 2 : 3));
  }
}

TEST_CASE("inputs hold the whole batch, all else one shard", "[exec]") {
  JobBuilder b;
  const auto x = b.input("x", {32}), whole = b.input("whole", {32});
  b.step("add", "y", {x, whole}, {}, {32});
  plan::Job job = b.build();
  job.sharding = plan::Sharding{4, plan::StepId(size_t{1})};
  job.tensors[x.index()].batch_axis = 0;
  CHECK(whole_bytes_of(job, job[x]) == 512);
  CHECK(whole_bytes_of(job, job[whole]) == 128);
  const size_t workspaces[] = {0};
  const auto owners = share_memory(job, kAlike);
  const MemoryPlan memory = plan_memory({.job = job, .owners = owners, .workspaces = workspaces});
  CHECK(memory.report.inputs == 512 + 128);
  CHECK(memory.tensors[whole.index()].offset == 512);
  CHECK(memory.report.arena == 128);
}

}  // namespace
}  // namespace flow::exec
