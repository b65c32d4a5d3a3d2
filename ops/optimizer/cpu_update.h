// Common parts of the kernels of updates: the gradient's factor, the arrays of one variable and its
// slots, and the loop of a rule.
#pragma once

#include <array>
#include <cmath>

#include "ops/optimizer/rule.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {

/// A gradient, and kMoved arrays that get new values: a variable, then its slots.
template <size_t kMoved, typename T = float>
struct UpdateArrays {
  const T* g;
  std::array<const T*, kMoved> from;
  std::array<T*, kMoved> to;  // equal to `from` or disjoint from it; null if only read

  explicit UpdateArrays(const Buffers& buffers) : g(input<T>(buffers, 0)) {
    for (size_t i = 0; i < kMoved; ++i) {
      from[i] = input<T>(buffers, 1 + i);
      to[i] = i < buffers.outputs.size() ? output<T>(buffers, i) : nullptr;
    }
  }
  /// Returns the arrays starting with element i.
  UpdateArrays at(int64_t i) const { return at(i, i); }
  /// Returns the gradient starting with element i and the moved arrays starting with element j.
  UpdateArrays at(int64_t i, int64_t j) const {
    UpdateArrays moved = *this;
    moved.g += i;
    for (size_t k = 0; k < kMoved; ++k)
      moved.from[k] += j, moved.to[k] = to[k] ? to[k] + j : nullptr;
    return moved;
  }
  /// Loads element i of each array as float64.
  void load(int64_t i, double (&values)[kMoved]) const {
    for (size_t k = 0; k < kMoved; ++k) values[k] = static_cast<double>(from[k][i]);
  }
  void store(int64_t i, const double (&values)[kMoved]) const {
    for (size_t k = 0; k < kMoved; ++k)
      if (to[k]) to[k][i] = static_cast<T>(values[k]);
  }
  /// Leaves the variable and its slots unchanged; copies them unless they are updated in place.
  void keep(int64_t n) const {
    for (size_t k = 0; k < kMoved; ++k)
      if (to[k] && to[k] != from[k]) std::copy_n(from[k], n, to[k]);
  }
};

template <typename Rule>
using ArraysOf = UpdateArrays<static_cast<size_t>(Rule::kMoved)>;

/// The factor of a gradient: the attribute `scale`, times the value of the operand that follows the
/// gradient and the `moved` operands after it, if there is one.
class GradientScale {
 public:
  GradientScale(const Request& request, double scale, size_t moved)
      : scale_(scale), operand_(1 + moved), clipped_(request.inputs.size() > operand_) {}
  /// Returns the factor. If it is NaN, nothing is updated.
  template <typename T = float>
  double operator()(const Buffers& buffers) const {
    return clipped_ ? scale_ * static_cast<double>(*input<T>(buffers, operand_)) : scale_;
  }

 private:
  double scale_;
  size_t operand_;
  bool clipped_;
};

/// Applies move(g, values) to element i and writes the first kWritten arrays.
template <size_t kWritten, typename Move, size_t kMoved, size_t... k>
FLOW_INLINE void move_element(const Move& move, const float* g,
                              const std::array<const float*, kMoved>& from,
                              const std::array<float*, kMoved>& to, int64_t i,
                              std::index_sequence<k...>) {
  float values[kMoved] = {from[k][i]...};
  move(g[i], values);
  ((k < kWritten ? void(to[k][i] = values[k]) : void()), ...);
}

template <size_t kWritten, typename Move, size_t kMoved>
FLOW_INLINE void move_elements(const UpdateArrays<kMoved>& arrays, const Move& rule, int64_t n) {
  const Move move = rule;
  const float* g = arrays.g;
  const auto from = arrays.from;
  const auto to = arrays.to;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i)
    move_element<kWritten>(move, g, from, to, i, std::make_index_sequence<kMoved>());
}

