// The arrays that a run left, what it watched and returned: values, distributions and small
// pictures.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/report/run_data.h"
#include "runtime/base/array.h"

namespace flow::cli::report {

/// The elements of one step, counted in bins of equal width from `from` to `to`.
struct Histogram {
  int64_t step = 0;
  double from = 0, to = 0;
  std::vector<double> counts;
};

struct Distribution {
  std::string name;  // "lenet/conv1/weight"
  bool gradient = false;
  uint64_t events = 0;                // of the whole run
  std::vector<Histogram> histograms;  // of at most kMostHistograms events, the oldest first
};

/// Most histograms of a distribution.
inline constexpr size_t kMostHistograms = 24;

/// `i`-th of `most` places among `count`, from the first to the last one. REQUIRES: most > 1.
size_t spread(size_t i, size_t most, size_t count);

/// The histogram of the finite elements, without counts where there are none. Of many elements only
/// some are counted.
Histogram histogram_of(const ArrayView& array, int64_t step);

/// Reads the CSV of a stats sink. RunError where the file is not one.
Distribution read_stats(const fs::path& path);

/// What the job returned last, or first and last.
struct Sample {
  std::string name;                                         // "loss", "sample/images"
  std::string type;                                         // "float32 (64, 1, 28, 28)"
  std::vector<std::pair<std::string, std::string>> values;  // "step 99": "0.12 0.5 ..."
  std::string picture;  // a data URI; empty: it does not look like pictures
  size_t picture_width = 0, picture_height = 0;  // pixels
  std::string caption;                           // of the picture
};

struct Arrays {
  std::vector<Distribution> distributions;
  std::vector<Sample> samples;
};

/// Looks through watch/, returns/ and also/. Scalars become curves of the run; what is damaged or
/// too much becomes a note.
Arrays read_arrays(RunData& run);

/// Draws what looks like pictures into the sample: (..., channels, height, width), (..., height,
/// width, channels) with 1 or 3 channels, or (..., height, width).
void draw_pictures(const ArrayView& slice, Sample& sample);

/// "data:image/png;base64,..." of rows from the top, `channels` bytes a pixel: 1 (gray) or 3 (red,
/// green, blue). REQUIRES: pixels.size() == width * height * channels, none of them 0.
std::string png_uri(std::span<const uint8_t> pixels, size_t width, size_t height, size_t channels);

}  // namespace flow::cli::report
