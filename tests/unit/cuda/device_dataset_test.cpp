// Columns that stay on the device, against those that are read on the host.
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "runtime/io/npy.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/job_builder.h"

using namespace flow;
using test::JobBuilder;

namespace {

constexpr int64_t kDatasetRows = 11, kBatch = 4;

/// Rows [kDatasetRows, 2, 3] of 0, 1, 2, ... in an .npy.
template <typename T>
plan::Column column(const FreshDirectory& folder, const std::string& name) {
  Array array(DTypeOf<T>::value, {kDatasetRows, 2, 3});
  std::iota(array.as<T>().begin(), array.as<T>().end(), T{0});
  io::write_npy(folder / name, array.view());
  plan::Column column;
  column.name = name;
  column.source = plan::SourceKind::kNpy;
  column.files = {name};
  column.row_shape = {2, 3};
  return column;
}

/// The input as calls find it that take `rows` of the column.
std::vector<std::byte> taken(data::Column& column, DType dtype, const std::vector<int64_t>& rows,
                             int64_t* kept_bytes) {
  JobBuilder b;
  const auto x = b.input("x", {kBatch, 2, 3}, dtype);
  const plan::Job job = b.build();
  test::FakeGpu gpu;
  exec::PrepareOptions options{1, 2, 1, {x}};
  options.columns = {{x, &column}};
  const auto program = gpu.backend->prepare(job, options);
  *kept_bytes = static_cast<int64_t>(program->memory().columns);
  REQUIRE(program->rows(1).size() == kBatch);
  std::ranges::copy(rows, program->rows(1).begin());
  const uint8_t wanted[] = {1};
  program->launch({0, 0, wanted}, 1, 0);
  program->wait(0);
  const std::span<const std::byte> value = program->delivered(x, 0);
  return {value.begin(), value.end()};
}

}  // namespace

TEST_CASE("rows taken on the device have the bits of rows read on the host", "[cuda]") {
  const FreshDirectory folder;
  const auto write = GENERATE(column<uint8_t>, column<float>, column<double>, column<int64_t>);
  plan::Column of = write(folder, "rows.npy");
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64, DType::kInt32);
  if (dtype != DType::kInt32) {
    of.scale = 1.0 / 255;
    of.mean.values = {0.3, 0.7};
    of.std.values = {0.1};
  }
  if (GENERATE(false, true)) of.rows = {{4, kDatasetRows}, {0, 4}};  // all, in another order
  CAPTURE(name_of(dtype), of.rows.size());
  const auto reader = data::Column::open(of, folder.path());
  const std::vector<int64_t> rows = {10, 0, 3, 3};
  int64_t kept = 0;
  const std::vector<std::byte> device = taken(*reader, dtype, rows, &kept);
  std::vector<std::byte> host(device.size());
  reader->read(rows, dtype, host);
  CHECK(device == host);
  const int64_t element = static_cast<int64_t>(size_of(dtype));
  const int64_t bytes = write == column<uint8_t>
                            ? 256 + (dtype == DType::kInt32 ? 1 : 2) * 256 * element
                            : (kDatasetRows * 6 * element + 255) / 256 * 256;
  CHECK(kept == bytes);
}

TEST_CASE("columns that take more than half of what is left are not kept", "[cuda]") {
  const FreshDirectory folder;
  const auto reader = data::Column::open(column<double>(folder, "f64.npy"), folder.path());
  JobBuilder b;
  const auto x = b.input("x", {kBatch, 2, 3}, DType::kFloat64);
  const plan::Job job = b.build();
  exec::PrepareOptions options;
  options.columns = {{x, reader.get()}};
  test::FakeDevice device;
  const size_t own = 256 + 256 + 256 + 256;  // call block, row numbers, x, faults
  const size_t column_bytes = 768;
  device.memory = own + 2 * column_bytes - 1;
  test::FakeGpu small(device);
  const auto fed = small.backend->prepare(job, options);
  CHECK(fed->rows(0).empty());
  CHECK(fed->memory().columns == 0);
  device.memory = 1 << 20;
  test::FakeGpu large(device);
  CHECK(large.backend->prepare(job, options)->memory().columns == column_bytes);
}
