// Sums over a piece's channels: long ones of nearly equal terms keep their last digits.
#include "ops/batch_norm/cpu_loops.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace flow::cpu;

namespace {

constexpr int64_t kChannels = 3;

/// A background, which most elements have, and few that differ.
float element(int64_t i) {
  return i % 97 == 0 ? 2.8f : -0.4242f - 0.1f * static_cast<float>(i % 3);
}

struct Sums {
  std::vector<double> first = std::vector<double>(kChannels);
  std::vector<double> second = std::vector<double>(kChannels);
};

/// [outer, channels, inner] elements, all in one piece.
struct Image {
  explicit Image(ChannelView of) : view(of), pieces(view), x(static_cast<size_t>(view.elements())) {
    for (int64_t i = 0; i < view.elements(); ++i)
      x[static_cast<size_t>(i)] = element(i / view.inner % kChannels + kChannels * (i % 1000));
    REQUIRE(pieces.pieces() == 1);
  }

  /// Calls body(channel, element).
  template <typename Body>
  void for_each(Body body) const {
    for (int64_t i = 0; i < view.elements(); ++i)
      body(static_cast<size_t>(i / view.inner % kChannels),
           static_cast<double>(x[static_cast<size_t>(i)]));
  }

  Sums exact_moments() const {
    Sums sums;
    for_each([&](size_t c, double v) { sums.first[c] += v / static_cast<double>(view.count()); });
    for_each([&](size_t c, double v) { sums.second[c] += std::pow(v - sums.first[c], 2); });
    return sums;
  }

  ChannelView view;
  ChannelPieces pieces;
  std::vector<float> x;
};

/// Rows are added up in float 16 at a time, runs in as many lanes as the CPU's vectors have.
void check(const ChannelView& view, const Sums& got, const Sums& exact) {
  const double tolerance = view.inner == 1 ? 5e-7 : 1e-5;
  for (size_t c = 0; c < kChannels; ++c) {
    CHECK(got.first[c] == Approx(exact.first[c]).epsilon(tolerance));
    CHECK(got.second[c] == Approx(exact.second[c]).epsilon(tolerance));
  }
}

const std::vector<ChannelView> kViews = {{.outer = 1024, .channels = kChannels, .inner = 1},
                                         {.outer = 1, .channels = kChannels, .inner = 4096}};

}  // namespace

TEST_CASE("Moments of a picture with a plain background are exact but for the last digits",
          "[cpu]") {
  for (const ChannelView& view : kViews) {
    const Image image(view);
    const ChannelPiece piece(image.pieces, 0);
    Sums moments;
    (view.inner == 1 ? moments_of_rows : moments_of_runs)(
        piece, image.x.data(), moments.first.data(), moments.second.data());
    check(view, moments, image.exact_moments());
  }
}

TEST_CASE("Sums of gradients are exact but for the last digits", "[cpu]") {
  std::vector<float> zeros(kChannels), ones(kChannels, 1);
  const PerChannel k = {zeros.data(), ones.data(), zeros.data(), zeros.data(), zeros.data()};
  for (const ChannelView& view : kViews) {
    const Image image(view);
    const ChannelPiece piece(image.pieces, 0);
    Sums sums, exact;
    gradients_of(piece, k, false, image.x.data(), image.x.data(), sums.first.data(),
                 sums.second.data());
    image.for_each([&](size_t c, double v) {
      exact.first[c] += v;
      exact.second[c] += v * v;
    });
    check(view, sums, exact);
  }
}
