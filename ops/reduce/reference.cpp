// Reference kernels of reductions over axes, and of their gradients.
#include <cmath>
#include <limits>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"

namespace flow::cpu::reference {
namespace {

/// Returns `shape` with reduced axes as extents of 1, which operand_index uses to find results.
Shape with_ones(Shape shape, const Request& request) {
  for (int64_t axis : request.step.attributes.get<std::vector<int64_t>>("axes"))
    shape[static_cast<int>(axis)] = 1;
  return shape;
}

/// Starts each result as `first` of type Sum, combines it with each element by join(sum, x), and
/// stores last(sum).
template <typename T, typename Sum, typename Join, typename Last>
Kernel reduce_elements(const Request& request, Sum first, Join join, Last last) {
  const Shape x = request.inputs[0].shape, results = with_ones(x, request);
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(results.elements()) * sizeof(Sum);
  kernel.launch = [=](const Buffers& buffers, const CallState&) {
    Sum* sums = reinterpret_cast<Sum*>(buffers.workspace);
    std::fill_n(sums, results.elements(), first);
    for (int64_t i = 0, n = x.elements(); i < n; ++i) {
      Sum& sum = sums[operand_index(x, i, results)];
      sum = join(sum, input<T>(buffers, 0)[i]);
    }
    for (int64_t i = 0, n = results.elements(); i < n; ++i)
      output<T>(buffers, 0)[i] = static_cast<T>(last(sums[i]));
  };
  return kernel;
}

/// Reduces floats in double, and integers in uint64, which wraps around.
template <typename Join>
Kernel reduce_numbers(const Request& request, int first, Join join) {
  const auto same = [](auto sum) { return sum; };
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    return reduce_elements<T, Sum>(
        request, static_cast<Sum>(first),
        [join](Sum sum, T x) { return join(sum, static_cast<Sum>(x)); }, same);
  });
}

/// Returns the first element that no other element `precedes`, or NaN if any element is NaN.
template <typename Precedes>
Kernel extreme(const Request& request, Precedes precedes) {
  return visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    using Best = std::pair<bool, T>;  // the bool is true if there is a best element
    return reduce_elements<T, Best>(
        request, Best{false, T{}},
        [precedes](Best best, T x) {
          const bool better = !best.first || x != x || precedes(x, best.second);
          return better && best.second == best.second ? Best{true, x} : best;
        },
        [](Best best) { return best.second; });
  });
}

/// Computes dx[i] = f(dy, x, y, carried) in order, after it has called look(carried, x) for all
/// elements. `carried` is the state of the element's result.
template <typename Carried, typename Look, typename F>
Kernel gradient(const Request& request, Look look, F f) {
  const Shape x = request.inputs[1].shape, results = with_ones(x, request);
  const bool has_y = request.inputs.size() > 2;
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(results.elements()) * sizeof(Carried);
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      Carried* carried = reinterpret_cast<Carried*>(buffers.workspace);
      std::fill_n(carried, results.elements(), Carried{});
      for (int64_t i = 0, n = x.elements(); i < n; ++i)
        look(carried[operand_index(x, i, results)], static_cast<double>(input<T>(buffers, 1)[i]));
      for (int64_t i = 0, n = x.elements(); i < n; ++i) {
        const int64_t at = operand_index(x, i, results);
        const double y = has_y ? static_cast<double>(input<T>(buffers, 2)[at]) : 0;
        output<T>(buffers, 0)[i] =
            static_cast<T>(f(static_cast<double>(input<T>(buffers, 0)[at]),
                             static_cast<double>(input<T>(buffers, 1)[i]), y, carried[at]));
      }
    };
  });
  return kernel;
}

Kernel prepare_reduce_sum(const Request& request) {
  return reduce_numbers(request, 0, [](auto sum, auto x) { return sum + x; });
}

Kernel prepare_reduce_mean(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const auto count = static_cast<double>(x.elements() / with_ones(x, request).elements());
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return reduce_elements<T, double>(
        request, 0.0, [](double sum, T v) { return sum + static_cast<double>(v); },
        [count](double sum) { return sum / count; });
  });
}

Kernel prepare_reduce_prod(const Request& request) {
  return reduce_numbers(request, 1, [](auto product, auto x) { return product * x; });
}

Kernel prepare_reduce_max(const Request& request) {
  return extreme(request, [](auto a, auto b) { return a > b; });
}

Kernel prepare_reduce_min(const Request& request) {
  return extreme(request, [](auto a, auto b) { return a < b; });
}

Kernel prepare_reduce_any(const Request& request) {
  return reduce_elements<bool, bool>(
      request, false, [](bool any, bool x) { return any || x; }, [](bool any) { return any; });
}

Kernel prepare_reduce_all(const Request& request) {
  return reduce_elements<bool, bool>(
      request, true, [](bool all, bool x) { return all && x; }, [](bool all) { return all; });
}

Kernel prepare_logsumexp(const Request& request) {
  struct Sum {
    double max, scaled;  // sum e^x = e^max * scaled
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    return reduce_elements<T, Sum>(
        request, Sum{-kInfinity, 0},
        [](Sum sum, T v) {
          const auto x = static_cast<double>(v);
          if (x == sum.max) return Sum{x, sum.scaled + 1};
          if (x <= sum.max) return Sum{sum.max, sum.scaled + std::exp(x - sum.max)};
          return Sum{x, sum.scaled * std::exp(sum.max - x) + 1};
        },
        [](Sum sum) { return sum.max + std::log(sum.scaled); });
  });
}

Kernel prepare_reduce_extreme_grad(const Request& request) {
  return gradient<bool>(
      request, [](bool&, double) {},
      [](double dy, double x, double y, bool& found) {
        const bool hit = !found && (x == y || std::isnan(x));
        found = found || hit;
        return hit ? dy : 0;
      });
}

Kernel prepare_reduce_prod_grad(const Request& request) {
  struct Factors {
    double product = 1;  // the product of the elements that are not 0
    int64_t zeros = 0;
  };
  return gradient<Factors>(
      request,
      [](Factors& factors, double x) {
        if (x == 0)
          ++factors.zeros;
        else
          factors.product *= x;
      },
      [](double dy, double x, double, const Factors& factors) {
        if (factors.zeros > (x == 0 ? 1 : 0)) return 0.0;
        return dy * (x == 0 ? factors.product : factors.product / x);
      });
}

}  // namespace

std::span<const KernelEntry> reduce() {
  static constexpr KernelEntry kKernels[] = {
      {"reduce_sum", prepare_reduce_sum},
      {"reduce_mean", prepare_reduce_mean},
      {"reduce_max", prepare_reduce_max},
      {"reduce_min", prepare_reduce_min},
      {"reduce_prod", prepare_reduce_prod},
      {"reduce_any", prepare_reduce_any},
      {"reduce_all", prepare_reduce_all},
      {"logsumexp", prepare_logsumexp},
      {"reduce_extreme_grad", prepare_reduce_extreme_grad},
      {"reduce_prod_grad", prepare_reduce_prod_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
