// What runs kernels on the CPU: that it runs them right, and that it sees what is wrong with them.
#include <catch2/catch.hpp>

#include <numeric>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/threads.cuh"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {
namespace {

using cuda::first_index;
using cuda::shared;

__global__ void number_threads(int64_t* out) {
  const unsigned place = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[blockIdx.x * blockDim.x + place] =
      blockIdx.x * 1000 + threadIdx.z * 100 + threadIdx.y * 10 + threadIdx.x;
}

/// out = x, each block's part reversed.
__global__ void reverse(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  __syncthreads();
  out[first_index()] = shared<int>()[blockDim.x - 1 - threadIdx.x];
}

__global__ void reverse_without_barrier(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  out[first_index()] = shared<int>()[blockDim.x - 1 - threadIdx.x];
}

/// out[warp] = the sum of its lanes' x
__global__ void sum_warps(const int* x, int* out) {
  int sum = x[first_index()];
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_down_sync(0xFFFFFFFF, sum, distance);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = sum;
}

__global__ void barrier_for_some(int* out) {
  if (threadIdx.x < 7) __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void two_barriers(int* out) {
  if (threadIdx.x < 7)
    __syncthreads();
  else
    __syncthreads();
  out[threadIdx.x] = 1;
}

__global__ void shuffle_for_some(int* out) {
  if (threadIdx.x < 7) out[threadIdx.x] = __shfl_sync(0xFFFFFFFF, 1, 0);
}

__global__ void shuffle_among_few(int* out) {
  const unsigned few = __ballot_sync(0xFFFFFFFF, threadIdx.x < 7);
  if (threadIdx.x < 7) out[threadIdx.x] = __shfl_xor_sync(few, static_cast<int>(few), 0);
}

__global__ void shuffle_from_outside(int* out) {
  if (threadIdx.x < 7) out[threadIdx.x] = __shfl_sync(0x7F, 1, 9);
}

/// Runs a kernel from int memory to int memory and gives the latter.
template <typename Kernel, typename... Inputs>
std::vector<int> run(Kernel kernel, const cuda::LaunchShape& shape, LaneOrder order, size_t n,
                     const Inputs&... x) {
  FakeDriver driver({order});
  std::vector<int> out(n, -1);
  const cuda::Stream stream = driver.create_stream();
  const auto on_device = [&](const std::vector<int>& values) {
    std::byte* memory = driver.allocate(values.size() * sizeof(int));
    driver.copy(memory, values.data(), values.size() * sizeof(int), stream);
    return reinterpret_cast<int*>(memory);
  };
  int* to = on_device(out);
  cuda::launch(driver, stream, "tested", shape, kernel, on_device(x)..., to);
  driver.copy(out.data(), to, n * sizeof(int), stream);
  return out;
}

std::vector<int> iota(size_t n) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

constexpr size_t kShared = 64 * sizeof(int);
}  // namespace

TEST_CASE("every thread of a grid runs once and knows its place", "[cuda]") {
  for (const LaneOrder order : kLaneOrders) {
    std::vector<int64_t> out(8, -1);
    FakeDriver driver({order, Timing::kEager});
    const cuda::Stream stream = driver.create_stream();
    cuda::launch(driver, stream, "number", {{2}, {4}}, number_threads, out.data());
    CHECK(out == std::vector<int64_t>{0, 1, 2, 3, 1000, 1001, 1002, 1003});
    cuda::launch(driver, stream, "number", {{1}, {1, 2, 3}}, number_threads, out.data());
    CHECK(out == std::vector<int64_t>{0, 10, 100, 110, 200, 210, 1002, 1003});
  }
}

TEST_CASE("barriers hold a block together, whatever the order of lanes", "[cuda]") {
  std::vector<int> expected;
  for (int block = 0; block < 3; ++block)
    for (int i = 0; i < 64; ++i) expected.push_back(block * 64 + 63 - i);
  for (const LaneOrder order : kLaneOrders)
    CHECK(run(reverse, {{3}, {64}, kShared}, order, 192, iota(192)) == expected);
}

TEST_CASE("a missing barrier shows in the difference between the orders", "[cuda]") {
  const cuda::LaunchShape shape{{3}, {64}, kShared};
  CHECK(run(reverse_without_barrier, shape, LaneOrder::kForward, 192, iota(192)) !=
        run(reverse_without_barrier, shape, LaneOrder::kReversed, 192, iota(192)));
}

TEST_CASE("shuffles reach the lanes they name", "[cuda]") {
  for (const LaneOrder order : kLaneOrders) {
    CHECK(run(sum_warps, {{1}, {96}}, order, 3, iota(96)) == std::vector<int>{496, 1520, 2544});
    const std::vector<int> few = run(shuffle_among_few, {{1}, {32}}, order, 8);
    CHECK(few == std::vector<int>{127, 127, 127, 127, 127, 127, 127, -1});
  }
}

TEST_CASE("a barrier that some threads do not reach is an error", "[cuda]") {
  for (const LaneOrder order : kLaneOrders) {
    CHECK_THROWS_WITH(run(barrier_for_some, {{1}, {32}}, order, 32),
                      Catch::Contains("kernel tested: thread 0 of block [0, 0, 0] waits for its "
                                      "block at"));
    CHECK_THROWS_AS(run(two_barriers, {{1}, {32}}, order, 32), RunError);
  }
}

TEST_CASE("a shuffle that some lanes do not reach is an error", "[cuda]") {
  for (const LaneOrder order : kLaneOrders) {
    CHECK_THROWS_WITH(run(shuffle_for_some, {{1}, {32}}, order, 32),
                      Catch::Contains("waits for lanes of its warp at"));
    CHECK_THROWS_WITH(run(shuffle_from_outside, {{1}, {32}}, order, 32),
                      Catch::Contains("lane 9 is not in the mask"));
  }
}

}  // namespace flow::test
