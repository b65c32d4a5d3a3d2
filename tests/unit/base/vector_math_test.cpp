// Elementary functions of floats against the C library's in double, over all magnitudes.
#include "runtime/base/vector_math.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace flow;

namespace {

constexpr float kInfinity = math::kInfinity;

/// The largest error in units in the last place, of every 10007th float in [low, high].
template <typename F, typename G>
double worst_error(F f, G exact, float low, float high) {
  constexpr double kSmallest = 1.17549435e-38;  // denormals are zeros to these functions
  double worst = 0;
  for (uint64_t bits = 0; bits <= 0xFFFFFFFF; bits += 10007) {
    const auto x = bits_as<float>(static_cast<uint32_t>(bits));
    if (!(low <= x && x <= high) || std::abs(x) < kSmallest) continue;
    const double expected = exact(static_cast<double>(x)), got = f(x);
    if (std::abs(expected) < kSmallest || std::abs(expected) > 3.4028235e38) continue;
    const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
    worst = std::max(worst, std::abs(got - expected) / unit);
  }
  return worst;
}

}  // namespace

TEST_CASE("functions of floats are exact to a few units in the last place", "[base]") {
  const auto worst = [](float (*f)(float), double (*exact)(double), float low, float high) {
    return worst_error(f, exact, low, high);
  };
  CHECK(worst(math::exp, std::exp, -kInfinity, kInfinity) <= 1.1);
  CHECK(worst(math::exp_of_nonpositive, std::exp, -87.3f, 0) <= 1.1);
  CHECK(worst(math::expm1, std::expm1, -kInfinity, kInfinity) <= 2);
  CHECK(worst(math::log, std::log, 0, kInfinity) <= 1);
  CHECK(worst(math::log1p_of_unit, std::log1p, 0, 1) <= 2.5);
  CHECK(worst(math::sin_near, std::sin, -math::kFar, math::kFar) <= 2);
  CHECK(worst(math::cos_near, std::cos, -math::kFar, math::kFar) <= 2);
  CHECK(worst(math::sin, std::sin, -3.4e38f, 3.4e38f) <= 2);
  CHECK(worst(math::cos, std::cos, -3.4e38f, 3.4e38f) <= 2);
  CHECK(worst(math::tanh, std::tanh, -kInfinity, kInfinity) <= 3);
  CHECK(worst(math::erf, std::erf, -kInfinity, kInfinity) <= 3);
  CHECK(worst([](float x) { return math::normal(x).share; },
              [](double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }, -1, kInfinity) <= 4);
  CHECK(worst(
            math::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -87, kInfinity) <= 3);
  CHECK(worst(
            math::softplus,
            [](double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }, -87,
            kInfinity) <= 3);
}

TEST_CASE("functions of floats know zeros, infinities and what is not defined", "[base]") {
  CHECK(math::exp(0.0f) == 1);
  CHECK(math::exp(-kInfinity) == 0);
  CHECK(math::exp(kInfinity) == kInfinity);
  CHECK(math::exp(89.0f) == kInfinity);
  CHECK(math::exp_of_nonpositive(-kInfinity) == 0);
  CHECK(math::expm1(-kInfinity) == -1);
  CHECK(math::expm1(kInfinity) == kInfinity);
  CHECK(math::log(0.0f) == -kInfinity);
  CHECK(math::log(-0.0f) == -kInfinity);
  CHECK(math::log(1.0f) == 0);
  CHECK(math::log(kInfinity) == kInfinity);
  CHECK(std::isnan(math::log(-1.0f)));
  CHECK(math::sin(0.0f) == 0);
  CHECK(std::signbit(math::sin(-0.0f)));
  CHECK(math::cos(0.0f) == 1);
  CHECK(std::isnan(math::sin_near(kInfinity)));
  CHECK(std::isnan(math::cos(-kInfinity)));
  CHECK(math::tanh(kInfinity) == 1);
  CHECK(math::tanh(-kInfinity) == -1);
  CHECK(std::signbit(math::tanh(-0.0f)));
  CHECK(math::erf(kInfinity) == 1);
  CHECK(math::erf(-kInfinity) == -1);
  CHECK(std::signbit(math::erf(-0.0f)));
  CHECK(math::normal(kInfinity).share == 1);
  CHECK(math::normal(-kInfinity).share == 0);
  CHECK(math::sigmoid(-kInfinity) == 0);
  CHECK(math::sigmoid(kInfinity) == 1);
  CHECK(math::softplus(-kInfinity) == 0);
  CHECK(math::softplus(kInfinity) == kInfinity);
  for (float (*f)(float) :
       {+[](float x) { return math::exp(x); }, +[](float x) { return math::exp_of_nonpositive(x); },
        +[](float x) { return math::expm1(x); }, +[](float x) { return math::log(x); },
        +[](float x) { return math::sin_near(x); }, +[](float x) { return math::cos(x); },
        +[](float x) { return math::tanh(x); }, +[](float x) { return math::erf(x); },
        +[](float x) { return math::normal(x).share; }, +[](float x) { return math::sigmoid(x); },
        +[](float x) { return math::softplus(x); }})
    CHECK(std::isnan(f(math::kNaN)));
}
