// Reference: cumulative sums and products along an axis.
#include <type_traits>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Floats in double, integers in uint64, which wraps around. May be in place.
template <bool kProduct>
Kernel prepare_scan(const Request& request) {
  const Around x(request.inputs[0].shape, axis_of(request));
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const bool reverse = request.step.attributes.get<bool>("reverse");
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    using Value = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t column = 0; column < x.outer * x.inner; ++column) {
        const int64_t first = column / x.inner * x.extent * x.inner + column % x.inner;
        Value all = kProduct;
        for (int64_t k = 0; k < x.extent; ++k) {
          const int64_t at = first + (reverse ? x.extent - 1 - k : k) * x.inner;
          const Value before = all, value = static_cast<Value>(input<T>(buffers, 0)[at]);
          all = kProduct ? all * value : all + value;
          output<T>(buffers, 0)[at] = static_cast<T>(exclusive ? before : all);
        }
      }
    };
  });
  return kernel;
}

/// dx[j] = sum over i of dy[i] times the factors of y[i] other than x[j], each product by itself.
Kernel prepare_cumprod_grad(const Request& request) {
  const Around shape(request.inputs[0].shape, axis_of(request));
  const bool exclusive = request.step.attributes.get<bool>("exclusive");
  const bool reverse = request.step.attributes.get<bool>("reverse");
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      const int64_t n = shape.extent;
      for (int64_t column = 0; column < shape.outer * shape.inner; ++column) {
        const int64_t first = column / shape.inner * n * shape.inner + column % shape.inner;
        const auto at = [&](int64_t k) { return first + (reverse ? n - 1 - k : k) * shape.inner; };
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, product = 1;
          for (int64_t k = 0; k < j; ++k) product *= double_at<T>(buffers, 1, at(k));
          for (int64_t i = exclusive ? j + 1 : j; i < n; ++i) {
            const int64_t last = exclusive ? i - 1 : i;  // factor of y[i]
            if (last > j) product *= double_at<T>(buffers, 1, at(last));
            sum += double_at<T>(buffers, 0, at(i)) * product;
          }
          output<T>(buffers, 0)[at(j)] = static_cast<T>(sum);
        }
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> cumsum() {
  static constexpr KernelEntry kKernels[] = {{"cumsum", prepare_scan<false>},
                                             {"cumprod", prepare_scan<true>},
                                             {"cumprod_grad", prepare_cumprod_grad}};
  return kKernels;
}

}  // namespace flow::cpu::reference
