// Philox and the draws made from it, against published answers and an implementation in NumPy.
#include "runtime/base/philox.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "runtime/base/digest.h"

namespace flow {
namespace {

TEST_CASE("philox4x32-10 gives its published answers", "[base]") {
  constexpr uint32_t kOnes = 0xffffffff;
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a key is made of the seed and the name", "[base]") {
  CHECK(splitmix64(0) == 0xe220a8397b1dcdaf);
  CHECK(splitmix64(1) == 0x910a2dec89025cc1);
  const PhiloxKey key = philox_key(1, "a");
  CHECK(((uint64_t{key.high} << 32) | key.low) == (splitmix64(1) ^ fnv1a64("a")));
  CHECK(philox_block(key, 0, 0) == PhiloxBlock{0x3b52ff48, 0xe815c4fa, 0x38e56644, 0xc09c85b8});
  CHECK(philox_block(key, 0, 1)[0] == 0x32167f4e);
}

TEST_CASE("uniform draws are the reference's bit for bit", "[base]") {
  std::vector<double> values(6);
  draw_uniform({7, "x", 3}, -1, 1, values.data(), 6);
  CHECK(values == std::vector<double>{-0.378365159034729, -0.3419746160507202, 0.5638787746429443,
                                      -0.3828667402267456, 0.1739342212677002,
                                      0.49413323402404785});
}

TEST_CASE("normal draws are the reference's", "[base]") {
  std::vector<double> values(6);
  draw_normal({1, "lenet/conv1/weight"}, values.data(), 6);
  const std::vector<double> expected = {-0.5423552846786768, 0.2960135942287561,
                                        -1.5102873387166122, 0.8618580470251005,
                                        -1.2615737940623526, -0.1745687373862993};
  for (size_t i = 0; i < 6; ++i) CHECK(values[i] == Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("a truncated draw keeps what is inside and redraws what is not", "[base]") {
  std::vector<double> plain(64), truncated(64);
  draw_normal({5, "w"}, plain.data(), 64);
  draw_truncated_normal({5, "w"}, truncated.data(), 64);
  std::vector<size_t> redrawn;
  for (size_t i = 0; i < 64; ++i)
    if (plain[i] != truncated[i]) redrawn.push_back(i);
  CHECK(redrawn == std::vector<size_t>{8, 12, 59});
  CHECK(truncated[8] == Approx(1.107415372033187).epsilon(1e-14));
  CHECK(truncated[59] == Approx(0.011571241775925719).epsilon(1e-13));

  std::vector<double> many(1000);
  draw_truncated_normal({1, "lenet/dense1/weight"}, many.data(), 1000);
  CHECK(std::accumulate(many.begin(), many.end(), 0.0) == Approx(-0.8858084843354188));
  for (const double z : many) CHECK(std::abs(z) < 2);
}

TEST_CASE("parts of a draw are those of the whole", "[base]") {
  const auto check = [](auto draw_values) {
    std::vector<double> whole(30), part(9);
    draw_values(Draw{5, "w"}, whole);
    draw_values(Draw{5, "w", 0, 8}, part);
    CHECK(part == std::vector<double>(whole.begin() + 8, whole.begin() + 17));
  };
  const auto count = [](const std::vector<double>& v) { return static_cast<int64_t>(v.size()); };
  check([&](const Draw& draw, auto& v) { draw_uniform(draw, -1, 1, v.data(), count(v)); });
  check([&](const Draw& draw, auto& v) { draw_normal(draw, v.data(), count(v)); });
  check([&](const Draw& draw, auto& v) {  // element 12 is drawn again
    draw_truncated_normal(draw, v.data(), count(v));
  });
}

TEST_CASE("integers stay in the range, whose end is excluded", "[base]") {
  std::vector<int64_t> values(8);
  draw_integers({3, "ids", 2}, -5, 7, values.data(), 8);
  CHECK(values == std::vector<int64_t>{3, 5, 2, -4, -3, 0, -1, 4});
}

TEST_CASE("the order of rows is a function of seed and epoch", "[base]") {
  std::vector<int64_t> order(10);
  draw_permutation({1, "d/shuffle", 0}, order.data(), 10);
  CHECK(order == std::vector<int64_t>{9, 1, 3, 0, 5, 4, 2, 6, 8, 7});
  draw_permutation({1, "d/shuffle", 1}, order.data(), 10);
  CHECK(order == std::vector<int64_t>{7, 2, 9, 8, 6, 4, 0, 3, 1, 5});
  draw_permutation({1, "d/shuffle", 0}, order.data(), 1);
  CHECK(order[0] == 0);
}

TEST_CASE("dropout keeps the words at or above its threshold", "[base]") {
  CHECK(dropout_threshold(0) == 0);
  CHECK(dropout_threshold(0.5) == 2147483648);
  CHECK(dropout_threshold(0.1) == 429496730);
  const PhiloxKey key = philox_key(1, "lenet/drop");
  std::vector<int> kept;
  for (uint64_t block = 0; block < 4; ++block)
    for (const uint32_t word : philox_block(key, 0, block).words)
      kept.push_back(word >= dropout_threshold(0.5));
  CHECK(kept == std::vector<int>{1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0, 1, 0});
}

}  // namespace
}  // namespace flow
