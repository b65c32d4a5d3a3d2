// That races of threads are found in kernels which have them, and in no others. Every kernel of the
// product is checked wherever tests run it.
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <string>
#include <type_traits>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/threads.cuh"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {
namespace {

using cuda::first_index;
using cuda::shared;

/// out[i] = the neighbor's x, by way of shared memory.
__global__ void swap_pairs(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  __syncthreads();
  out[first_index()] = shared<int>()[threadIdx.x ^ 1];
}

constexpr int kUnordered = __LINE__;
__global__ void swap_pairs_unordered(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  out[first_index()] = shared<int>()[threadIdx.x ^ 1];
}

/// The second round overwrites what others may not have read.
__global__ void swap_pairs_twice(const int* x, int* out) {
  for (int round = 0; round < 2; ++round) {
    shared<int>()[threadIdx.x] = x[first_index()];
    __syncthreads();
    out[first_index()] = shared<int>()[threadIdx.x ^ 1];
  }
}

__global__ void swap_pairs_in_warps(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  __syncwarp();
  out[first_index()] = shared<int>()[threadIdx.x ^ 1];
}

/// Shuffles order no memory.
__global__ void swap_pairs_after_shuffle(const int* x, int* out) {
  shared<int>()[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFF, x[first_index()], 0);
  out[first_index()] = shared<int>()[threadIdx.x ^ 1];
}

/// The halves of a block, which are warps, swap what they have.
__global__ void swap_halves_in_warps(const int* x, int* out) {
  shared<int>()[threadIdx.x] = x[first_index()];
  __syncwarp();
  out[first_index()] = shared<int>()[threadIdx.x ^ 32];
}

/// Lane 0 reads what lane 16 has written, for whom it did not wait.
__global__ void wait_for_half_a_warp(const int*, int* out) {
  out[threadIdx.x] = 1;
  if (threadIdx.x < 16) __syncwarp(0xFFFF);
  if (threadIdx.x == 0) out[0] = out[16];
}

__global__ void swap_pairs_in_memory(const int* x, int* out) {
  out[first_index()] = x[first_index()];
  out[first_index()] = out[first_index() ^ 1];
}

/// All write the same.
__global__ void blocks_write_one_element(const int*, int* out) {
  if (threadIdx.x == 0) out[5] = 1;
}

__global__ void block_reads_what_another_writes(const int*, int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = out[blockIdx.x ^ 1];
}

__global__ void count(const int*, int* out) { atomicAdd(out, 1); }

__global__ void count_and_read(const int*, int* out) {
  atomicAdd(out, 1);
  out[1 + first_index()] = *out;
}

__global__ void count_from_a_store(const int*, int* out) {
  if (first_index() == 70) *out = 0;
  atomicAdd(out, 1);
}

__global__ void write_bytes(const int*, int* out) {
  reinterpret_cast<char*>(out)[first_index()] = 1;
}

__global__ void write_bytes_of_a_word(const int*, int* out) {
  reinterpret_cast<char*>(out)[first_index()] = 1;
  if (first_index() == 1) *reinterpret_cast<short*>(out + 1) = 2;
}

struct Row {
  int values[12];
};
/// Rows begin every 11 ints.
__global__ void write_rows_that_overlap(const int* x, int* out) {
  const auto* from = reinterpret_cast<const Row*>(x);
  if (threadIdx.x == 0) *reinterpret_cast<Row*>(out + 11 * blockIdx.x) = *from;
}

using Kernel = std::type_identity_t<void (*)(const int*, int*)>;

/// The race of two blocks of 64 threads; "" without one.
std::string race_in(Kernel kernel, LaneOrder order) {
  FakeDriver driver({order, Timing::kEager});
  const cuda::Stream stream = driver.create_stream();
  constexpr size_t kBytes = 256 * sizeof(int);
  std::byte *const x = driver.allocate(kBytes), *const out = driver.allocate(kBytes);
  driver.clear(out, kBytes, stream);
  std::string found;
  try {
    cuda::launch(driver, stream, "tested", {{2}, {64}, 64 * sizeof(int)}, kernel,
                 reinterpret_cast<const int*>(x), reinterpret_cast<int*>(out));
  } catch (const Defect&) {
    found = driver.problems().at(0);
  }
  driver.release(x);
  driver.release(out);
  driver.destroy(stream);
  CHECK(driver.problems().size() == (found.empty() ? 0 : 1));
  return found;
}

}  // namespace

TEST_CASE("kernels whose accesses are ordered have no race", "[cuda]") {
  for (const LaneOrder order : kLaneOrders)
    for (const Kernel kernel : {swap_pairs, swap_pairs_in_warps, count, write_bytes})
      CHECK(race_in(kernel, order).empty());
}

TEST_CASE("a race is found whatever the order of lanes", "[cuda]") {
  for (const LaneOrder order : kLaneOrders)
    for (const Kernel kernel :
         {swap_pairs_unordered, swap_pairs_twice, swap_pairs_after_shuffle, swap_halves_in_warps,
          wait_for_half_a_warp, swap_pairs_in_memory, blocks_write_one_element,
          block_reads_what_another_writes, count_and_read, count_from_a_store,
          write_bytes_of_a_word, write_rows_that_overlap})
      CHECK_THAT(race_in(kernel, order), Catch::StartsWith("a race in kernel tested: "));
}

TEST_CASE("a report of a race names both threads, the memory and the lines", "[cuda]") {
  CHECK_THAT(race_in(swap_pairs_unordered, LaneOrder::kForward),
             Catch::Matches(fmt::format(
                 R"(.*: thread 1 of block \[0, 0, 0\] writes byte 4 of shared memory \(256 bytes )"
                 R"(at 0x.*\) at races_test.cpp:{}; thread 0 of block \[0, 0, 0\] reads it at )"
                 R"(races_test.cpp:{}, and nothing orders them)",
                 kUnordered + 2, kUnordered + 3)));
  CHECK_THAT(race_in(blocks_write_one_element, LaneOrder::kForward),
             Catch::Matches(R"(.*: thread 0 of block \[1, 0, 0\] writes byte 20 of an allocation )"
                            R"(\(1024 bytes at 0x.*\) at races_test.cpp:\d+; thread 0 of block )"
                            R"(\[0, 0, 0\] writes it at races_test.cpp:\d+, and .*)"));
  CHECK_THAT(race_in(count_and_read, LaneOrder::kForward), Catch::Contains(" changes "));
}

}  // namespace flow::test
