// When memory is in use, and where blocks may lie.
#include "runtime/plan/model/lifetimes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/unit/plan/sample.h"

using namespace flow;
using namespace flow::plan;

namespace {

std::pair<int, int> life(const Job& job, TensorId id) {
  return {job[id].first.value, job[id].last.value};
}

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

size_t live_peak(const std::vector<Block>& blocks) {
  size_t peak = 0;
  for (const Block& at : blocks) {
    size_t live = 0;
    for (const Block& block : blocks)
      if (block.first <= at.first && at.first <= block.last) live += aligned(block.bytes);
    peak = std::max(peak, live);
  }
  return peak;
}

/// What must hold of any assignment.
void check_assignment(const std::vector<Block>& blocks, const Assignment& made) {
  size_t sum = 0, end = 0;
  REQUIRE(made.offsets.size() == blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(made.offsets[i] % 64 == 0);
    sum += aligned(blocks[i].bytes);
    end = std::max(end, made.offsets[i] + blocks[i].bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool in_time = blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
      const bool in_space = made.offsets[i] < made.offsets[j] + blocks[j].bytes &&
                            made.offsets[j] < made.offsets[i] + blocks[i].bytes;
      if (blocks[i].bytes > 0 && blocks[j].bytes > 0) CHECK_FALSE((in_time && in_space));
    }
  }
  CHECK(end <= made.bytes);
  CHECK(made.bytes <= sum);
  CHECK(made.bytes >= live_peak(blocks));
}

}  // namespace

TEST_CASE("a result lives from the step that makes it to the last that reads it", "[plan]") {
  sample::JobBuilder b("job");
  const TensorId x = b.input("x", DType::kFloat32, {2}), w = b.variable("w", {2});
  const TensorId a = b.one("add", "a", {x, w});  // step 0
  const TensorId c = b.one("relu", "c", {a});    // 1
  const TensorId unread = b.one("relu", "unread", {c});
  const TensorId d = b.one("add", "d", {a, c});  // 3
  const Job job = b.done();
  CHECK(life(job, a) == std::pair(0, 3));
  CHECK(life(job, c) == std::pair(1, 3));
  CHECK(life(job, unread) == std::pair(2, 2));
  CHECK(life(job, d) == std::pair(3, 3));
  CHECK(life(job, x) == std::pair(0, 3));
  CHECK(life(job, w) == std::pair(0, 3));
}

TEST_CASE("what is returned, watched or minimized lives until the call is complete", "[plan]") {
  sample::JobBuilder b("job", true);
  const TensorId x = b.input("x", DType::kFloat32, {2});
  const TensorId returned = b.one("relu", "returned", {x});
  const TensorId watched = b.one("relu", "watched", {x});
  const TensorId loss =
      b.one("reduce_mean", "loss", {x}, {{"axes", std::vector<int64_t>{0}}, {"keepdims", false}});
  const TensorId item = b.one("relu", "item", {x});
  b.one("relu", "last", {x});
  const ReturnValue numpy{ReturnValue::Kind::kNumpy, returned, {}, {}, "out"},
      other{ReturnValue::Kind::kNumpy, item, {}, {}, "out"};
  b.job.returns =
      Returns{"Tuple", false, {ReturnValue::Kind::kTuple, {}, {numpy, other}, {}, "out"}, {}, ""};
  Hook hook;
  hook.tensor = watched;
  b.job.hooks = {hook};
  b.minimize(loss);
  const Job job = b.done();
  for (const TensorId id : {returned, item, watched, loss}) CHECK(job[id].last.value == 4);
}

TEST_CASE("a tensor that takes over memory keeps its owner alive", "[plan]") {
  sample::JobBuilder b("job");
  const TensorId x = b.input("x", DType::kFloat32, {2, 2});
  const TensorId a = b.one("relu", "a", {x});
  const TensorId view = b.one("reshape", "view", {a}, {{"shape", std::vector<int64_t>{4}}});
  const TensorId further = b.one("relu", "further", {view});
  b.alias(view, a);
  b.alias(further, view);
  b.one("relu", "end", {further});
  const Job job = b.done();
  const std::vector<TensorId> roots = alias_roots(job);
  for (const TensorId id : {a, view, further}) CHECK(roots[id.index()] == a);
  CHECK(roots[x.index()] == x);
  CHECK(life(job, a) == std::pair(0, 3));
  CHECK(life(job, view) == std::pair(1, 2));
}

TEST_CASE("a part of shards lives until the last step of a shard, and where the whole is read",
          "[plan]") {
  for (const bool read_behind : {false, true}) {
    sample::JobBuilder b("job");
    b.job.sharding = Sharding{2, StepId(size_t{2})};
    const TensorId x = b.input("x", DType::kFloat32, {2});
    const TensorId part = b.one("relu", "part", {x});
    const TensorId own = b.one("relu", "own", {x});
    b.one("relu", "behind", {x});
    b.one("relu", "last", {read_behind ? part : x});
    b.job[part].combine = Combine::kSum;
    const Job job = b.done();
    CHECK(life(job, part) == std::pair(0, read_behind ? 3 : 2));
    CHECK(life(job, own) == std::pair(1, 1));
  }
}

TEST_CASE("operands of posts are read too, and a job without steps has no lives", "[plan]") {
  const Plan plan = sample::small_plan();
  const Job& job = plan.jobs[0];
  CHECK(job[job.variables[0].tensor].last.value == static_cast<int>(job.steps.size()) - 1);
  sample::JobBuilder b("job");
  const TensorId x = b.input("x", DType::kFloat32, {2});
  CHECK_FALSE(b.done()[x].first.valid());
}

TEST_CASE("blocks that never live together share memory", "[plan]") {
  const std::vector<Block> chain = {{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}};
  const Assignment made = assign_memory(chain);
  check_assignment(chain, made);
  CHECK(made.bytes == 2048);
  CHECK(assign_memory({}).bytes == 0);
  CHECK(assign_memory({{0, 0, 5}, {1, 0, 0}}).bytes == 64);
}

TEST_CASE("random blocks never overlap, and the arena lies between the peak and the sum",
          "[plan]") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Block> blocks(random() % 40);
    for (Block& block : blocks) {
      block.bytes = random() % 4 ? random() % 5000 : random() % 100000;
      block.first = random() % 30;
      block.last = block.first + random() % (random() % 2 ? 3 : 20);
    }
    check_assignment(blocks, assign_memory(blocks));
  }
}

TEST_CASE("the nested lifetimes of a training step fit into the peak", "[plan]") {
  // Activations made on the way forth, each last read on the way back, and the gradients.
  std::vector<Block> blocks;
  constexpr size_t kLayers = 50;
  for (size_t i = 0; i < kLayers; ++i) {
    blocks.push_back({64 * (1 + i * 37 % 11), i, 2 * kLayers - i});
    blocks.push_back({64 * (1 + i * 37 % 11), 2 * kLayers - i, 2 * kLayers - i + 1});
  }
  const Assignment made = assign_memory(blocks);
  check_assignment(blocks, made);
  CHECK(made.bytes <= live_peak(blocks) * 11 / 10);
}
