// Ranks as threads of one process: in whatever order bytes arrive, the bits are those of one rank.
#include <catch2/catch.hpp>

#include "runtime/exec/ranks/buckets.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"
#include "tests/support/thread_ranks.h"
#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

plan::Plan plan_on_ranks() { return plan_of(test::training_on_ranks({8, 16, 40, 700, 500})); }

TEST_CASE("ranks compute the bits of one rank, whatever arrives first", "[property]") {
  const plan::Plan plan = plan_on_ranks();
  const plan::Job& job = plan.jobs[0];
  const test::Arrays values = test::random_values(job);
  const std::vector<std::string> wanted = test::tensors_to_compare(job);
  const test::Arrays alone = test::run(job, values, wanted, {.calls = 2});
  for (const int size : {1, 2, 4, 8})
    for (const unsigned seed : {1U, 2U}) {
      if (size == 1 && seed > 1) continue;
      ThreadRanks world(size, seed);
      world.run([&](exec::Collectives& ranks) {
        const test::RunJob options{.threads = 1 + size % 3, .calls = 2, .ranks = &ranks};
        const test::Arrays found = test::run(job, values, wanted, options);
        if (ranks.rank() == 0) FLOW_CHECK(test::same_bits(found, alone), "{} ranks", size);
      });
    }
}

TEST_CASE("ranks that are profiled stay in step", "[property]") {
  const plan::Plan plan = plan_on_ranks();
  const plan::Job& job = plan.jobs[0];
  static constexpr uint8_t kWanted[] = {1};
  for (const unsigned seed : {1U, 2U, 3U}) {
    ThreadRanks world(4, seed);
    world.run([&](exec::Collectives& ranks) {
      const exec::PrepareOptions options{
          .deliverables = {job.hooks[1].tensor}, .profile = true, .ranks = &ranks};
      const auto program = cpu::make_backend()->prepare(job, options);
      for (int step = 0; step < 3; ++step) program->launch({step, 0.1, kWanted}, 0, 0);
      const std::span<const int64_t> times = program->step_times(0);
      FLOW_CHECK(times.size() == program->timed_steps().size() + 1);
      FLOW_CHECK(std::ranges::is_sorted(times));
    });
  }
}

TEST_CASE("a fault of one rank is that of all", "[property]") {
  const plan::Plan plan = plan_on_ranks();
  const plan::Job& job = plan.jobs[0];
  test::Arrays values = test::random_values(job);
  values.at("label").as<int32_t>()[13] = 10;
  exec::PrepareOptions options;
  const auto fault_on = [&](exec::Collectives* ranks) {
    exec::PrepareOptions with = options;
    with.ranks = ranks;
    const auto backend = cpu::make_backend();
    const auto program = backend->prepare(job, with);
    for (const plan::Input& input : job.inputs)
      std::ranges::copy(values.at(job[input.tensor].name).bytes(),
                        program->input(input.tensor, 0).begin());
    program->launch({0, 0.1, {}}, 0, 0);
    return program->fault(0);
  };
  const auto expected = fault_on(nullptr);
  REQUIRE(expected);
  ThreadRanks world(4);
  world.run([&](exec::Collectives& ranks) {
    const auto found = fault_on(&ranks);
    FLOW_CHECK(found && found->row == expected->row && found->where == expected->where);
    FLOW_CHECK(found->value == 10 && found->limit == 10 && found->operand == expected->operand);
  });
}

TEST_CASE("large tensors have buckets of their own", "[property]") {
  const std::vector<exec::CombinedTensor> tensors = {
      {10, 4, 4}, {300'000, 4, 4}, {5, 4, 4}, {400'000, 4, 4}, {7, 4, 4}};
  std::vector<std::vector<size_t>> buckets;
  for (const exec::Bucket& bucket : exec::make_buckets(tensors, 2))
    buckets.push_back(bucket.tensors);
  CHECK(buckets == std::vector<std::vector<size_t>>{{1}, {3}, {0, 2, 4}});
}

TEST_CASE("slices cover each tensor once, and share a bucket evenly", "[property]") {
  const std::vector<exec::CombinedTensor> tensors = {{700'000, 4, 4},   {10, 4, 4},     {1, 8, 4},
                                                     {300, 4, 2, true}, {40'000, 8, 8}, {5, 4, 4}};
  for (const int ranks : {1, 2, 8}) {
    std::vector<int64_t> covered(tensors.size());
    for (const exec::Bucket& bucket : exec::make_buckets(tensors, ranks)) {
      if (bucket.small) {
        for (const size_t tensor : bucket.tensors) covered[tensor] = tensors[tensor].elements;
        continue;
      }
      size_t most = 0;
      for (const auto& slices : bucket.slices) {
        size_t bytes = 0;
        for (const exec::Slice& slice : slices) {
          CHECK(slice.first == covered[slice.tensor]);
          CHECK(slice.first % exec::kSlicePiece == 0);
          covered[slice.tensor] = slice.end;
          bytes += static_cast<size_t>(slice.end - slice.first) * tensors[slice.tensor].total_size;
        }
        most = std::max(most, bytes);
      }
      const size_t piece = static_cast<size_t>(exec::kSlicePiece) * 8;
      CHECK(most <= bucket.total_bytes / static_cast<size_t>(ranks) + piece);
    }
    for (size_t i = 0; i < tensors.size(); ++i) CHECK(covered[i] == tensors[i].elements);
  }
}

}  // namespace
}  // namespace flow
