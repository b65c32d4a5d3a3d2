// Batches gathered on the device.
#include <catch2/catch.hpp>

#include <cstring>
#include <numeric>

#include "runtime/cuda/loops/batch_rows.h"
#include "tests/property/kernel_case.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {
namespace {

constexpr int64_t kRows = 7;
const std::vector<int64_t> kIndices = {6, 0, 3, 3, 1};

/// What gather_rows makes of rows [kRows, elements] and a table, which may be empty.
std::vector<std::byte> gathered(const Array& rows, DType wanted, std::span<const std::byte> table,
                                int64_t channels, LaneOrder lanes) {
  const auto device = open_test_device(lanes);
  cuda::Driver& driver = device->driver();
  const cuda::Stream stream = driver.create_stream();
  std::vector<std::byte*> owned;
  const auto put = [&](std::span<const std::byte> bytes) {
    owned.push_back(driver.allocate(bytes.size()));
    driver.copy(owned.back(), bytes.data(), bytes.size(), stream);
    return owned.back();
  };
  cuda::ResidentColumn column{put(rows.bytes()), rows.shape()[1], rows.dtype(), wanted};
  if (!table.empty()) column.table = put(table);
  column.channels = channels;
  const auto* indices = reinterpret_cast<const int64_t*>(put(std::as_bytes(std::span(kIndices))));
  const auto count = std::ssize(kIndices);
  std::vector<std::byte> out(static_cast<size_t>(count * rows.shape()[1]) * size_of(wanted));
  std::byte* to = put(out);
  cuda::gather_rows(column, indices, count, to, {driver, stream, nullptr, nullptr});
  driver.copy(out.data(), to, out.size(), stream);
  driver.synchronize(stream);
  for (std::byte* memory : owned) driver.release(memory);
  driver.destroy(stream);
  device->finish();
  return out;
}

}  // namespace

TEST_CASE("rows are gathered as they are, of any size", "[cuda]") {
  Random random(1);
  for (const DType dtype : {DType::kUInt8, DType::kInt32, DType::kFloat64})
    for (const int64_t elements : {1, 3, 4, 16, 784, 1031}) {
      INFO(name_of(dtype) << " " << elements);
      const Array rows = random_array(random, dtype, {kRows, elements});
      const size_t row = static_cast<size_t>(elements) * size_of(dtype);
      std::vector<std::byte> expected;
      for (const int64_t i : kIndices) {
        const auto from = rows.bytes().subspan(static_cast<size_t>(i) * row, row);
        expected.insert(expected.end(), from.begin(), from.end());
      }
      for (const LaneOrder lanes : kLaneOrders)
        CHECK(gathered(rows, dtype, {}, 1, lanes) == expected);
    }
}

TEST_CASE("bytes are gathered by what they mean in their channel", "[cuda]") {
  Random random(2);
  for (const DType wanted : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt8})
    for (const auto& [elements, channels] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {784, 1}, {12, 3}, {15, 3}, {3, 3}}) {
      INFO(name_of(wanted) << " " << elements << " in " << channels);
      Array rows(DType::kUInt8, {kRows, elements});
      for (uint8_t& byte : rows.as<uint8_t>())
        byte = static_cast<uint8_t>(random_between(random, 0, 255));
      const size_t size = size_of(wanted);
      std::vector<std::byte> table(static_cast<size_t>(channels) * 256 * size);
      for (std::byte& byte : table) byte = std::byte(random_between(random, 0, 255));
      std::vector<std::byte> expected;
      for (const int64_t i : kIndices)
        for (int64_t e = 0; e < elements; ++e) {
          const int64_t byte = rows.as<uint8_t>()[static_cast<size_t>(i * elements + e)];
          const auto at = static_cast<size_t>(e / (elements / channels) * 256 + byte) * size;
          expected.insert(expected.end(), table.begin() + static_cast<std::ptrdiff_t>(at),
                          table.begin() + static_cast<std::ptrdiff_t>(at + size));
        }
      for (const LaneOrder lanes : kLaneOrders)
        CHECK(gathered(rows, wanted, table, channels, lanes) == expected);
    }
}

}  // namespace flow::test
