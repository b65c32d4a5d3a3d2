// Reference kernels of updates, which compute the formulas of the rules directly.
#pragma once

#include "ops/optimizer/cpu_update.h"
#include "ops/optimizer/layerwise.h"

namespace flow::cpu::reference {

/// Applies the formula of a rule to element i of a variable and its slots.
template <typename T, typename Rule>
void move_exactly(const Rule& rule, const UpdateArrays<Rule::kMoved, T>& arrays, double g,
                  double scaled, const optimizers::UpdateCall& call, int64_t i) {
  double values[Rule::kMoved];
  arrays.load(i, values);
  rule.exact(g, scaled, values, call);
  arrays.store(i, values);
}

/// Returns a kernel that updates a variable by the formula of a rule.
template <typename Rule>
Kernel exact_update(const Request& request) {
  const Rule rule(request.step.attributes);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rule, n = request.outputs[0].shape.elements(),
                     scale = GradientScale(request, rule.scale, Rule::kMoved)](
                        const Buffers& buffers, const CallState& state) {
      const UpdateArrays<Rule::kMoved, T> arrays(buffers);
      const optimizers::UpdateCall call = rule.seen(state);
      const double scaled = scale.template operator()<T>(buffers);
      if (std::isnan(scaled) || optimizers::is_idle<double>(rule, call)) return arrays.keep(n);
      for (int64_t i = 0; i < n; ++i) {
        const auto g = static_cast<double>(arrays.g[i]), w = static_cast<double>(arrays.from[0][i]);
        if (rule.l2 == 0)
          move_exactly(rule, arrays, g, scaled, call, i);
        else
          move_exactly(rule, arrays, scaled * g + rule.l2 * w, 1, call, i);
      }
    };
  });
  return kernel;
}

/// Returns a kernel that updates the rows of a sparse gradient, which is scaled first. The other
/// rows stay unchanged.
template <typename Rule>
Kernel exact_sparse_update(const Request& request) {
  const Rule rule(request.step.attributes);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rule, n = request.outputs[0].shape.elements(),
                     rows = SparseRows(request, Rule::kMoved),
                     scale = GradientScale(request, rule.scale, Rule::kMoved + 1)](
                        const Buffers& buffers, const CallState& state) {
      UpdateArrays<Rule::kMoved, T> arrays(buffers);
      arrays.keep(n);
      std::ranges::copy(arrays.to, arrays.from.begin());
      const double scaled = scale.template operator()<T>(buffers);
      if (std::isnan(scaled)) return;
      rows.visit(buffers, 0, rows.count, [&](int64_t i, int64_t j) {
        for (int64_t k = 0; k < rows.width; ++k)
          move_exactly(rule, arrays, scaled * static_cast<double>(arrays.g[i + k]), 1,
                       rule.seen(state), j + k);
      });
    };
  });
  return kernel;
}

/// Returns a kernel that updates a variable by a rule whose rate depends on the whole variable.
template <typename Rule>
Kernel exact_layerwise_update(const Request& request) {
  const Rule rule(request.step.attributes);
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [rule, n = request.outputs[0].shape.elements(),
                     scale = GradientScale(request, rule.scale, Rule::kMoved)](
                        const Buffers& buffers, const CallState& state) {
      const UpdateArrays<Rule::kMoved, T> arrays(buffers);
      const optimizers::UpdateCall call = rule.seen(state);
      const double scaled = scale.template operator()<T>(buffers);
      if (std::isnan(scaled)) return arrays.keep(n);
      optimizers::TwoSums sums;
      double values[Rule::kMoved];
      for (int64_t i = 0; i < n; ++i) {
        arrays.load(i, values);
        const auto [x, y] =
            rule.exact_terms(static_cast<double>(arrays.g[i]), scaled, values, call);
        sums += {x * x, y * y};
      }
      const double rate = rule.rate(sums, scaled, static_cast<double>(n), call);
      for (int64_t i = 0; i < n; ++i) {
        arrays.load(i, values);
        rule.exact(static_cast<double>(arrays.g[i]), scaled, values, rate, call);
        arrays.store(i, values);
      }
    };
  });
  return kernel;
}

}  // namespace flow::cpu::reference
