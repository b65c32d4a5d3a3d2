// Reference kernels of convolution and its two gradients: y[n,o,i,j] = sum over c, k, l of
// w[o,c,k,l] * x[n, c, i*stride + k*dilation - pad, ...]. Sums are in double. The innermost loops
// run along rows of the image, whose elements are adjacent.
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// The results [first, end) along one axis.
struct Results {
  int64_t first, end;
};

/// One axis of the image.
struct ImageAxis {
  int64_t input, output, kernel, stride, before, dilation;

  /// Returns the input position that element k of the kernel reads for result i.
  int64_t input_of(int64_t i, int64_t k) const { return i * stride + k * dilation - before; }
  /// Returns the results for which this position is inside the input.
  Results inside(int64_t k) const {
    const int64_t offset = input_of(0, k);
    const int64_t first = offset >= 0 ? 0 : ceil_div(-offset, stride);
    const int64_t end = input <= offset ? 0 : (input - 1 - offset) / stride + 1;
    return {std::min(first, output), std::min(end, output)};
  }
};

/// A convolution of x (images, groups*channels, H, W) with a weight (groups*filters, channels, kh,
/// kw).
struct Convolution {
  Convolution(const Request& request, const Shape& x, const Shape& weight, const Shape& y)
      : images(x[0]),
        groups(request.step.attributes.get<int64_t>("groups")),
        channels(weight[1]),
        filters(weight[0] / groups),
        rows(axis(request, x, weight, y, 0)),
        columns(axis(request, x, weight, y, 1)) {}

  int64_t input_plane() const { return rows.input * columns.input; }
  int64_t output_plane() const { return rows.output * columns.output; }
  int64_t kernel_plane() const { return rows.kernel * columns.kernel; }
  /// The numbers of planes of x and of y for one image, over all groups.
  int64_t input_channels() const { return groups * channels; }
  int64_t output_channels() const { return groups * filters; }

  int64_t images, groups, channels, filters;
  ImageAxis rows, columns;

 private:
  static ImageAxis axis(const Request& request, const Shape& x, const Shape& weight, const Shape& y,
                        size_t i) {
    using Integers = std::vector<int64_t>;
    const plan::Attributes& attributes = request.step.attributes;
    const int logical = static_cast<int>(i) + 2;
    return {x[logical],
            y[logical],
            weight[logical],
            attributes.get<Integers>("strides")[i],
            attributes.get<Integers>("padding")[2 * i],
            attributes.get<Integers>("dilation")[i]};
  }
};

/// Calls f(i, first, end, k, l) for each row i of results and each kernel element (k, l) that reads
/// inside the image in that row; only columns [first, end) of the results do.
template <typename F>
void for_each_row(const Convolution& c, F f) {
  for (int64_t k = 0; k < c.rows.kernel; ++k) {
    for (int64_t l = 0; l < c.columns.kernel; ++l) {
      const Results i = c.rows.inside(k), j = c.columns.inside(l);
      for (int64_t row = i.first; row < i.end; ++row) f(row, j.first, j.end, k, l);
    }
  }
}

/// Adds the convolution of one channel x (H, W) with one kernel w (kh, kw) to sums (OH, OW).
template <typename T>
void add_convolved(const Convolution& c, const T* x, const T* w, double* sums) {
  for_each_row(c, [&](int64_t row, int64_t first, int64_t end, int64_t k, int64_t l) {
    const auto factor = static_cast<double>(w[k * c.columns.kernel + l]);
    const T* from = x + c.rows.input_of(row, k) * c.columns.input + c.columns.input_of(0, l);
    double* to = sums + row * c.columns.output;
    for (int64_t j = first; j < end; ++j)
      to[j] += factor * static_cast<double>(from[j * c.columns.stride]);
  });
}

/// Adds the data gradient of one channel of dy (OH, OW) through one kernel to sums (H, W).
template <typename T>
void add_spread(const Convolution& c, const T* dy, const T* w, double* sums) {
  for_each_row(c, [&](int64_t row, int64_t first, int64_t end, int64_t k, int64_t l) {
    const auto factor = static_cast<double>(w[k * c.columns.kernel + l]);
    double* to = sums + c.rows.input_of(row, k) * c.columns.input + c.columns.input_of(0, l);
    const T* from = dy + row * c.columns.output;
    for (int64_t j = first; j < end; ++j)
      to[j * c.columns.stride] += factor * static_cast<double>(from[j]);
  });
}

