// What the searches for looks share. A look predicts out from golden, or names the place of the
// error; its share is 1 - |out - prediction|^2 / |out - golden|^2.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "runtime/compare/looks.h"
#include "runtime/compare/values.h"

namespace flow::compare {

/// Two arrays of one shape as doubles, with their errors.
struct LookInput {
  const ArrayView& golden_view;
  const ArrayView& out_view;
  const LookContext& context;
  const Shape& shape;
  Doubles golden, out;
  Errors errors;

  LookInput(const ArrayView& a, const ArrayView& b, const LookContext& known)
      : golden_view(a),
        out_view(b),
        context(known),
        shape(b.shape),
        golden(doubles_of(a)),
        out(doubles_of(b)),
        errors(golden, out) {}

  size_t size() const { return out.size(); }
  /// The axis of rows: the second one, if the first has the steps.
  int rows_axis() const { return context.steps_first ? 1 : 0; }

  /// The share that a prediction of each element explains.
  template <typename Prediction>
  double share_of(Prediction predict) const {
    double rest = 0;
    for (size_t i = 0; i < size(); ++i) {
      if (!std::isfinite(out[i] - golden[i])) continue;
      const double residual = out[i] - predict(i);
      rest += std::isfinite(residual) ? errors.square(residual) : errors.squares[i];
    }
    return 1 - rest / errors.total;
  }
};

using Looks = std::vector<Look>;

/// Where the error is: one element, one channel, the last rows.
void find_places(const LookInput& input, Looks& found);
/// What was done to each value: offset, gain, sign, rounding.
void find_values(const LookInput& input, Looks& found);
/// Where each value came from: transposed, shifted, permuted.
void find_moves(const LookInput& input, Looks& found);
/// Values of an earlier step.
void find_stale(const LookInput& input, Looks& found);

}  // namespace flow::compare
