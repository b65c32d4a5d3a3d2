// Resized and fitted images against Pillow's (tests/golden/data/images.py) and against loops that
// state the formulas.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/data/image/fit.h"
#include "runtime/data/image/resize.h"
#include "tests/support/image_cases.h"

namespace flow::data {
namespace {

using test::image_from_array;
using test::image_golden;
using test::samples_of;

Image noise(int64_t channels, int64_t height, int64_t width, int bits) {
  Image image;
  image.reshape(channels, height, width, bits);
  std::mt19937 random(5);
  for (std::byte& byte : image.data) {
    // Many extreme samples make bicubic results leave the range.
    const unsigned draw = random() % 512;
    byte = static_cast<std::byte>(draw < 256 ? draw : draw % 2 * 255);
  }
  return image;
}

double kernel(Filter filter, double t) {
  t = std::abs(t);
  if (filter == Filter::kBilinear) return t < 1 ? 1 - t : 0;
  const double a = -0.5;
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}

/// Resizes one line as the formulas of the filter say.
std::vector<int> naive_line(const std::vector<int>& in, int64_t out, Filter filter, int most) {
  const auto length = static_cast<int64_t>(in.size());
  if (length == out) return in;
  std::vector<int> result;
  const double s = static_cast<double>(length) / static_cast<double>(out), f = std::max(s, 1.0);
  const double support = (filter == Filter::kBilinear ? 1 : 2) * f;
  for (int64_t x = 0; x < out; ++x) {
    if (filter == Filter::kNearest) {
      result.push_back(in[static_cast<size_t>((2 * x + 1) * length / (2 * out))]);
      continue;
    }
    const double c = (static_cast<double>(x) + 0.5) * s;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(std::trunc(c - support + 0.5)));
    const auto last = std::min(length, static_cast<int64_t>(std::trunc(c + support + 0.5)));
    std::vector<double> w;
    double total = 0;
    for (int64_t i = 0; i < last - first; ++i) {
      w.push_back(kernel(filter, (static_cast<double>(i + first) - c + 0.5) * (1 / f)));
      total += w.back();
    }
    int64_t sum = int64_t{1} << 21;
    for (size_t i = 0; i < w.size(); ++i) {
      const double k = w[i] / total * 4194304;
      sum += static_cast<int64_t>(std::trunc(k < 0 ? k - 0.5 : k + 0.5)) *
             in[static_cast<size_t>(first) + i];
    }
    result.push_back(static_cast<int>(std::clamp<int64_t>(sum >> 22, 0, most)));
  }
  return result;
}

std::vector<int> naive_resize(const Image& image, ImageSize size, Filter filter) {
  const int most = image.bits == 8 ? 255 : 65535;
  const std::vector<int> samples = samples_of(image);
  std::vector<int> result;
  for (int64_t c = 0; c < image.channels; ++c) {
    std::vector<std::vector<int>> rows;
    for (int64_t y = 0; y < image.height; ++y) {
      const auto row = samples.begin() + (c * image.height + y) * image.width;
      rows.push_back(naive_line({row, row + image.width}, size.width, filter, most));
    }
    std::vector<std::vector<int>> columns;
    for (size_t x = 0; x < static_cast<size_t>(size.width); ++x) {
      std::vector<int> column;
      for (const auto& row : rows) column.push_back(row[x]);
      columns.push_back(naive_line(column, size.height, filter, most));
    }
    for (size_t y = 0; y < static_cast<size_t>(size.height); ++y)
      for (const auto& column : columns) result.push_back(column[y]);
  }
  return result;
}

constexpr Filter kFilters[] = {Filter::kBilinear, Filter::kBicubic, Filter::kNearest};

TEST_CASE("resized images are equal to Pillow's", "[data]") {
  int compared = 0;
  for (const std::string source : {"smooth", "rough"})
    for (const auto& [name, filter] :
         {std::pair{".bilinear.", Filter::kBilinear}, {".bicubic.", Filter::kBicubic}}) {
      const Image image = image_from_array(image_golden().at(source));
      for (const auto& [key, expected] : image_golden()) {
        if (!key.starts_with(source + name)) continue;
        INFO(key);
        Image out;
        resize(image, {expected.shape()[1], expected.shape()[2]}, filter, out);
        CHECK(samples_of(out) == samples_of(expected));
        ++compared;
      }
    }
  CHECK(compared == 16);
}

TEST_CASE("resized images are equal to the formulas", "[data]") {
  Image out;
  for (const int bits : {8, 16})
    for (const Filter filter : kFilters)
      for (const auto& [height, width] : {ImageSize{1, 1}, {2, 9}, {33, 7}, {40, 50}, {70, 33}}) {
        const Image image = noise(2, height, width, bits);
        for (const ImageSize size : {ImageSize{1, 1},
                                     {5, 8},
                                     {33, 32},
                                     {31, 45},
                                     {height, 34},
                                     {37, width},
                                     {height, width},
                                     {3 * height, 2 * width}}) {
          INFO(bits << " " << static_cast<int>(filter) << " " << height << " " << width << " to "
                    << size.height << " " << size.width);
          resize(image, size, filter, out);
          CHECK(samples_of(out) == naive_resize(image, size, filter));
        }
      }
}

TEST_CASE("white stays white at any size", "[data]") {
  Image white, out;
  for (const int bits : {8, 16}) {
    white.reshape(1, 45, 61, bits);
    std::ranges::fill(white.data, std::byte{0xff});
    for (const Filter filter : kFilters)
      for (int64_t side = 1; side < 100; side += 7) {
        resize(white, {side, 101 - side}, filter, out);
        CHECK(std::ranges::all_of(out.data, [](std::byte b) { return b == std::byte{0xff}; }));
      }
  }
}

TEST_CASE("a part is equal to that of the whole", "[data]") {
  const Image image = noise(3, 70, 90, 8);
  const Box from{5, 11, 60, 75};
  Image cut, whole, expected, part;
  crop(image, from, cut);
  for (int64_t y : {0, 59})
    for (int64_t x : {0, 74})
      CHECK(cut.plane<uint8_t>(2)[static_cast<size_t>(y * 75 + x)] ==
            image.plane<uint8_t>(2)[static_cast<size_t>((y + 5) * 90 + x + 11)]);
  for (const Filter filter : kFilters)
    for (const ImageSize size : {ImageSize{40, 50}, {60, 50}, {40, 75}, {60, 75}, {99, 120}})
      for (const Box kept : {Box{0, 0, 40, 50}, {3, 9, 33, 36}, {39, 49, 1, 1}, {7, 2, 5, 40}}) {
        resize(cut, size, filter, whole);
        crop(whole, kept, expected);
        resize_part(image, from, size, kept, filter, part);
        CHECK(part.data == expected.data);
      }
}

Fit fit_of(FitMode mode, int64_t height, int64_t width) {
  return {.mode = mode, .size = {height, width}, .fill = 9};
}

TEST_CASE("fitted images are equal to Pillow's and torchvision's", "[data]") {
  const Image image = image_from_array(image_golden().at("smooth"));
  Image out;
  for (const auto& [name, mode] : {std::pair{"crop.", FitMode::kCrop},
                                   {"pad.", FitMode::kPad},
                                   {"stretch.", FitMode::kStretch},
                                   {"short.", FitMode::kShort}})
    for (const auto& [key, expected] : image_golden()) {
      if (!key.starts_with(name)) continue;
      INFO(key);
      const Fit fit = fit_of(mode, expected.shape()[1], expected.shape()[2]);
      fit_image(image, fit, out);
      CHECK(out.size() == fitted_size(image.size(), fit));
      CHECK(samples_of(out) == samples_of(expected));
    }
}

TEST_CASE("fitted sizes are exact integers", "[data]") {
  CHECK(fitted_size({375, 500}, fit_of(FitMode::kShort, 224, 0)) == ImageSize{224, 298});
  CHECK(fitted_size({500, 375}, fit_of(FitMode::kShort, 224, 0)) == ImageSize{298, 224});
  CHECK(fitted_size({7, 7}, fit_of(FitMode::kShort, 3, 0)) == ImageSize{3, 3});
  CHECK(fitted_size({375, 500}, fit_of(FitMode::kCrop, 224, 200)) == ImageSize{224, 200});
  CHECK(fitted_size({1, 1000}, fit_of(FitMode::kPad, 8, 8)) == ImageSize{8, 8});
}

TEST_CASE("the center of a crop is rounded to even", "[data]") {
  Image image, out;
  for (const auto& [width, left] : {std::pair{4, 0}, {5, 1}, {6, 2}, {7, 2}, {8, 2}, {9, 3}}) {
    image.reshape(1, 3, width, 8);
    for (size_t i = 0; i < image.data.size(); ++i)
      image.data[i] = static_cast<std::byte>(i % static_cast<size_t>(width));
    fit_image(image, fit_of(FitMode::kCrop, 3, 3), out);
    CHECK(samples_of(out)[0] == left);
  }
}

TEST_CASE("a thin image is padded with at least one row of its own", "[data]") {
  Image out;
  fit_image(noise(1, 1, 300, 16), fit_of(FitMode::kPad, 4, 6), out);
  const std::vector<int> samples = samples_of(out);
  CHECK(std::ranges::count(samples, 9) == 18);
  CHECK(samples[5] == 9);
  CHECK(samples[6] != 9);
}

TEST_CASE("an image that would need too much memory is refused", "[data]") {
  const ImageSize line{1, 50'000'000}, column{50'000'000, 1};
  CHECK_THROWS_AS(fitted_size(line, fit_of(FitMode::kShort, 224, 0)), RunError);
  CHECK_THROWS_AS(fitted_size(column, fit_of(FitMode::kShort, 224, 0)), RunError);
  CHECK_THROWS_AS(fitted_size(line, fit_of(FitMode::kCrop, 224, 224)), RunError);
  CHECK_THROWS_AS(fitted_size(column, fit_of(FitMode::kStretch, 224, 224)), RunError);
  CHECK(fitted_size(line, fit_of(FitMode::kPad, 224, 224)) == ImageSize{224, 224});
  Image narrow = noise(1, 1'000'000, 1, 8), out;
  CHECK_THROWS_AS(fit_image(narrow, fit_of(FitMode::kStretch, 224, 224), out), RunError);
}

}  // namespace
}  // namespace flow::data
