// Why a comparison that passes may prove little.
#pragma once

#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/compare/tolerance.h"

namespace flow::compare {

/// What is known of a golden array of two elements or more.
struct Spread {
  int64_t finite = 0;
  double deviation = 0;       // the standard deviation of its finite elements
  double mean_magnitude = 0;  // the mean of their absolute values
  bool constant = false;      // all elements are equal
};
Spread spread_of(const ArrayView& golden);

/// Of floats that are constant: a wrong index or a lost update would not show. `first`: an element,
/// as text.
std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first);

/// Is the tolerance as wide as golden's own standard deviation, or as golden itself, so that zeros
/// pass?
bool is_too_wide(const Tolerance& tolerance, const Spread& spread);

}  // namespace flow::compare
