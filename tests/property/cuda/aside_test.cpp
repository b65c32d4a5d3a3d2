// What products store and read beside their results, on a test device.
#include <catch2/catch.hpp>

#include <algorithm>
#include <ranges>

#include "runtime/base/element_types.h"
#include "runtime/base/error.h"
#include "runtime/cuda/libraries/validate_epilogues.h"
#include "tests/property/kernel_case.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {
namespace {

using cuda::Aside;
using cuda::MatmulSpec;
using Values = std::vector<float>;

/// A matrix, row-major. Small whole numbers: any dtype has them, and sums are exact in any order.
struct Matrix {
  int64_t rows, columns;
  Values values;

  Matrix(int64_t r, int64_t c) : rows(r), columns(c), values(static_cast<size_t>(r * c)) {}
  Matrix(Random& random, int64_t r, int64_t c) : Matrix(r, c) {
    for (float& value : values) value = static_cast<float>(random_between(random, -4, 4));
  }
  float at(int64_t i, int64_t j) const { return values[static_cast<size_t>(i * columns + j)]; }
  float& at(int64_t i, int64_t j) { return values[static_cast<size_t>(i * columns + j)]; }
};

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t l = 0; l < a.columns; ++l)
      for (int64_t j = 0; j < b.columns; ++j) out.at(i, j) += a.at(i, l) * b.at(l, j);
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.columns, a.rows);
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) out.at(j, i) = a.at(i, j);
  return out;
}

Values sums_of_columns(const Matrix& a) {
  Values sums(static_cast<size_t>(a.columns));
  for (int64_t i = 0; i < a.rows; ++i)
    for (int64_t j = 0; j < a.columns; ++j) sums[static_cast<size_t>(j)] += a.at(i, j);
  return sums;
}

/// A device, and what a test puts there.
class Bench {
 public:
  Bench()
      : device_(open_test_device(LaneOrder::kForward)),
        stream_(device_->driver().create_stream()) {}
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() {
    for (std::byte* buffer : owned_) device_->driver().release(buffer);
    device_->driver().destroy(stream_);
    device_->finish();
  }

  std::byte* put(const Values& values, DType dtype = DType::kFloat32) {
    return visit_any_float(dtype, [&]<typename T>(T) {
      std::vector<T> elements(values.size());
      std::ranges::transform(values, elements.begin(), convert<T, float>);
      return upload(elements.data(), elements.size() * sizeof(T));
    });
  }
  std::byte* put(const Matrix& matrix, DType dtype) { return put(matrix.values, dtype); }
  std::byte* room(size_t bytes) {
    const std::vector<std::byte> nothing(bytes);
    return upload(nothing.data(), bytes);
  }
  Values get(const std::byte* buffer, size_t count) {
    Values values(count);
    device_->driver().copy(values.data(), buffer, count * sizeof(float), stream_);
    device_->driver().synchronize(stream_);
    return values;
  }
  /// False, with a remark, where the device's library has no such product that is right.
  bool multiply(const MatmulSpec& spec, cuda::LibraryBuffers buffers) {
    const Expected<cuda::LibraryKernel> kernel = device_->libraries().find(spec);
    if (!kernel) {
      CHECK_THAT(kernel.error().what(), Catch::Contains("has no algorithm"));
      WARN(kernel.error().what());
      return false;
    }
    if (!cuda::passes_validation(*kernel, spec, device_->driver())) {
      WARN("a product with something aside does not do as it is told");  // and is not used
      return false;
    }
    buffers.workspace = room(kernel->workspace + 1);
    kernel->run(buffers, stream_);
    return true;
  }

 private:
  std::byte* upload(const void* from, size_t bytes) {
    owned_.push_back(device_->driver().allocate(bytes));
    device_->driver().copy(owned_.back(), from, bytes, stream_);
    device_->driver().synchronize(stream_);
    return owned_.back();
  }

  std::unique_ptr<TestDevice> device_;
  cuda::Stream stream_;
  std::vector<std::byte*> owned_;
};

struct Extents {
  int64_t m, n, k;
};

const std::vector<Extents> kExtents = {
    {1, 1, 1}, {4, 8, 16}, {100, 10, 512}, {37, 131, 5}, {64, 256, 32}};
const std::vector<DType> kDTypes = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

}  // namespace

TEST_CASE("a ReLU's gradient is a product that reads the mask of another", "[cuda]") {
  const auto [m, n, k] = GENERATE(from_range(kExtents));
  const DType dtype = GENERATE(from_range(kDTypes));
  const bool transpose = GENERATE(false, true), with_bias = GENERATE(true, false);
  CAPTURE(m, n, k, name_of(dtype), transpose, with_bias);
  Random random(1);
  const Matrix x(random, m, k), w(random, k, n), bias(random, 1, n);
  const Matrix dz(random, m, 3), v(random, 3, n);
  MatmulSpec forward{dtype, {m, k}, {k, n}, {m, n}}, back{dtype, {m, 3}, {3, n}, {m, n}};
  forward.epilogue = {.bias = with_bias, .relu = true};
  forward.aside = Aside::kStoreMask;
  if (transpose) forward.b = {n, k};
  forward.transpose_b = transpose;
  back.aside = Aside::kReadMask;

  Matrix expected_y = product(x, w), expected_dx = product(dz, v);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const float added = with_bias ? bias.at(0, j) : 0;
      expected_y.at(i, j) = std::max(expected_y.at(i, j) + added, 0.0F);
      if (expected_y.at(i, j) == 0) expected_dx.at(i, j) = 0;
    }
  Bench bench;
  const size_t count = expected_y.values.size(), bytes = count * sizeof(float);
  std::byte *const y = bench.room(bytes), *const dx = bench.room(bytes);
  std::byte* const mask = bench.room(static_cast<size_t>(cuda::mask_shape(forward.out).elements()));
  if (!bench.multiply(forward,
                      {bench.put(x, dtype), bench.put(transpose ? transposed(w) : w, dtype),
                       with_bias ? bench.put(bias.values) : nullptr, y, nullptr, mask}))
    return;
  CHECK(bench.get(y, count) == expected_y.values);
  if (!bench.multiply(back,
                      {bench.put(dz, dtype), bench.put(v, dtype), nullptr, dx, nullptr, mask}))
    return;
  CHECK(bench.get(dx, count) == expected_dx.values);
}

TEST_CASE("a bias's gradient is made beside the weight's", "[cuda]") {
  const auto [m, n, k] = GENERATE(from_range(kExtents));
  const DType dtype = GENERATE(from_range(kDTypes));
  const bool of_a = GENERATE(true, false);
  CAPTURE(m, n, k, name_of(dtype), of_a);
  Random random(2);
  const Matrix a(random, k, m), b(random, k, n);
  MatmulSpec spec{dtype, {k, m}, {k, n}, {m, n}};
  spec.transpose_a = true;
  spec.aside = of_a ? Aside::kSumsOfA : Aside::kSumsOfB;

  const Matrix expected = product(transposed(a), b);
  const Values expected_sums = sums_of_columns(of_a ? a : b);
  Bench bench;
  std::byte* const out = bench.room(expected.values.size() * sizeof(float));
  std::byte* const sums = bench.room(expected_sums.size() * sizeof(float));
  if (!bench.multiply(spec,
                      {bench.put(a, dtype), bench.put(b, dtype), nullptr, out, nullptr, sums}))
    return;
  CHECK(bench.get(out, expected.values.size()) == expected.values);
  CHECK(bench.get(sums, expected_sums.size()) == expected_sums);
}

}  // namespace flow::test
