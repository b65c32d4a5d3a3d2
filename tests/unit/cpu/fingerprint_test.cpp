// Fingerprints of tensors against their definition.
#include "runtime/cpu/backend/fingerprint.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/base/element_types.h"
#include "runtime/cpu/backend/layout.h"
#include "runtime/cpu/loops/parallel.h"

namespace flow::cpu {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> some_floats(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix_index(i);
    values[i] = bits % 7 == 0 ? 0.0F : static_cast<float>(static_cast<int64_t>(bits)) * 1e-18F;
  }
  return values;
}

template <typename T>
Fingerprint fingerprint(const std::vector<T>& values, DType dtype, const Shape& shape,
                        Layout layout = Layout::kPlain, int threads = 1, int64_t first = 0) {
  std::vector<Fingerprint> chunks(fingerprint_chunks(shape));
  return fingerprint_of(threads,
                        {dtype, shape, layout, reinterpret_cast<const std::byte*>(values.data()),
                         static_cast<int64_t>(values.size() * sizeof(T) / size_of(dtype)), first},
                        chunks);
}
Fingerprint of_floats(const std::vector<float>& values) {
  return fingerprint(values, DType::kFloat32, Shape{static_cast<int64_t>(values.size())});
}

/// As fingerprint.h defines it. `columns`: words of a row.
uint64_t hash_of(const std::vector<float>& values, int64_t columns = kHashKeys) {
  std::vector<uint32_t> words(values.size());
  std::memcpy(words.data(), values.data(), words.size() * sizeof(uint32_t));
  uint64_t hash = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / columns,
                  column = static_cast<int64_t>(i) % columns;
    hash +=
        words[i] * uint64_t{hash_key(column % kHashKeys)} * hash_factor(row, column / kHashKeys);
  }
  return hash;
}

bool same(const Fingerprint& a, const Fingerprint& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

}  // namespace

TEST_CASE("a fingerprint is what its definition says", "[cpu]") {
  for (const int64_t n : {1, 7, 8, 9, 1023, 1024, 1025, 16384, 40001}) {
    std::vector<float> values = some_floats(n);
    if (n > 8) values[3] = kInf, values[5] = std::nanf(""), values[8] = -kInf;
    double sum = 0, absolute = 0, square = 0, least = kInf, most = -kInf;
    for (const double x : values) {
      if (!std::isfinite(x)) continue;
      sum += x, absolute += std::abs(x), square += x * x;
      least = std::min(least, x), most = std::max(most, x);
    }
    const Fingerprint found = of_floats(values);
    INFO(n);
    CHECK(found.count == n);
    CHECK(found.not_finite == (n > 8 ? 3 : 0));
    CHECK(found.hash == hash_of(values));
    CHECK(found.sum == Approx(sum).epsilon(1e-12).margin(absolute * 1e-13));
    CHECK(found.absolute == Approx(absolute).epsilon(1e-12));
    CHECK(found.square == Approx(square).epsilon(1e-12));
    CHECK(found.least == least);
    CHECK(found.most == most);
  }
}

TEST_CASE("every bit of every dtype is in the hash", "[cpu]") {
  for (const DType dtype : all_dtypes()) {
    const int64_t n = 1300;
    std::vector<uint8_t> bytes(static_cast<size_t>(n) * size_of(dtype));
    for (size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<uint8_t>(mix_index(i) & (dtype == DType::kBool ? 1 : 0x3F));
    const Shape shape{n};
    const Fingerprint before = fingerprint(bytes, dtype, shape);
    for (size_t bit = 0; bit < bytes.size() * 8; bit += 61) {
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
      CHECK_FALSE(fingerprint(bytes, dtype, shape).is_same(before));
      bytes[bit / 8] ^= static_cast<uint8_t>(1 << (bit % 8));
    }
    CHECK(same(fingerprint(bytes, dtype, shape), before));
  }
}

TEST_CASE("a hash depends on neither threads nor the layout", "[cpu]") {
  for (const Shape& shape : {Shape{5, 37, 19, 23}, Shape{2, 300, 33, 40}, Shape{64, 20, 3, 3},
                             Shape{3, 1, 8, 8}, Shape{1, 7, 1, 16}}) {
    const std::vector<float> plain = some_floats(shape.elements());
    std::vector<float> last(plain.size());
    reorder(1, sizeof(float), shape, Layout::kPlain,
            reinterpret_cast<const std::byte*>(plain.data()), Layout::kChannelsLast,
            reinterpret_cast<std::byte*>(last.data()));
    const Fingerprint found = fingerprint(plain, DType::kFloat32, shape);
    const int64_t plane = shape.elements(2, 4);
    CHECK(found.hash == hash_of(plain, plane >= kSmallPlane ? plane : kHashKeys));
    const Fingerprint other = fingerprint(last, DType::kFloat32, shape, Layout::kChannelsLast);
    CHECK(other.is_same(found));
    CHECK(other.least == found.least);
    CHECK(other.sum == Approx(found.sum).margin(found.absolute * 1e-12));
    for (const int threads : {2, 3}) {
      Workers workers(threads);
      const Workers::Use use(workers);
      CHECK(same(fingerprint(plain, DType::kFloat32, shape, Layout::kPlain, threads), found));
      CHECK(same(fingerprint(last, DType::kFloat32, shape, Layout::kChannelsLast, threads), other));
    }
  }
}

TEST_CASE("fingerprints of parts make that of the whole", "[cpu]") {
  const std::vector<float> whole = some_floats(3 * 1001);
  Fingerprint merged;
  for (int64_t part = 0; part < 3; ++part) {
    const std::vector<float> values(whole.begin() + part * 1001, whole.begin() + (part + 1) * 1001);
    merged.merge(fingerprint(values, DType::kFloat32, Shape{1001}, Layout::kPlain, 1, part * 1001));
  }
  const Fingerprint found = of_floats(whole);
  CHECK(merged.is_same(found));
  CHECK(merged.least == found.least);
  CHECK(merged.sum == Approx(found.sum).margin(found.absolute * 1e-13));
}

TEST_CASE("slices of planes make the fingerprint of the whole", "[cpu]") {
  const Shape shape{7, 3, 5, 5};
  const std::vector<float> whole = some_floats(shape.elements());
  Fingerprint merged;
  for (const auto& [first, end] : {std::pair(0, 13), {13, 262}, {262, 525}}) {
    const std::vector<float> values(whole.begin() + first, whole.begin() + end);
    merged.merge(fingerprint(values, DType::kFloat32, shape, Layout::kPlain, 1, first));
  }
  CHECK(merged.is_same(fingerprint(whole, DType::kFloat32, shape)));
}

TEST_CASE("equal elements in another order have another hash", "[cpu]") {
  std::vector<float> values = some_floats(5000);
  const Fingerprint before = of_floats(values);
  for (const auto& [a, b] : {std::pair(0, 1), {1, 1025}, {3, 4096 + 3}, {4000, 4999}}) {
    std::swap(values[static_cast<size_t>(a)], values[static_cast<size_t>(b)]);
    CHECK_FALSE(of_floats(values).is_same(before));
    std::swap(values[static_cast<size_t>(a)], values[static_cast<size_t>(b)]);
  }
}

}  // namespace flow::cpu
