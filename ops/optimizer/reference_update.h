// Reference: what updates and the factors of gradients have in common.
#pragma once

#include <array>
#include <cmath>
#include <utility>

#include "ops/optimizer/cpu_update.h"

namespace flow::cpu::reference {

/// A Launch that leaves the variable and its slots as they are where the factor is NaN.
template <typename T, size_t kMoved>
Launch unless_skipped(const Request& request, Launch update) {
  return [update = std::move(update), n = request.outputs[0].shape.elements(),
          scale = GradientScale(request, kMoved)](const Buffers& buffers, const CallState& state) {
    if (!std::isnan(scale.template operator()<T>(buffers))) return update(buffers, state);
    for (size_t k = 0; k < kMoved; ++k)
      std::copy_n(input<T>(buffers, 1 + k), n, output<T>(buffers, k));
  };
}

/// Calls move(g, values, state) for element i of a gradient and element j of a variable and its
/// slots, which `values` are, and become what follows them. g: the gradient times `factor`, with
/// what an L2 penalty adds.
template <typename T, size_t kMoved, typename Move>
void move_element(const Buffers& buffers, double factor, double l2, const CallState& state,
                  int64_t i, int64_t j, Move move) {
  std::array<double, kMoved> values;
  for (size_t k = 0; k < kMoved; ++k) values[k] = static_cast<double>(input<T>(buffers, 1 + k)[j]);
  const double g = factor * static_cast<double>(input<T>(buffers, 0)[i]);
  move(l2 == 0 ? g : g + l2 * values[0], values, state);
  for (size_t k = 0; k < kMoved; ++k) output<T>(buffers, k)[j] = static_cast<T>(values[k]);
}

/// A Kernel that calls move(g, values, state) for each element: `values` are the variable and its
/// slots, and become what follows them; `state` has the variable's learning rate.
template <size_t kMoved, typename Move>
Kernel elementwise_update(const Request& request, Move move) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch =
        [=, n = request.outputs[0].shape.elements(), scale = GradientScale(request, kMoved),
         l2 = ops::l2_of(request.step.attributes), rate_scale = number(request, "rate_scale")](
            const Buffers& buffers, const CallState& call) {
          const double factor = scale.operator()<T>(buffers);
          for (int64_t i = 0; i < n; ++i)
            move_element<T, kMoved>(buffers, factor, l2, call.at_rate(rate_scale), i, i, move);
        };
    kernel.launch = unless_skipped<T, kMoved>(request, std::move(kernel.launch));
  });
  return kernel;
}

/// The same of the rows of a sparse gradient; the others stay as they are.
template <size_t kMoved, typename Move>
Kernel sparse_update(const Request& request, Move move) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, n = request.outputs[0].shape.elements(), rows = SparseRows(request, kMoved),
                     scale = GradientScale(request, kMoved + 1),
                     rate_scale = number(request, "rate_scale")](const Buffers& buffers,
                                                                 const CallState& call) {
      for (size_t k = 0; k < kMoved; ++k)
        if (input<T>(buffers, 1 + k) != output<T>(buffers, k))
          std::copy_n(input<T>(buffers, 1 + k), n, output<T>(buffers, k));
      const double factor = scale.operator()<T>(buffers);
      if (std::isnan(factor)) return;
      rows.visit(buffers, 0, rows.count, [&](int64_t i, int64_t j) {
        for (int64_t k = 0; k < rows.width; ++k)
          move_element<T, kMoved>(buffers, factor, 0, call.at_rate(rate_scale), i + k, j + k, move);
      });
    };
  });
  return kernel;
}

/// The sum of squares of an operand.
template <typename T>
double squares(const T* x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

}  // namespace flow::cpu::reference
