// CPU kernels of updates by rules whose rate for a variable depends on the whole variable. One pass
// sums squares, in pieces that are added in order, and a second pass moves the variable.
#pragma once

#include "ops/optimizer/cpu_piece_sums.h"
#include "ops/optimizer/cpu_update.h"
#include "ops/optimizer/layerwise.h"

namespace flow::cpu {

using optimizers::TwoSums;

inline constexpr int64_t kSumLanes = 16;

/// Adds the squares of the terms of element i to the sums.
template <typename Rule, size_t... k>
FLOW_INLINE void add_squares(const typename Rule::template Terms<float>& terms, const float* g,
                             const std::array<const float*, Rule::kMoved>& from,
                             const std::array<float*, Rule::kMoved>& to, int64_t i, double& first,
                             double& second, std::index_sequence<k...>) {
  float values[] = {from[k][i]...};
  const optimizers::Pair<float> found = terms(g[i], values);
  const auto x = static_cast<double>(found.first), y = static_cast<double>(found.second);
  first += x * x;
  second += y * y;
  if constexpr (Rule::kMovesSlots) ((k > 0 ? void(to[k][i] = values[k]) : void()), ...);
}

template <typename Rule>
FLOW_INLINE TwoSums sum_squares(const ArraysOf<Rule>& arrays,
                                const typename Rule::template Terms<float>& rule, int64_t n) {
  const typename Rule::template Terms<float> terms = rule;
  const float* g = arrays.g;
  const auto from = arrays.from;
  const auto to = arrays.to;
  constexpr auto kArrays = std::make_index_sequence<Rule::kMoved>();
  double first[kSumLanes] = {}, second[kSumLanes] = {};
  int64_t i = 0;
  for (; i + kSumLanes <= n; i += kSumLanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < kSumLanes; ++lane)
      add_squares<Rule>(terms, g, from, to, i + lane, first[lane], second[lane], kArrays);
  }
  for (; i < n; ++i) add_squares<Rule>(terms, g, from, to, i, first[0], second[0], kArrays);
  TwoSums sums;
  for (const double sum : first) sums.first += sum;
  for (const double sum : second) sums.second += sum;
  return sums;
}

/// The loops of a rule over n elements: one for the sums of squares and one for the move.
template <typename Rule>
struct LayerwisePieces {
  TwoSums (*sum)(const ArraysOf<Rule>& arrays, const typename Rule::template Terms<float>& terms,
                 int64_t n);
  UpdatePiece<Rule> move;
};

/// Returns a kernel that updates a variable by a rule.
template <typename Rule>
Kernel layerwise_kernel(const Request& request, LayerwisePieces<Rule> pieces) {
  const Rule rule(request.step.attributes);
  const PieceSums<TwoSums> sums_of(request, 0, 1);
  Kernel kernel;
  kernel.workspace = sums_of.bytes();
  kernel.gathered = sums_of.gathered_bytes();
  kernel.launch = [=, threads = request.threads, n = request.outputs[0].shape.elements(),
                   elements = static_cast<double>(request.inputs[0].whole_elements()),
                   scale = GradientScale(request, rule.scale, Rule::kMoved)](
                      const Buffers& buffers, const CallState& state) {
    ArraysOf<Rule> arrays(buffers);
    const optimizers::UpdateCall call = rule.seen(state);
    const double scaled = scale(buffers);
    if (std::isnan(scaled)) return arrays.keep(n);
    const auto terms = rule.template terms<float>(scaled, call);
    const TwoSums sums = sums_of(threads, buffers.workspace, [&](size_t, int64_t i, int64_t end) {
      return pieces.sum(arrays.at(i), terms, end - i);
    });
    if constexpr (Rule::kMovesSlots)
      std::copy(arrays.to.begin() + 1, arrays.to.end(), arrays.from.begin() + 1);
    const double rate = rule.rate(sums, scaled, elements, call);
    const auto move = rule.template at<float>(scaled, rate, call);
    for_pieces(threads, n, kPiece,
               [&](int64_t i, int64_t end) { pieces.move(arrays.at(i), move, end - i); });
  };
  return kernel;
}

}  // namespace flow::cpu
