// Decoded samples, channels and orientations against those that tests/golden/data/images.py made.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/image/decode.h"
#include "runtime/data/image/encode.h"
#include "tests/support/image_cases.h"

namespace flow::data {
namespace {

using test::image_golden;
using test::samples_of;

/// What the end of an array's name says of the options that it was decoded with.
const std::map<std::string, DecodeOptions> kForms = {
    {"rgb", {.channels = Channels::kRgb}},
    {"rgba", {.channels = Channels::kRgba}},
    {"gray", {.channels = Channels::kGray}},
    {"rgb16", {.channels = Channels::kRgb, .bits = 16}},
    {"gray16", {.channels = Channels::kGray, .bits = 16}},
};

TEST_CASE("every image has the samples of the goldens", "[data]") {
  int compared = 0;
  Image image;
  for (const auto& [name, expected] : image_golden()) {
    const size_t dot = name.find('.');
    const auto form = dot == name.npos ? kForms.end() : kForms.find(name.substr(dot + 1));
    const auto file = image_golden().find(name.substr(0, dot) + ".file");
    if (form == kForms.end() || file == image_golden().end()) continue;
    INFO(name);
    decode_image(file->second.bytes(), form->second, image);
    const Shape shape = expected.shape();
    CHECK(image.bits == form->second.bits);
    CHECK((image.channels == shape[0] && image.height == shape[1] && image.width == shape[2]));
    CHECK(samples_of(image) == samples_of(expected));
    const ImageHeader header = read_image_header(file->second.bytes(), form->second);
    CHECK(header.size == image.size());
    ++compared;
  }
  CHECK(compared > 100);
}

TEST_CASE("a header has the stored channels and the size before or after turning", "[data]") {
  const auto header = [](const std::string& name, bool turns) {
    return read_image_header(image_golden().at(name + ".file").bytes(),
                             {.apply_orientation = turns});
  };
  CHECK(header("gray1", true).channels == 1);
  CHECK(header("gray8_alpha", true).channels == 2);
  CHECK(header("gray2_clear", true).channels == 2);
  CHECK(header("palette4", true).channels == 3);
  CHECK(header("palette4_alpha", true).channels == 4);
  CHECK(header("rgba16", true).channels == 4);
  CHECK(header("jpeg_gray", true).channels == 1);
  CHECK(header("jpeg420", true).channels == 3);
  CHECK(header("jpeg_cmyk", true).channels == 4);
  for (const std::string format : {"jpeg", "png"}) {
    CHECK(header("exif6_" + format, true).size == ImageSize{9, 5});
    CHECK(header("exif6_" + format, false).size == ImageSize{5, 9});
    CHECK(header("exif3_" + format, true).size == ImageSize{5, 9});
  }
}

TEST_CASE("orientation is ignored on request", "[data]") {
  Image plain, turned;
  decode_image(image_golden().at("exif1_jpeg.file").bytes(), {}, plain);
  decode_image(image_golden().at("exif6_jpeg.file").bytes(), {.apply_orientation = false}, turned);
  CHECK(samples_of(plain) == samples_of(turned));
}

TEST_CASE("transparent pixels are blended with the background", "[data]") {
  const std::array<uint8_t, 3> background = {10, 200, 77};
  for (const std::string name : {"rgba8_interlaced", "gray8_alpha", "palette8_alpha", "rgb8"}) {
    const auto file = image_golden().at(name + ".file").bytes();
    const std::vector<int> rgba = samples_of(image_golden().at(name + ".rgba"));
    const size_t plane = rgba.size() / 4;
    std::vector<int> expected;
    for (size_t i = 0; i < 3 * plane; ++i) {
      const int alpha = rgba[3 * plane + i % plane];
      expected.push_back((rgba[i] * alpha + background[i / plane] * (255 - alpha) + 127) / 255);
    }
    Image image;
    decode_image(file, {.background = background}, image);
    CHECK(samples_of(image) == expected);
    decode_image(file, {.channels = Channels::kGray, .background = background}, image);
    for (size_t i = 0; i < plane; ++i)
      CHECK(samples_of(image)[i] == (19595 * expected[i] + 38470 * expected[plane + i] +
                                     7471 * expected[2 * plane + i] + 32768) >>
                                        16);
    decode_image(file, {.channels = Channels::kRgba, .background = background}, image);
    expected.resize(4 * plane, 255);
    CHECK(samples_of(image) == expected);
  }
}

TEST_CASE("a gray background keeps 16 bits", "[data]") {
  Image image;
  decode_image(image_golden().at("rgba16.file").bytes(),
               {.bits = 16, .background = std::array<uint8_t, 3>{255, 255, 255}}, image);
  Image rgba;
  decode_image(image_golden().at("rgba16.file").bytes(), {.channels = Channels::kRgba, .bits = 16},
               rgba);
  const size_t plane = rgba.plane_samples();
  const auto stored = rgba.samples<uint16_t>();
  for (size_t i = 0; i < 3 * plane; ++i) {
    const uint64_t alpha = stored[3 * plane + i % plane];
    CHECK(image.samples<uint16_t>()[i] ==
          (stored[i] * alpha + 65535 * (65535 - alpha) + 32767) / 65535);
  }
}

TEST_CASE("a decoded image reuses the memory of the last", "[data]") {
  Image image;
  decode_image(image_golden().at("jpeg444.file").bytes(), {}, image);
  const std::byte* memory = image.data.data();
  decode_image(image_golden().at("rgb8.file").bytes(), {}, image);
  decode_image(image_golden().at("jpeg420.file").bytes(), {}, image);
  CHECK(image.data.data() == memory);
}

TEST_CASE("an encoded PNG decodes to the same samples", "[data]") {
  for (const std::string name : {"gray8", "rgb8", "rgba8_interlaced", "gray16", "rgb16"})
    for (const Channels channels : {Channels::kGray, Channels::kRgb, Channels::kRgba})
      for (const int bits : {8, 16}) {
        const DecodeOptions options{.channels = channels, .bits = bits};
        Image image, again;
        decode_image(image_golden().at(name + ".file").bytes(), options, image);
        const std::vector<std::byte> file = encode_png(image);
        decode_image(file, options, again);
        CHECK(again.data == image.data);
        CHECK(read_image_header(file, options).channels == static_cast<int>(channels));
      }
}

}  // namespace
}  // namespace flow::data
