// Convolutions in float64 as products with matrices of patches. For an image and a group of
// channels, column j of the matrix P (C kh kw, H' W') contains the elements of the image that
// result j reads:
//   forward: y (O, H' W') = W (O, C kh kw) P
//   data:    P = W^T dy, added back into dx
//   weight:  dW = dy P^T, over chunks of images that depend only on shapes, summed in order
// P is built and used for a few rows of results at a time, so that it stays in the cache.
#include "ops/convolution/cpu_pass.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/pool/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/double_products.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu {
namespace {

/// A convolution or one of its gradients. REQUIRES: a geometry without extents of 0.
class DoubleConvolution {
 public:
  DoubleConvolution(const ConvolutionGeometry& g, int threads)
      : groups_(g.groups),
        images_(g.x[0]),
        channels_(g.weight[1]),
        filters_(g.weight[0] / g.groups),
        rows_{g.x[2], g.y[2], g.weight[2], g.strides[0], g.padding[0]},
        columns_{g.x[3], g.y[3], g.weight[3], g.strides[1], g.padding[2]},
        dilation_(g.dilation),
        chunk_(chunk_images(g)),
        threads_(threads) {
    constexpr int64_t kPatches = 1 << 16;  // number of doubles that fit in the cache
    band_ = std::clamp<int64_t>(kPatches / (patch() * columns_.output), 1, rows_.output);
    bands_ = ceil_div(rows_.output, band_);
  }

  /// The size in bytes of the workspace: [the gradients of chunks][for each worker: patches, and
  /// scratch space for a product].
  size_t workspace(bool weight) const {
    const int64_t partials = weight ? chunks() * weights() : 0;
    return static_cast<size_t>(partials + threads_ * scratch()) * sizeof(double);
  }

  void forward(const double* x, const double* w, double* y, double* workspace) const {
    parallel_for(threads_, images_ * groups_ * bands_, [&](int64_t i, int worker) {
      const int64_t plane = i / bands_, group = plane % groups_;
      const Band band = band_at(i % bands_);
      double* own = workspace + worker * scratch();
      cut(x + plane * image(), band, own);
      multiply_doubles(filters_, band.size, patch(), {w + group * group_weights(), patch(), 1},
                       {own, band.size, 1}, y + plane * result() + band.offset, result_plane(),
                       false, own + patches());
    });
  }

  void data_gradient(const double* dy, const double* w, double* dx, double* workspace) const {
    parallel_for(threads_, images_ * groups_, [&](int64_t plane, int worker) {
      double* own = workspace + worker * scratch();
      std::fill_n(dx + plane * image(), image(), 0.0);
      for (int64_t i = 0; i < bands_; ++i) {
        const Band band = band_at(i);
        multiply_doubles(patch(), band.size, filters_,
                         {w + plane % groups_ * group_weights(), 1, patch()},
                         {dy + plane * result() + band.offset, result_plane(), 1}, own, band.size,
                         false, own + patches());
        spread(own, band, dx + plane * image());
      }
    });
  }

  void weight_gradient(const double* x, const double* dy, double* dw, double* workspace) const {
    double* scratches = workspace + chunks() * weights();
    parallel_for(threads_, chunks() * groups_, [&](int64_t i, int worker) {
      const int64_t chunk = i / groups_, group = i % groups_;
      double* own = scratches + worker * scratch();
      double* sum = workspace + chunk * weights() + group * group_weights();
      const int64_t first = chunk * chunk_, end = std::min(images_, first + chunk_);
      for (int64_t n = first * bands_; n < end * bands_; ++n) {
        const int64_t plane = n / bands_ * groups_ + group;
        const Band band = band_at(n % bands_);
        cut(x + plane * image(), band, own);
        multiply_doubles(filters_, patch(), band.size,
                         {dy + plane * result() + band.offset, result_plane(), 1},
                         {own, 1, band.size}, sum, patch(), n > first * bands_, own + patches());
      }
    });
    for_pieces(threads_, weights(), kPiece, [&](int64_t first, int64_t end) {
      std::copy(workspace + first, workspace + end, dw + first);
      for (int64_t chunk = 1; chunk < chunks(); ++chunk)
        add_to(workspace + chunk * weights() + first, dw + first, end - first);
    });
  }

 private:
  /// Rows [first, end) of results, their offset in a plane, and their number of elements.
  struct Band {
    int64_t first, end;
    int64_t offset, size;
  };

  Band band_at(int64_t i) const {
    const int64_t first = i * band_, end = std::min(rows_.output, first + band_);
    return {first, end, first * columns_.output, (end - first) * columns_.output};
  }

