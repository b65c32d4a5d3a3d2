// The arrays that a run left: what it watched and returned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/report/distribution.h"
#include "cli/report/run_data.h"
#include "runtime/base/array.h"

namespace flow::cli::report {

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

}  // namespace flow::cli::report