/// Calls piece(arrays, move, n) for parts of n elements. The sum scale g + l2 w replaces their
/// gradients g.
template <size_t kMoved, typename Move, typename Piece>
void for_decayed(UpdateArrays<kMoved> arrays, double scale, double l2, const Move& move, int64_t n,
                 Piece piece) {
  constexpr int64_t kPart = 1024;
  float decayed[kPart];
  for (int64_t i = 0; i < n; i += kPart) {
    UpdateArrays<kMoved> part = arrays.at(i);
    const int64_t count = std::min(kPart, n - i);
    weighted_sum(part.g, static_cast<float>(scale), part.from[0], static_cast<float>(l2), decayed,
                 count);
    part.g = decayed;
    piece(part, move, count);
  }
}

/// A loop over n elements that applies a rule.
template <typename Rule>
using UpdatePiece = void (*)(const ArraysOf<Rule>& arrays,
                             const typename Rule::template Move<float>& move, int64_t n);

/// Returns a kernel that updates a variable by a rule.
template <typename Rule>
Kernel update_kernel(const Request& request, UpdatePiece<Rule> piece) {
  const Rule rule(request.step.attributes);
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   scale = GradientScale(request, rule.scale, Rule::kMoved)](
                      const Buffers& buffers, const CallState& state) {
    const ArraysOf<Rule> arrays(buffers);
    const optimizers::UpdateCall call = rule.seen(state);
    const double scaled = scale(buffers);
    if (std::isnan(scaled) || optimizers::is_idle<float>(rule, call)) return arrays.keep(n);
    const auto move = rule.template at<float>(rule.l2 == 0 ? scaled : 1, call);
    for_pieces(threads, n, kPiece, [&](int64_t i, int64_t end) {
      if (rule.l2 == 0)
        piece(arrays.at(i), move, end - i);
      else
        for_decayed(arrays.at(i), scaled, rule.l2, move, end - i, piece);
    });
  };
  return kernel;
}

/// The rows of a variable that a sparse gradient updates. The operands are the rows, the variable,
/// its slots, the indices and the factor.
struct SparseRows {
  SparseRows(const Request& request, size_t moved)
      : indices(1 + moved),
        count(request.inputs[indices].shape.elements()),
        width(request.inputs[0].shape.elements() / count),
        extent(request.inputs[1].shape[0]) {}

  /// Calls f(i, j) for the rows in [first, end) that have an index. The row begins at element i of
  /// the gradient and at element j of the variable.
  template <typename F>
  void visit(const Buffers& buffers, int64_t first, int64_t end, F f) const {
    const auto* of_rows = input<int64_t>(buffers, indices);
    for (int64_t r = first; r < end; ++r)
      if (of_rows[r] >= 0 && of_rows[r] < extent) f(r * width, of_rows[r] * width);
  }

  size_t indices;  // the operand with the indices
  int64_t count, width, extent;
};

/// Returns a kernel that updates only the rows that have an index. If the update is in place, it
/// reads no other rows.
template <typename Rule>
Kernel sparse_update_kernel(const Request& request, UpdatePiece<Rule> piece) {
  const Rule rule(request.step.attributes);
  Kernel kernel;
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   rows = SparseRows(request, Rule::kMoved),
                   scale = GradientScale(request, rule.scale, Rule::kMoved + 1)](
                      const Buffers& buffers, const CallState& state) {
    ArraysOf<Rule> arrays(buffers);
    arrays.keep(n);  // copies nothing if the update is in place
    const double scaled = scale(buffers);
    if (std::isnan(scaled)) return;
    const auto move = rule.template at<float>(scaled, rule.seen(state));
    std::ranges::copy(arrays.to, arrays.from.begin());
    for_pieces(threads, rows.count, std::max<int64_t>(1, kPiece / rows.width),
               [&](int64_t first, int64_t end) {
                 rows.visit(buffers, first, end, [&](int64_t i, int64_t j) {
                   piece(arrays.at(i, j), move, rows.width);
                 });
               });
  };
  return kernel;
}

}  // namespace flow::cpu
