// Sums over pieces, gathered from ranks that have slices: in the order of one rank.
#include "ops/optimizer/cuda_piece_sums.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "runtime/base/host_device.h"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {
namespace {

constexpr int64_t kPieceElements = 8;
constexpr size_t kRanks = 3;

/// By rank: where its slice of an array begins, and where the last one ends; empty: no slices.
using Bounds = std::vector<int64_t>;

cuda::TensorDesc slice_of(const Bounds& bounds, int64_t elements, size_t rank) {
  cuda::TensorDesc desc{"g", DType::kFloat32, {elements}};
  if (bounds.empty()) return desc;
  desc.shape = {bounds[rank + 1] - bounds[rank]};
  desc.bounds = bounds;
  return desc;
}

/// Each sum is its number in the order of all. Returns what a rank has behind a gather, of those
/// arrays whose sums it needs.
std::vector<double> gathered(const std::vector<Bounds>& arrays, size_t rank, bool all_need_all) {
  constexpr size_t kSum = 2 * sizeof(double);
  FakeDriver driver;
  std::byte* memory = nullptr;
  std::vector<double> values;
  for (size_t from = 0; from < kRanks; ++from) {
    std::vector<cuda::TensorDesc> descs;
    for (const Bounds& bounds : arrays) descs.push_back(slice_of(bounds, 20, from));
    const cuda::PieceSums sums(descs, kPieceElements, from, all_need_all);
    if (!memory) memory = driver.allocate(sums.bytes(kSum));
    values.resize(sums.bytes(kSum) / sizeof(double), -1);
    const cuda::RankGather gather = sums.gather(kSum);
    const auto put = [&](size_t place, int64_t number) {
      values[2 * place] = static_cast<double>(number);
      values[2 * place + 1] = static_cast<double>(-number);
    };
    for (size_t i = 0; i < arrays.size(); ++i) {
      const int64_t first = arrays[i].empty() ? 0 : arrays[i][from] / kPieceElements;
      const int64_t pieces = ceil_div(descs[i].shape.elements(), kPieceElements);
      const auto place = static_cast<size_t>(sums.place(i));
      // Only what is gathered comes from another rank.
      const bool comes = !gather.bytes.empty() && place * kSum >= gather.offsets[from] &&
                         place * kSum < gather.offsets[from] + gather.bytes[from];
      if (from != rank && !comes) continue;
      for (int64_t k = 0; k < pieces; ++k)
        put(place + static_cast<size_t>(k), sums.first(i) + first + k);
    }
    if (from + 1 < kRanks) continue;
    const cuda::Stream stream = driver.create_stream();
    driver.copy(memory, values.data(), values.size() * sizeof(double), stream);
    sums.put_in_order(memory, kSum, {driver, stream, nullptr, nullptr});
    values.resize(2 * static_cast<size_t>(sums.count()));
    driver.copy(values.data(), memory, values.size() * sizeof(double), stream);
    driver.synchronize(stream);
    driver.destroy(stream);
    driver.release(memory);
  }
  return values;
}

}  // namespace

TEST_CASE("sums that ranks gather are in the order of one rank", "[cuda]") {
  // Of all ranks, of one, of two, whole; more of them than one launch puts in order.
  std::vector<Bounds> arrays;
  for (int i = 0; i < 60; ++i)
    arrays.insert(arrays.end(), {{0, 8, 16, 20}, {0, 0, 20, 20}, {0, 16, 16, 20}, {}});
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const std::vector<double> found = gathered(arrays, rank, true);
    REQUIRE(found.size() == 2 * 3 * arrays.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const auto number = static_cast<double>(i / 2);
      REQUIRE(found[i] == (i % 2 == 0 ? number : -number));
    }
  }
}

TEST_CASE("sums of an array that one rank has stay there", "[cuda]") {
  const std::vector<Bounds> arrays = {{0, 0, 20, 20}, {0, 8, 16, 20}};
  CHECK(gathered(arrays, 1, false)[0] == 0);
  CHECK(gathered(arrays, 0, false)[0] == -1);
  CHECK(gathered(arrays, 0, false)[6] == 3);
  CHECK(gathered({{0, 0, 20, 20}}, 1, false)[2] == 1);
}

}  // namespace flow::test
