// Sums of adjacent elements: each CPU adds in the same order.
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "ops/attention/cpu.h"

namespace flow::cpu {
namespace {

/// Of `width` partial sums, added in pairs; one addition after another, which no compiler may put
/// into another order.
float paired_sum(const float* x, int64_t n, int64_t width) {
  volatile float parts[16] = {};
  for (int64_t i = 0; i < n; ++i) parts[i % width] = parts[i % width] + x[i];
  for (int64_t half = width / 2; half > 0; half /= 2)
    for (int64_t i = 0; i < half; ++i) parts[i] = parts[i] + parts[i + half];
  return parts[0];
}

float ordered_sum(const float* x, int64_t n) {
  const int64_t whole = n / 16 * 16;
  volatile float sum = paired_sum(x, whole, 16);
  int64_t next = whole;
  for (const int64_t width : {8, 4, 1, 1, 1}) {
    if (n - next < width) continue;
    sum = sum + paired_sum(x + next, width, width);
    next += width;
  }
  return sum;
}

TEST_CASE("sums are added in one order, whatever vectors the CPU has", "[cpu]") {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> distribution(-1, 1);
  std::vector<float> x(600);
  const std::vector<float> ones(x.size(), 1.0F);
  for (float& value : x) value = distribution(random);
  for (int64_t n = 0; n <= 600; ++n) {
    CAPTURE(n);
    CHECK(fast::sum_row(x.data(), n) == ordered_sum(x.data(), n));
    CHECK(fast::dot_rows(x.data(), ones.data(), n) == ordered_sum(x.data(), n));
  }
}

}  // namespace
}  // namespace flow::cpu
