// What the fast kernels of updates have in common: the gradient's factor, the arrays of one
// variable with its slots.
#pragma once

#include <array>
#include <cmath>

#include "ops/optimizer/updates.h"
#include "runtime/base/optimizer_math.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {

/// A gradient, and kMoved arrays that get new values: a variable, then its slots.
template <size_t kMoved>
struct UpdateArrays {
  const float* g;
  std::array<const float*, kMoved> from;
  std::array<float*, kMoved> to;  // each lies exactly on the one of `from`, or apart

  explicit UpdateArrays(const Buffers& buffers) : g(input<float>(buffers, 0)) {
    for (size_t i = 0; i < kMoved; ++i) {
      from[i] = input<float>(buffers, 1 + i);
      to[i] = output<float>(buffers, i);
    }
  }
  /// The arrays from element i on.
  UpdateArrays at(int64_t i) const { return at(i, i); }
  /// The gradient from element i on, and what moves from element j on.
  UpdateArrays at(int64_t i, int64_t j) const {
    UpdateArrays moved = *this;
    moved.g += i;
    for (size_t k = 0; k < kMoved; ++k) moved.from[k] += j, moved.to[k] += j;
    return moved;
  }
};

/// How the means of gradients and of their squares move, in Adam and its relatives.
struct MeanRates {
  float scale, beta1, rest1, beta2, rest2;  // rest: 1 - beta

  MeanRates(double gradient_scale, double first, double second)
      : scale(static_cast<float>(gradient_scale)),
        beta1(static_cast<float>(first)),
        rest1(static_cast<float>(1 - first)),
        beta2(static_cast<float>(second)),
        rest2(static_cast<float>(1 - second)) {}

  struct Moved {
    float scaled, mean, square;  // scaled: the gradient
  };
  [[gnu::always_inline]] Moved move(float g, float mean, float square) const {
    const float scaled = scale * g;
    return {scaled, beta1 * mean + rest1 * scaled, beta2 * square + rest2 * (scaled * scaled)};
  }
};

/// A variable and its slots stay as they are.
template <typename T, size_t kMoved>
void keep(const std::array<const T*, kMoved>& from, const std::array<T*, kMoved>& to, int64_t n) {
  for (size_t i = 0; i < kMoved; ++i)
    if (to[i] != from[i]) std::copy_n(from[i], n, to[i]);
}

/// What a gradient is multiplied by: the attribute `scale`, times the operand after the slots, or
/// after what else follows the gradient, where there is one.
class GradientScale {
 public:
  GradientScale(const Request& request, size_t moved)
      : scale_(request.step.attributes.get<double>("scale")),
        operand_(1 + moved),
        clipped_(request.inputs.size() > operand_) {}
  /// NaN: nothing is updated.
  template <typename T = float>
  double operator()(const Buffers& buffers) const {
    return clipped_ ? scale_ * static_cast<double>(*input<T>(buffers, operand_)) : scale_;
  }

 private:
  double scale_;
  size_t operand_;
  bool clipped_;
};

/// Calls piece(arrays, rates, n) for parts of n elements, with scale g + l2 w for their gradients.
template <size_t kMoved, typename Rates, typename Piece>
void for_decayed(UpdateArrays<kMoved> arrays, double scale, double l2, const Rates& rates,
                 int64_t n, Piece piece) {
  constexpr int64_t kPart = 1024;
  float decayed[kPart];
  for (int64_t i = 0; i < n; i += kPart) {
    UpdateArrays<kMoved> part = arrays.at(i);
    const int64_t count = std::min(kPart, n - i);
    weighted_sum(part.g, static_cast<float>(scale), part.from[0], static_cast<float>(l2), decayed,
                 count);
    part.g = decayed;
    piece(part, rates, count);
  }
}

/// A Kernel that calls piece(arrays, rates, n) for each piece; `rates(scale, state)` are those of a
/// call.
template <size_t kMoved, typename MakeRates, typename Piece>
Kernel update_kernel(const Request& request, MakeRates rates, Piece piece) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   scale = GradientScale(request, kMoved), l2 = ops::l2_of(request.step.attributes),
                   rate_scale = number(request, "rate_scale")](const Buffers& buffers,
                                                               const CallState& state) {
    const UpdateArrays<kMoved> arrays(buffers);
    const double factor = scale(buffers);
    if (std::isnan(factor)) return keep(arrays.from, arrays.to, n);
    const auto of_call = rates(l2 == 0 ? factor : 1, state.at_rate(rate_scale));
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      if (l2 == 0)
        piece(arrays.at(i), of_call, end - i);
      else
        for_decayed(arrays.at(i), factor, l2, of_call, end - i, piece);
    });
  };
  return kernel;
}

/// Rows of a variable that a sparse gradient has: operands rows, variable, slots, indices, factor.
struct SparseRows {
  SparseRows(const Request& request, size_t moved)
      : indices(1 + moved),
        count(request.inputs[indices].shape.elements()),
        width(request.inputs[0].shape.elements() / count),
        extent(request.inputs[1].shape[0]) {}

  /// Calls f(i, j) for the rows in [first, end) that have an index: elements i of the gradient and
  /// j of the variable are where they begin.
  template <typename F>
  void visit(const Buffers& buffers, int64_t first, int64_t end, F f) const {
    const auto* of_rows = input<int64_t>(buffers, indices);
    for (int64_t r = first; r < end; ++r)
      if (of_rows[r] >= 0 && of_rows[r] < extent) f(r * width, of_rows[r] * width);
  }

  size_t indices;  // the operand
  int64_t count, width, extent;
};

/// A Kernel that calls piece(arrays, rates, n) for each row that has an index. No other is read.
template <size_t kMoved, typename MakeRates, typename Piece>
Kernel sparse_update_kernel(const Request& request, MakeRates rates, Piece piece) {
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   rows = SparseRows(request, kMoved), scale = GradientScale(request, kMoved + 1),
                   rate_scale = number(request, "rate_scale")](const Buffers& buffers,
                                                               const CallState& state) {
    UpdateArrays<kMoved> arrays(buffers);
    keep(arrays.from, arrays.to, n);  // nothing, where it is in place
    const double factor = scale(buffers);
    if (std::isnan(factor)) return;
    const auto of_call = rates(factor, state.at_rate(rate_scale));
    for (size_t k = 0; k < kMoved; ++k) arrays.from[k] = arrays.to[k];
    for_pieces(threads, rows.count, std::max<int64_t>(1, kPiece / rows.width),
               [&](int64_t first, int64_t end) {
                 rows.visit(buffers, first, end, [&](int64_t i, int64_t j) {
                   piece(arrays.at(i, j), of_call, rows.width);
                 });
               });
  };
  return kernel;
}

}  // namespace flow::cpu
