// Random values of Philox words: against the C library, and against the draws of the host.
#include "runtime/base/random_values.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

using namespace flow;

namespace {

/// The error of a value in units in the last place of what is exact.
double units_off(double got, double exact) {
  return std::abs(got - exact) / std::ldexp(1.0, std::ilogb(exact) - 52);
}

}  // namespace

TEST_CASE("logarithms and points on a circle are exact to two units in the last place", "[base]") {
  double of_log = 0, of_outer = 0, of_circle = 0, farthest = 0;
  for (uint32_t n = 1; n < (1U << 24); n += 101) {
    const double u = n * 0x1p-24;
    of_log = std::max(of_log, units_off(log_of_normal(u), std::log(u)));
    of_outer = std::max(of_outer, units_off(log_of_normal(-std::log(u)), std::log(-std::log(u))));
    // Behind an eighth, the digits of the angle do not do for a relative error.
    const long double angle = 2 * std::numbers::pi_v<long double> * n * 0x1p-24L;
    const auto sine = static_cast<double>(std::sin(angle));
    const auto cosine = static_cast<double>(std::cos(angle));
    const OnCircle at = on_circle(n);
    if (n < 1U << 21)
      of_circle = std::max({of_circle, units_off(at.sine, sine), units_off(at.cosine, cosine)});
    farthest = std::max({farthest, std::abs(at.sine - sine), std::abs(at.cosine - cosine)});
  }
  CHECK(of_log <= 2);
  CHECK(of_outer <= 2);
  CHECK(of_circle <= 2);
  CHECK(farthest <= 0x1p-52);
  CHECK(log_of_normal(1) == 0);
  CHECK(log_of_normal(1e300) == Approx(std::log(1e300)).epsilon(1e-15));
  CHECK(on_circle(0).sine == 0);
  CHECK(on_circle(1U << 22).cosine == 0);
  CHECK(on_circle(1U << 23).cosine == -1);
  CHECK(on_circle(3U << 22).sine == -1);
}

TEST_CASE("draws of blocks are the host's draws", "[base]") {
  const PhiloxKey key = philox_key(3, "z");
  std::vector<double> normals(4000), uniforms(4000);
  draw_normal({.seed = 3, .name = "z", .step = 7}, normals.data(), 4000);
  draw_uniform({.seed = 3, .name = "z", .step = 7}, -2, 5, uniforms.data(), 4000);
  for (size_t i = 0; i < normals.size(); ++i) {
    const PhiloxBlock block = philox_block(key, 7, i / 4);
    const auto k = static_cast<int>(i % 4);
    CHECK(std::abs(NormalDraw{0, 1}.value(block, k) - normals[i]) <= 1e-14);
    CHECK(UniformDraw{-2, 7}.value(block, k) == uniforms[i]);
    CHECK(std::isfinite(GumbelDraw{}.value(block, k)));
  }
  CHECK(std::isfinite(gumbel_of(0)));
  CHECK(std::isfinite(gumbel_of(0xFFFFFFFF)));
}

TEST_CASE("events happen below their probability", "[base]") {
  CHECK_FALSE(happens(0, 0));
  CHECK(happens(0x1p-32, 0));
  CHECK_FALSE(happens(0x1p-32, 1));
  CHECK(happens(1, 0xFFFFFFFF));
  CHECK_FALSE(happens(-1, 0));
  CHECK_FALSE(happens(std::numeric_limits<double>::quiet_NaN(), 0));
}

TEST_CASE("indices are drawn in proportion to weights", "[base]") {
  std::vector<float> weights(130, 0);
  weights[3] = 1, weights[64] = -5, weights[127] = 2, weights[129] = 1;
  std::vector<double> ends(3);
  for (int64_t p = 0; p < 3; ++p)
    ends[static_cast<size_t>(p)] = sum_of_piece(weights.data(), 130, p);
  add_pieces(ends.data(), 3);
  CHECK(ends == std::vector<double>{1, 3, 4});
  const auto drawn = [&](double share) {
    return drawn_index(weights.data(), 130, ends.data(), static_cast<uint32_t>(share * 0x1p32));
  };
  CHECK(drawn(0) == 3);
  CHECK(drawn(0.2499) == 3);
  CHECK(drawn(0.25) == 127);
  CHECK(drawn(0.7499) == 127);
  CHECK(drawn(0.75) == 129);
  CHECK(drawn(0.9999) == 129);
}
