// Slopes of known functions against right and wrong gradients.
#include "runtime/verify/bench.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

namespace flow::verify {
namespace {

constexpr double kStep = 1e-4;

TEST_CASE("a right gradient of a smooth loss agrees", "[verify]") {
  const auto loss = [](double h) { return std::exp(2 * h) + std::sin(h) + 5; };
  const SlopeCheck check = check_slope(loss, 3, 3, kStep);
  CHECK(check.slope == Slope::kAgrees);
  CHECK(std::abs(check.measured - 3) < 1e-9);
}

TEST_CASE("a wrong gradient of a smooth loss differs", "[verify]") {
  const auto loss = [](double h) { return std::exp(2 * h) + std::sin(h) + 5; };
  for (const double expected : {3.0001, 2.9999, 0.0, -3.0, 3000.0})
    CHECK(check_slope(loss, expected, 3, kStep).slope == Slope::kDiffers);
}

TEST_CASE("a loss that does not move needs a gradient of 0", "[verify]") {
  const auto loss = [](double) { return 7.5; };
  CHECK(check_slope(loss, 0, 0, kStep).slope == Slope::kAgrees);
  CHECK(check_slope(loss, 1e-3, 1, kStep).slope == Slope::kDiffers);
}

TEST_CASE("a kink within the differences is no verdict", "[verify]") {
  const auto relu = [](double h) { return std::max(h, 0.0) + 1; };
  CHECK(check_slope(relu, 0, 1, kStep).slope == Slope::kKink);  // its gradient by agreement
  for (const double kink : {2e-5, -7e-5}) {
    const auto loss = [kink](double h) { return std::max(h - kink, 0.0) + 1; };
    CHECK(check_slope(loss, kink < 0 ? 1 : 0, 1, kStep).slope == Slope::kUnclear);
  }
}

TEST_CASE("a kink beyond the differences does not hide a wrong gradient", "[verify]") {
  const auto loss = [](double h) { return std::max(h - 3 * kStep, 0.0) + h * h; };
  CHECK(check_slope(loss, 0, 1, kStep).slope == Slope::kAgrees);
  CHECK(check_slope(loss, 1, 1, kStep).slope == Slope::kDiffers);
}

/// check_slope along some elements of a direction of signs, from 0.
template <typename Loss>
SlopeCheck check_part(const Loss& loss, const std::array<double, 4>& signs, double expected,
                      size_t first, size_t last) {
  const auto along = [&](double h) {
    std::array<double, 4> x = {};
    for (size_t i = first; i < last; ++i) x[i] = h * signs[i];
    return loss(x);
  };
  return check_slope(along, expected, 1, kStep);
}

TEST_CASE("bends that cancel each other show in a part of the direction", "[verify]") {
  constexpr std::array<double, 4> kSigns = {1, -1, 1, -1};
  const auto relus = [](const std::array<double, 4>& x) {
    return std::max(x[0], 0.0) - std::max(x[1], 0.0) + std::max(x[2], 0.0) / 2 -
           std::max(x[3], 0.0) / 2;
  };
  const auto check = [&](size_t first, size_t last) {
    return check_part(relus, kSigns, 0, first, last);
  };
  CHECK(check(0, 4).slope == Slope::kDiffers);
  CHECK(bends_in_part(4, check));
}

TEST_CASE("a small bend does not excuse a wrong gradient of another element", "[verify]") {
  constexpr std::array<double, 4> kSigns = {1, 1, 1, 1};
  const auto bent = [](const std::array<double, 4>& x) {
    return 2 * x[0] + std::exp(x[1]) - 1 + std::max(x[2], 0.0) / 8;
  };
  CHECK_FALSE(bends_in_part(4, [&](size_t first, size_t last) {
    return check_part(bent, kSigns, last == 4 ? 0 : 1, first, last);
  }));
}

TEST_CASE("no part of a wrong gradient of a smooth loss bends", "[verify]") {
  constexpr std::array<double, 4> kSigns = {1, -1, -1, 1};
  const auto squares = [](const std::array<double, 4>& x) {
    return std::exp(x[0]) + x[1] * x[1] + x[2] + std::sin(x[3]);
  };
  CHECK_FALSE(bends_in_part(4, [&](size_t first, size_t last) {
    return check_part(squares, kSigns, 0.25 * static_cast<double>(last - first), first, last);
  }));
}

TEST_CASE("noise of a large loss is not a difference", "[verify]") {
  const auto loss = [](double h) { return 1e6 + h; };
  CHECK(check_slope(loss, 1, 1, kStep).slope == Slope::kAgrees);
}

TEST_CASE("a loss that is not finite is no verdict", "[verify]") {
  const auto loss = [](double h) { return h > 0 ? INFINITY : 1.0; };
  CHECK(check_slope(loss, 1, 1, kStep).slope == Slope::kUnclear);
}

}  // namespace
}  // namespace flow::verify
