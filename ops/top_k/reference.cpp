// Reference: top_k and its gradient.
#include <algorithm>
#include <numeric>

#include "ops/core/reference_loops.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// Sorted as a whole: larger first, a NaN before all numbers, equals in their order.
Kernel prepare_top_k(const Request& request) {
  const Around x(request.inputs[0].shape, axis_of(request));
  const int64_t k = request.step.attributes.get<int64_t>("k");
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(x.extent) * sizeof(int64_t);
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t c = 0; c < x.outer * x.inner; ++c) {
        const int64_t o = c / x.inner, own = c % x.inner;
        const T* column = input<T>(buffers, 0) + o * x.extent * x.inner + own;
        auto* order = reinterpret_cast<int64_t*>(buffers.workspace);
        std::iota(order, order + x.extent, int64_t{0});
        std::sort(order, order + x.extent, [&](int64_t i, int64_t j) {
          const T a = column[i * x.inner], b = column[j * x.inner];
          if (a > b || (a != a && b == b)) return true;
          return !(b > a || (b != b && a == a)) && i < j;
        });
        for (int64_t j = 0; j < k; ++j) {
          const int64_t at = (o * k + j) * x.inner + own, place = order[j];
          output<T>(buffers, 0)[at] = column[place * x.inner];
          if (buffers.outputs[1]) output<int64_t>(buffers, 1)[at] = place;
        }
      }
    };
  });
  return kernel;
}

Kernel prepare_top_k_grad(const Request& request) {
  const Around dx(request.outputs[0].shape, axis_of(request));
  const Around dy(request.inputs[0].shape, axis_of(request));
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, n = request.inputs[0].shape.elements()](const Buffers& buffers,
                                                                const CallState&) {
      T* out = output<T>(buffers, 0);
      std::fill_n(out, dx.outer * dx.extent * dx.inner, T{0});
      for (int64_t i = 0; i < n; ++i) {
        const int64_t o = i / (dy.extent * dy.inner), place = input<int64_t>(buffers, 1)[i];
        out[(o * dx.extent + place) * dx.inner + i % dx.inner] = input<T>(buffers, 0)[i];
      }
    };
  });
  return kernel;
}

}  // namespace

std::span<const KernelEntry> top_k() {
  static constexpr KernelEntry kKernels[] = {
      {"top_k", prepare_top_k},
      {"top_k_grad", prepare_top_k_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
