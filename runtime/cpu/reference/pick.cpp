// Reference: elements picked by indices or by rank: gather, one_hot, tril, triu, top_k, and their
// gradients.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/base/convert.h"
#include "runtime/cpu/kernels/labels.h"
#include "runtime/cpu/reference/around.h"

namespace flow::cpu::reference {
namespace {

Kernel triangle(const Request& request, bool lower) {
  const Shape& x = request.inputs[0].shape;
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1];
  const int64_t diagonal = request.step.attributes.get<int64_t>("diagonal");
  Kernel kernel;
  kernel.launch = [=, n = x.elements(), element = size_of(request.inputs[0].dtype)](
                      const Buffers& buffers, const CallState&) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t above = i % columns - i / columns % rows;
      const bool kept = lower ? above <= diagonal : above >= diagonal;
      const size_t at = static_cast<size_t>(i) * element;
      if (kept)
        std::memmove(buffers.outputs[0] + at, buffers.inputs[0] + at, element);
      else
        std::memset(buffers.outputs[0] + at, 0, element);
    }
  };
  return kernel;
}

}  // namespace

Kernel tril(const Request& request) { return triangle(request, true); }
Kernel triu(const Request& request) { return triangle(request, false); }

/// Zero where an index is out of range, which stops the run.
Kernel gather(const Request& request) {
  const Around params(request.inputs[0].shape, axis_of(request));
  const TensorDesc& indices = request.inputs[1];
  Kernel kernel;
  kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                   n = request.outputs[0].shape.elements(),
                   element = size_of(request.inputs[0].dtype),
                   check = LabelCheck(request, indices, params.extent)](const Buffers& buffers,
                                                                        const CallState& state) {
    check.run(buffers.inputs[1], state);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t o = i / (count * params.inner);
      const int64_t index = integer_at(dtype, buffers.inputs[1], i / params.inner % count);
      std::byte* to = buffers.outputs[0] + static_cast<size_t>(i) * element;
      const int64_t from = (o * params.extent + index) * params.inner + i % params.inner;
      if (index < 0 || index >= params.extent)
        std::memset(to, 0, element);
      else
        std::memcpy(to, buffers.inputs[0] + static_cast<size_t>(from) * element, element);
    }
  };
  return kernel;
}

Kernel gather_grad(const Request& request) {
  const Around dx(request.outputs[0].shape, axis_of(request));
  const TensorDesc& indices = request.inputs[0];
  Kernel kernel;
  visit_float(request.inputs[1].dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = indices.dtype, count = indices.shape.elements(),
                     n = request.inputs[1].shape.elements()](const Buffers& buffers,
                                                             const CallState&) {
      T* out = output<T>(buffers, 0);
      std::fill_n(out, dx.outer * dx.extent * dx.inner, T{0});
      for (int64_t i = 0; i < n; ++i) {
        const int64_t o = i / (count * dx.inner);
        const int64_t index = integer_at(dtype, buffers.inputs[0], i / dx.inner % count);
        if (index < 0 || index >= dx.extent) continue;
        out[(o * dx.extent + index) * dx.inner + i % dx.inner] += input<T>(buffers, 1)[i];
      }
    };
  });
  return kernel;
}

Kernel one_hot(const Request& request) {
  const plan::Attributes& attributes = request.step.attributes;
  const double on = attributes.get<double>("on_value"), off = attributes.get<double>("off_value");
  const int64_t depth = attributes.get<int64_t>("depth");
  const TensorDesc& indices = request.inputs[0];
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=, dtype = indices.dtype, n = request.outputs[0].shape.elements(),
                     check = LabelCheck(request, indices, depth)](const Buffers& buffers,
                                                                  const CallState& state) {
      check.run(buffers.inputs[0], state);
      for (int64_t i = 0; i < n; ++i) {
        const bool there = integer_at(dtype, buffers.inputs[0], i / depth) == i % depth;
        output<T>(buffers, 0)[i] = convert<T>(there ? on : off);
      }
    };
  });
  return kernel;
}

/// Sorted as a whole: larger first, a NaN before all numbers, equals in their order.
Kernel top_k(const Request& request) {
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

Kernel top_k_grad(const Request& request) {
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

}  // namespace flow::cpu::reference
