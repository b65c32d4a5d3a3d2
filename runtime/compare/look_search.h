// The common part of the searches for looks. A look predicts out from golden, or names the place of
// the error. Its share is 1 - |out - prediction|^2 / |out - golden|^2.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "runtime/compare/arrays.h"
#include "runtime/compare/looks.h"

namespace flow::compare {

/// Selects the sample of LookInput. The sample of a small array is empty.
std::vector<size_t> sample_of(const Errors& errors);

/// Two arrays of one shape as doubles, with their errors.
struct LookInput {
  const ArrayView& golden_view;
  const ArrayView& out_view;
  const LookContext& context;
  const Shape& shape;
  Doubles golden, out;
  Errors errors;
  // Elements of a large array, chosen in proportion to their squared errors. They quickly reject
  // looks that explain nothing.
  std::vector<size_t> sample;

  LookInput(const ArrayView& a, const ArrayView& b, const LookContext& known)
      : golden_view(a),
        out_view(b),
        context(known),
        shape(b.shape),
        golden(doubles_of(a)),
        out(doubles_of(b)),
        errors(golden, out),
        sample(sample_of(errors)) {}

  size_t size() const { return out.size(); }
  /// Returns the axis of the rows, which is the second one if the first axis contains the steps.
  int rows_axis() const { return context.steps_first ? 1 : 0; }

  /// Returns the share of the error that a prediction of each element explains.
  template <typename Prediction>
  double share_of(Prediction predict) const {
    return share_among([](size_t) { return true; }, predict);
  }
  /// Returns the share for the error of some elements only, or 0 if these have no error.
  template <typename Counts, typename Prediction>
  double share_among(Counts counts, Prediction predict) const {
    constexpr double kHopeless = 0.4;
    const auto rest_at = [&](size_t i) {
      const double residual = out[i] - predict(i);
      return std::isfinite(residual) ? errors.square(residual) : errors.squares[i];
    };
    double rest = 0, total = 0;
    for (const size_t i : sample) {
      if (!counts(i)) continue;
      rest += rest_at(i) / errors.squares[i];
      ++total;
    }
    if (total > 0 && 1 - rest / total < kHopeless) return 1 - rest / total;
    rest = total = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (!std::isfinite(out[i] - golden[i]) || !counts(i)) continue;
      rest += rest_at(i);
      total += errors.squares[i];
    }
    return total > 0 ? 1 - rest / total : 0;
  }
};

// A look must explain at least this share of the squared error.
inline constexpr double kLeastShare = 0.75;

using Looks = std::vector<Look>;

/// Finds the places of the error: one element, one channel, the last rows.
void find_places(const LookInput& input, Looks& found);
/// Finds what was done to each value: offset, gain, sign, rounding.
void find_values(const LookInput& input, Looks& found);
/// Finds where each value came from: transposed, shifted, permuted.
void find_moves(const LookInput& input, Looks& found);
/// Finds values of an earlier step.
void find_stale(const LookInput& input, Looks& found);

}  // namespace flow::compare