  int64_t chunks() const { return ceil_div(images_, chunk_); }
  int64_t weights() const { return groups_ * group_weights(); }
  // Sizes for one group.
  int64_t patch() const { return channels_ * rows_.size * columns_.size; }
  int64_t group_weights() const { return filters_ * patch(); }
  int64_t image() const { return channels_ * rows_.input * columns_.input; }
  int64_t result_plane() const { return rows_.output * columns_.output; }
  int64_t result() const { return filters_ * result_plane(); }
  // Sizes for one worker.
  int64_t patches() const { return patch() * band_ * columns_.output; }
  int64_t scratch() const { return patches() + kDoubleProductScratch; }

  /// Calls f(index into P, index into x, first, end) for each row of results in the band and each
  /// element of the kernel. The indices are those of result 0 of the row; only results [first, end)
  /// read inside the image.
  template <typename F>
  void for_each_run(const Band& band, F f) const {
    for (int64_t c = 0, at = 0; c < channels_; ++c)
      for (int64_t k = 0; k < rows_.size; ++k)
        for (int64_t l = 0; l < columns_.size; ++l, ++at) {
          const WindowRange<int64_t> in = rows_.reach(k * dilation_[0]),
                                     columns = columns_.reach(l * dilation_[1]);
          const int64_t column = columns_.start(0) + l * dilation_[1];
          for (int64_t i = band.first; i < band.end; ++i) {
            const bool inside = i >= in.first && i < in.end;
            const int64_t row = c * rows_.input + rows_.start(i) + k * dilation_[0];
            f(at * band.size + (i - band.first) * columns_.output, row * columns_.input + column,
              columns.first, inside ? columns.end : columns.first);
          }
        }
  }

  /// Builds the columns of P for the band.
  void cut(const double* x, const Band& band, double* patches) const {
    for_each_run(band, [&](int64_t to, int64_t from, int64_t first, int64_t end) {
      double* row = patches + to;
      std::fill_n(row, first, 0.0);
      if (columns_.stride == 1)
        std::copy_n(x + from + first, end - first, row + first);
      else
        for (int64_t j = first; j < end; ++j) row[j] = x[from + j * columns_.stride];
      std::fill_n(row + end, columns_.output - end, 0.0);
    });
  }

  /// Adds the elements of P back into dx.
  void spread(const double* patches, const Band& band, double* dx) const {
    for_each_run(band, [&](int64_t from, int64_t to, int64_t first, int64_t end) {
      const double* row = patches + from;
      if (columns_.stride == 1)
        add_to(row + first, dx + to + first, end - first);
      else
        for (int64_t j = first; j < end; ++j) dx[to + j * columns_.stride] += row[j];
    });
  }

  int64_t groups_, images_;
  int64_t channels_, filters_;          // per group
  WindowAxis<int64_t> rows_, columns_;  // `size` excludes dilation
  std::array<int64_t, 2> dilation_;
  int64_t chunk_;             // images per chunk
  int64_t band_, bands_ = 0;  // rows of results per band; bands per plane
  int threads_;
};

}  // namespace

Kernel double_convolution(const Request& request) {
  const ConvolutionGeometry geometry = convolution_geometry(request);
  // Groups with only a few filters are too small for products to be efficient.
  constexpr int64_t kFilters = 4;
  if (geometry.x.elements() == 0 || geometry.y.elements() == 0 || geometry.weight.elements() == 0 ||
      (geometry.groups > 1 && geometry.weight[0] / geometry.groups < kFilters))
    return find_kernel(reference::convolution(), request.step.op.name())->prepare(request);
  DoubleConvolution convolution(geometry, request.threads);
  Kernel kernel;
  kernel.workspace = convolution.workspace(geometry.direction == Direction::kGradWeight);
  kernel.launch = [convolution, direction = geometry.direction](const Buffers& b,
                                                                const CallState&) {
    const double *first = input<double>(b, 0), *second = input<double>(b, 1);
    auto* workspace = reinterpret_cast<double*>(b.workspace);
    switch (direction) {
      case Direction::kForward:
        return convolution.forward(first, second, output<double>(b, 0), workspace);
      case Direction::kGradData:
        return convolution.data_gradient(first, second, output<double>(b, 0), workspace);
      case Direction::kGradWeight:
        return convolution.weight_gradient(first, second, output<double>(b, 0), workspace);
    }
  };
  return kernel;
}

}  // namespace flow::cpu