/// Adds the products dy * x to sums (kh, kw, OW), separately for each column of dy.
template <typename T>
void add_products(const Convolution& c, const T* x, const T* dy, double* sums) {
  for_each_row(c, [&](int64_t row, int64_t first, int64_t end, int64_t k, int64_t l) {
    double* to = sums + (k * c.columns.kernel + l) * c.columns.output;
    const T* a = dy + row * c.columns.output;
    const T* b = x + c.rows.input_of(row, k) * c.columns.input + c.columns.input_of(0, l);
    for (int64_t j = first; j < end; ++j)
      to[j] += static_cast<double>(a[j]) * static_cast<double>(b[j * c.columns.stride]);
  });
}

/// Returns a kernel that calls body(plane, sums) for each plane of the result, with `size` doubles
/// in `sums` that start at 0.
template <typename Body>
Kernel for_each_plane(const Request& request, int64_t planes, int64_t size, Body body) {
  Kernel kernel;
  kernel.workspace = static_cast<size_t>(request.threads * size) * sizeof(double);
  kernel.launch = [=, threads = request.threads](const Buffers& buffers, const CallState&) {
    parallel_for(threads, planes, [&](int64_t plane, int worker) {
      double* sums = reinterpret_cast<double*>(buffers.workspace) + worker * size;
      std::fill_n(sums, size, 0.0);
      body(buffers, plane, sums);
    });
  };
  return kernel;
}

Kernel prepare_convolution(const Request& request) {
  const Convolution c(request, request.inputs[0].shape, request.inputs[1].shape,
                      request.outputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    const auto plane_of = [c](const Buffers& buffers, int64_t plane, double* sums) {
      const int64_t image = plane / c.output_channels(), o = plane % c.output_channels();
      const T* x = input<T>(buffers, 0) +
                   (image * c.input_channels() + o / c.filters * c.channels) * c.input_plane();
      const T* w = input<T>(buffers, 1) + o * c.channels * c.kernel_plane();
      for (int64_t channel = 0; channel < c.channels; ++channel)
        add_convolved(c, x + channel * c.input_plane(), w + channel * c.kernel_plane(), sums);
      T* y = output<T>(buffers, 0) + plane * c.output_plane();
      for (int64_t i = 0; i < c.output_plane(); ++i) y[i] = static_cast<T>(sums[i]);
    };
    return for_each_plane(request, c.images * c.output_channels(), c.output_plane(), plane_of);
  });
}

Kernel prepare_convolution_grad_data(const Request& request) {
  const Convolution c(request, request.outputs[0].shape, request.inputs[1].shape,
                      request.inputs[0].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    const auto plane_of = [c](const Buffers& buffers, int64_t plane, double* sums) {
      const int64_t image = plane / c.input_channels(), in = plane % c.input_channels();
      const int64_t first = in / c.channels * c.filters, channel = in % c.channels;
      for (int64_t o = first; o < first + c.filters; ++o)
        add_spread(c, input<T>(buffers, 0) + (image * c.output_channels() + o) * c.output_plane(),
                   input<T>(buffers, 1) + (o * c.channels + channel) * c.kernel_plane(), sums);
      T* dx = output<T>(buffers, 0) + plane * c.input_plane();
      for (int64_t i = 0; i < c.input_plane(); ++i) dx[i] = static_cast<T>(sums[i]);
    };
    return for_each_plane(request, c.images * c.input_channels(), c.input_plane(), plane_of);
  });
}

Kernel prepare_convolution_grad_weight(const Request& request) {
  const Convolution c(request, request.inputs[0].shape, request.outputs[0].shape,
                      request.inputs[1].shape);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    const auto kernel_of = [c](const Buffers& buffers, int64_t plane, double* sums) {
      const int64_t o = plane / c.channels;
      const int64_t in = o / c.filters * c.channels + plane % c.channels;
      for (int64_t image = 0; image < c.images; ++image)
        add_products(c, input<T>(buffers, 0) + (image * c.input_channels() + in) * c.input_plane(),
                     input<T>(buffers, 1) + (image * c.output_channels() + o) * c.output_plane(),
                     sums);
      for (int64_t i = 0; i < c.kernel_plane(); ++i) {
        double sum = 0;
        for (int64_t j = 0; j < c.columns.output; ++j) sum += sums[i * c.columns.output + j];
        output<T>(buffers, 0)[plane * c.kernel_plane() + i] = static_cast<T>(sum);
      }
    };
    return for_each_plane(request, c.output_channels() * c.channels,
                          c.kernel_plane() * c.columns.output, kernel_of);
  });
}

}  // namespace

std::span<const KernelEntry> convolution() {
  static constexpr KernelEntry kKernels[] = {
      {"convolution", prepare_convolution},
      {"convolution_grad_data", prepare_convolution_grad_data},
      {"convolution_grad_weight", prepare_convolution_grad_weight},
  };
  return kKernels;
}

}  // namespace flow::cpu::reference
