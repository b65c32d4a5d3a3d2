// Mixup and cutmix against batches that tests/golden/data/draws.py makes.
#include "runtime/data/augment/mix.h"

#include <catch2/catch.hpp>

#include "tests/support/golden_arrays.h"

namespace flow::data {
namespace {

constexpr EpochDraws kDraws{7, "pets/mix", 0};
const ImageSize kImage{6, 5};

/// Returns the rows of a batch after they are mixed as a whole.
std::vector<double> mixed(const Mix& mix, bool boxed, const Array& batch) {
  const Shape row = batch.shape().from(1);
  const auto whole = batch.as<double>();
  std::vector<double> rows(whole.begin(), whole.end());
  rows.insert(rows.end(), whole.begin(), whole.begin() + row.elements());
  apply_mix(mix, boxed, row, rows);
  rows.resize(whole.size());
  return rows;
}

void check_batches(const std::string& name, const MixOptions& options) {
  const std::map<std::string, Array> golden = test::golden_arrays("data/draws");
  const Array &image = golden.at("mix_image"), &label = golden.at("mix_label");
  std::vector<double> images, labels;
  for (const uint32_t epoch : {0, 9})
    for (int64_t batch = 0; batch < 4; ++batch) {
      const Mix mix = draw_mix(options, {7, "pets", epoch}, batch, kImage);
      // The goldens hold the images of rows 1 and 2.
      const std::vector<double> rows = mixed(mix, true, image);
      images.insert(images.end(), rows.begin() + image.shape().elements(1, 4), rows.end());
      const std::vector<double> row_labels = mixed(mix, false, label);
      labels.insert(labels.end(), row_labels.begin(), row_labels.end());
    }
  INFO(name);
  const auto expected_images = golden.at("mixed_image_" + name).as<double>();
  const auto expected_labels = golden.at("mixed_label_" + name).as<double>();
  CHECK(std::ranges::equal(images, expected_images));
  CHECK(std::ranges::equal(labels, expected_labels));
}

TEST_CASE("mixed batches equal those of another implementation", "[data]") {
  check_batches("mixup", {0.2, {}});
  check_batches("mixup_wide", {4.0, {}});
  check_batches("cutmix", {{}, 1.0});
  check_batches("cutmix_narrow", {{}, 0.05});
  check_batches("both", {0.4, 1.0});
}

TEST_CASE("a part of a batch is mixed as in the whole batch", "[data]") {
  const Mix mix = draw_mix({0.4, {}}, kDraws, 3, {});
  std::vector<double> rows{1, 2, 4, 8, 1}, part{2, 4, 8};
  apply_mix(mix, false, {}, rows);
  apply_mix(mix, false, {}, part);
  CHECK(rows[1] == part[0]);
  CHECK(rows[2] == part[1]);
  CHECK(rows[3] == mix.share * 8 + (1 - mix.share) * 1);
}

TEST_CASE("both kinds of mixing have the same probability", "[data]") {
  int mixups = 0;
  for (int64_t batch = 0; batch < 1000; ++batch)
    mixups += draw_mix({1.0, 1.0}, kDraws, batch, kImage).kind == Mix::Kind::kMixup;
  CHECK(mixups > 440);
  CHECK(mixups < 560);
}

TEST_CASE("shares have the mean and deviation of the Beta distribution", "[data]") {
  for (const double a : {0.05, 0.2, 1.0, 4.0}) {
    double sum = 0, squares = 0;
    constexpr int kBatches = 2000;
    for (int64_t batch = 0; batch < kBatches; ++batch) {
      const double share = draw_mix({a, {}}, kDraws, batch, {}).share;
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    CHECK(sum / kBatches == Approx(0.5).margin(0.04));
    CHECK(squares / kBatches == Approx(0.25 / (2 * a + 1)).margin(0.02));
  }
}

}  // namespace
}  // namespace flow::data
