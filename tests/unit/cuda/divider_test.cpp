// Divisions by multiplication, and the loops that use them, against plain ones.
#include "runtime/cuda/loops/loops.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

using namespace flow;
using cuda::Divider;
using cuda::kNarrow;

namespace {

/// Is n / d what the operators say, in either width?
bool divides(const Divider& by, int64_t n, int64_t d) {
  const auto wide = by.divide(n);
  const auto narrow = by.divide(static_cast<int32_t>(n));
  return wide.quotient == n / d && wide.remainder == n % d && narrow.quotient == n / d &&
         narrow.remainder == n % d;
}

/// Powers of two and their neighbors, primes, and the ends of 31 bits.
std::vector<int64_t> corners() {
  std::vector<int64_t> numbers = {0, 7, 11, 576, 11520, 46341, 65521, 715827883};
  for (int64_t power = 1; power <= kNarrow; power *= 2)
    for (const int64_t n : {power - 1, power, power + 1}) numbers.push_back(n);
  return numbers;
}

}  // namespace

TEST_CASE("dividers divide as the operator does", "[cuda]") {
  std::mt19937_64 random(1);
  std::uniform_int_distribution<int64_t> narrow(0, kNarrow - 1);
  for (const int64_t d : corners()) {
    if (d == 0) continue;
    const Divider by(d);
    for (const int64_t n : corners())
      if (n < kNarrow && !divides(by, n, d)) FAIL(n << " / " << d);
    for (int i = 0; i < 1000; ++i) {
      const int64_t n = narrow(random), next = n / d * d;  // where quotients change
      for (const int64_t at : {n, next, next + d - 1})
        if (at < kNarrow && !divides(by, at, d)) FAIL(at << " / " << d);
    }
  }
  for (int i = 0; i < 100000; ++i) {
    const int64_t d = narrow(random) + 1, n = narrow(random);
    if (!divides(Divider(d), n, d)) FAIL(n << " / " << d);
  }
}

TEST_CASE("dividers divide by 1 where nothing is said, and by numbers of 64 bits", "[cuda]") {
  CHECK(divides(Divider(), kNarrow - 1, 1));
  const int64_t d = int64_t{3} << 40;
  CHECK(divides(Divider(d), kNarrow - 1, d));
  CHECK(Divider(d).divide(7 * d + 5).quotient == 7);
  CHECK(Divider(d).divide(7 * d + 5).remainder == 5);
}

TEST_CASE("loops find elements, forwards and backwards, whether or not 31 bits number them",
          "[cuda]") {
  for (const int64_t outer : {int64_t{3}, kNarrow / 35, kNarrow / 35 + 1, int64_t{1} << 40}) {
    cuda::Loops<2> loops;
    loops.add(outer, {1, 0});
    loops.add(5, {-1000, 7});
    loops.add(1, {17, 17});
    loops.add(7, {1, 35});
    CHECK(loops.narrow == (outer * 35 < kNarrow));
    REQUIRE(loops.elements() == outer * 35);
    for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{34}, int64_t{35}, outer * 35 - 1}) {
      const auto at = loops.at(i);
      CHECK(at.of[0] == i / 35 - i / 7 % 5 * 1000 + i % 7);
      CHECK(at.of[1] == i / 7 % 5 * 7 + i % 7 * 35);
    }
  }
}

TEST_CASE("loops over few elements reach as far as 64 bits", "[cuda]") {
  cuda::Loops<1> loops;
  loops.add(3, {int64_t{1} << 40});
  loops.add(2, {-5});
  CHECK_FALSE(loops.narrow);
  CHECK(loops.at(5).of[0] == (int64_t{2} << 40) - 5);
}
