// How the elements of a watched tensor are distributed, over the steps of a run.
#pragma once

#include <cstdint>
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

/// Of the finite elements; no counts where there are none. Of many elements only some are counted.
Histogram histogram_of(const ArrayView& array, int64_t step);

/// From the CSV of a stats sink. RunError where it is not one.
Distribution read_stats(const fs::path& path);

}  // namespace flow::cli::report
