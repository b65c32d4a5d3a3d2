// Reference: what moves elements or makes them: cast, copy, fill, reshape, argmax, argmin.
#include <cmath>
#include <cstring>

#include "runtime/base/array.h"
#include "runtime/base/convert.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {

Kernel cast(const Request& request) {
  Kernel kernel;
  visit_dtype(request.inputs[0].dtype, [&]<typename From>(From) {
    visit_dtype(request.outputs[0].dtype, [&]<typename To>(To) {
      kernel.launch = [n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                const CallState&) {
        for (int64_t i = 0; i < n; ++i)
          output<To>(buffers, 0)[i] = convert<To>(input<From>(buffers, 0)[i]);
      };
    });
  });
  return kernel;
}

Kernel fill(const Request& request) {
  const double value = request.step.attributes.get<double>("value");
  Kernel kernel;
  visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [value, n = request.outputs[0].shape.elements()](const Buffers& buffers,
                                                                     const CallState&) {
      std::fill_n(output<T>(buffers, 0), n, convert<T>(value));
    };
  });
  return kernel;
}

Kernel reshape(const Request& request) {
  const TensorDesc& x = request.inputs[0];
  Kernel kernel;
  kernel.launch = [bytes = bytes_of(x.shape, x.dtype)](const Buffers& buffers, const CallState&) {
    std::memmove(buffers.outputs[0], buffers.inputs[0], bytes);
  };
  return kernel;
}

Kernel copy(const Request& request) { return reshape(request); }

namespace {

/// The first of the elements that no other `precedes`; a NaN comes before any number.
template <typename Precedes>
Kernel places(const Request& request, Precedes precedes) {
  const Shape& x = request.inputs[0].shape;
  const int axis = axis_of(request);
  const int64_t n = x[axis], inner = x.elements(axis + 1, x.rank());
  const int64_t count = request.outputs[0].shape.elements();
  Kernel kernel;
  visit_number(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [=](const Buffers& buffers, const CallState&) {
      for (int64_t i = 0; i < count; ++i) {
        const T* first = input<T>(buffers, 0) + i / inner * n * inner + i % inner;
        int64_t best = 0;
        for (int64_t k = 1; k < n && first[best * inner] == first[best * inner]; ++k) {
          const T next = first[k * inner];
          if (next != next || precedes(next, first[best * inner])) best = k;
        }
        output<int64_t>(buffers, 0)[i] = best;
      }
    };
  });
  return kernel;
}

}  // namespace

Kernel argmax(const Request& request) {
  return places(request, [](auto a, auto b) { return a > b; });
}

Kernel argmin(const Request& request) {
  return places(request, [](auto a, auto b) { return a < b; });
}

}  // namespace flow::cpu::reference
