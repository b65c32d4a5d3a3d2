// Kernels of resize and of its gradient: each row of the result is a weighted sum of rows of the
// operand, and then the columns are weighted sums of that row's elements. Both sum over taps in
// order, with tables that are computed once. For scales of 2, 4, ..., oneDNN enlarges planes in
// nearest and linear mode. In other cases it is slower than these loops or computes a different
// result (docs/benchmarks.md).
#include <dnnl.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/resize/taps.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/onednn_status.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kMixed = 64;  // sums that stay in registers or in the L1 cache

/// ops::Taps with float weights.
struct AxisTaps {
  explicit AxisTaps(ops::Taps taps)
      : count(taps.count),
        width(taps.width),
        indices(std::move(taps.indices)),
        weights(taps.weights.begin(), taps.weights.end()) {}

  /// Returns true if element i of the result is an unchanged element of the operand.
  bool copies(int64_t i) const {
    return weights[static_cast<size_t>(i)] == 1 &&
           (width == 1 || weights[static_cast<size_t>(count + i)] == 0);
  }

  int64_t count, width;
  std::vector<int32_t> indices;
  std::vector<float> weights;
};

/// y = weight * x for n floats. If the weight is 0, x is not read.
FLOW_VECTORIZED void scale_line(float weight, const float* x, int64_t n, float* y) {
  if (weight == 0) {
    std::fill_n(y, n, 0.0f);
    return;
  }
#pragma omp simd
  for (int64_t c = 0; c < n; ++c) y[c] = weight * x[c];
}

/// Computes elements [first, end) of an axis whose elements are `size` floats: y[i, :] = sum of
/// weight * x[index, :].
FLOW_VECTORIZED void mix_lines(const AxisTaps& axis, int64_t first, int64_t end, int64_t size,
                               const float* x, float* y) {
  const int32_t* indices = axis.indices.data();
  const float* weights = axis.weights.data();
  const int64_t step = axis.count, taps = axis.width * axis.count;
  for (int64_t i = first; i < end; ++i, y += size) {
    const float* one = x + indices[i] * size;
    int64_t k = i + step;
    if (k >= taps || weights[k] == 0) {
      scale_line(weights[i], one, size, y);
      continue;
    }
    const float* other = x + indices[k] * size;
    const float a = weights[i], b = weights[k];
#pragma omp simd
    for (int64_t c = 0; c < size; ++c) y[c] = a * one[c] + b * other[c];
    for (k += step; k < taps && weights[k] != 0; k += step) {
      const float* more = x + indices[k] * size;
      const float weight = weights[k];
#pragma omp simd
      for (int64_t c = 0; c < size; ++c) y[c] += weight * more[c];
    }
  }
}

/// Does the same for a whole axis whose elements are single floats. Neighbors are computed
/// together.
FLOW_VECTORIZED void mix_floats(const AxisTaps& axis, const float* x, float* y) {
  for (int64_t c0 = 0; c0 < axis.count; c0 += kMixed) {
    const int64_t count = std::min(kMixed, axis.count - c0);
    float sums[kMixed] = {};
    for (int64_t k = 0; k < axis.width; ++k) {
      const int32_t* indices = axis.indices.data() + k * axis.count + c0;
      const float* weights = axis.weights.data() + k * axis.count + c0;
#pragma omp simd
      for (int64_t c = 0; c < count; ++c)
        sums[c] += weights[c] != 0 ? weights[c] * x[indices[c]] : 0;
    }
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) y[c0 + c] = sums[c];
  }
}

/// Planes [rows, columns, channels] of x and y. A plane is a whole image if channels are innermost,
/// and otherwise one channel of an image.
struct Resizing {
  int64_t planes, channels;
  int64_t x_rows, x_columns;  // extents of the operand
  AxisTaps rows, columns;

  int64_t x_line() const { return x_columns * channels; }
  int64_t y_line() const { return columns.count * channels; }

  /// Computes line i of all planes. `scratch` has x_line() floats.
  void make_line(int64_t i, const float* x, float* y, float* scratch) const {
    const int64_t row = i % rows.count;
    const float* plane = x + i / rows.count * x_rows * x_line();
    const float* line = scratch;
    if (rows.copies(row))
      line = plane + rows.indices[static_cast<size_t>(row)] * x_line();
    else
      mix_lines(rows, row, row + 1, x_line(), plane, scratch);
    if (channels == 1)
      mix_floats(columns, line, y + i * y_line());
    else
      mix_lines(columns, 0, columns.count, channels, line, y + i * y_line());
  }
};

Kernel resize_kernel(const Request& request, const ops::ImageTaps& taps) {
  const TensorDesc& x = request.inputs[0];
  const bool innermost = x.layout == Layout::kChannelsLast;
  Resizing resizing{x.shape[0] * (innermost ? 1 : x.shape[1]),
                    innermost ? x.shape[1] : 1,
                    x.shape[2],
                    x.shape[3],
                    AxisTaps(taps.rows),
                    AxisTaps(taps.columns)};
  const int64_t scratch = round_up(resizing.x_line(), 16);
  const int64_t lines = resizing.planes * resizing.rows.count;
  const int64_t piece = std::max<int64_t>(1, kPiece / 2 / (resizing.x_line() + resizing.y_line()));
  const int64_t pieces = ceil_div(lines, piece);
  return {
      [=, threads = request.threads, resizing = std::move(resizing)](const Buffers& buffers,
                                                                     const CallState&) {
        parallel_for(threads, pieces, [&](int64_t index, int worker) {
          float* own = reinterpret_cast<float*>(buffers.workspace) + worker * scratch;
          for (int64_t i = index * piece; i < std::min(lines, (index + 1) * piece); ++i)
            resizing.make_line(i, input<float>(buffers, 0), output<float>(buffers, 0), own);
        });
      },
      static_cast<size_t>(std::min<int64_t>(request.threads, pieces) * scratch) * sizeof(float)};
}

/// Resizes planes [count, H, W] with oneDNN. Each thread takes some planes at a time.
class Resampling {
 public:
  Resampling(const Request& request, dnnl::algorithm mode)
      : stream_(engine_), threads_(request.threads) {
    const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
    constexpr int64_t kSome = 4 * kPiece;  // elements of the result in one call
    planes_ = x[0] * x[1];
    elements_ = {x.elements(2, 4), y.elements(2, 4)};
    some_ = std::clamp<int64_t>(kSome / elements_[1], 1, planes_);
    for (const int64_t count : {some_, planes_ % some_}) {
      if (count == 0) continue;
      const auto describe = [&](const Shape& shape) {
        return dnnl::memory::desc({count, 1, shape[2], shape[3]}, dnnl::memory::data_type::f32,
                                  dnnl::memory::format_tag::nchw);
      };
      add_pass(mode, describe(x), describe(y));
    }
  }

  const std::string& implementation() const { return implementation_; }
  size_t workspace() const { return static_cast<size_t>(workers()) * scratchpad_; }

  void launch(const Buffers& buffers) {
    float* x = reinterpret_cast<float*>(buffers.inputs[0]);
    float* y = output<float>(buffers, 0);
    parallel_for(threads_, pieces(), [&](int64_t piece, int worker) {
      const size_t which = piece + 1 == pieces() ? passes_.size() - 1 : 0;
      Arguments& arguments = passes_[which].of_worker[static_cast<size_t>(worker)];
      arguments.x.set_data_handle(x + piece * some_ * elements_[0]);
      arguments.y.set_data_handle(y + piece * some_ * elements_[1]);
      arguments.scratchpad.set_data_handle(buffers.workspace +
                                           static_cast<size_t>(worker) * scratchpad_);
      const dnnl_exec_arg_t list[] = {{DNNL_ARG_SRC, arguments.x.get()},
                                      {DNNL_ARG_DST, arguments.y.get()},
                                      {DNNL_ARG_SCRATCHPAD, arguments.scratchpad.get()}};
      must_succeed([&] {
        return dnnl_primitive_execute(passes_[which].primitive.get(), stream_.get(), 3, list);
      });
    });
  }

 private:
  struct Arguments {
    dnnl::memory x, y, scratchpad;
  };
  struct Pass {
    dnnl::primitive primitive;
    std::vector<Arguments> of_worker;
  };

  int64_t pieces() const { return ceil_div(planes_, some_); }
  int64_t workers() const { return std::min<int64_t>(threads_, pieces()); }

  void add_pass(dnnl::algorithm mode, const dnnl::memory::desc& x, const dnnl::memory::desc& y) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::resampling_forward::primitive_desc pass(
        {dnnl::prop_kind::forward_inference, mode, x, y}, attributes, engine_);
    implementation_ = pass.impl_info_str();
    scratchpad_ = std::max(scratchpad_, round_up(pass.scratchpad_desc().get_size(), 64));
    const auto make = [&](const dnnl::memory::desc& desc) {
      return dnnl::memory(desc, engine_, DNNL_MEMORY_NONE);
    };
    passes_.push_back({dnnl::resampling_forward(pass), {}});
    for (int64_t worker = 0; worker < workers(); ++worker)
      passes_.back().of_worker.push_back({make(x), make(y), make(pass.scratchpad_desc())});
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  int threads_;
  int64_t planes_, some_;              // the number of all planes, and of planes in one call
  std::array<int64_t, 2> elements_{};  // elements of a plane of x, and of a plane of y
  std::vector<Pass> passes_;           // one for `some_` planes, one for the last if fewer
  size_t scratchpad_ = 0;              // bytes for each worker
  std::string implementation_;
};

/// Returns the algorithm of oneDNN that gives the same result, or nothing. oneDNN aligns the edges
/// of images and computes places in float32, which is exact for scales of 2, 4, ..., because no
/// place is then halfway between two pixels.
std::optional<dnnl::algorithm> onednn_mode(const Request& request) {
  const ops::Attributes& attributes = request.step.attributes;
  const Shape &x = request.inputs[0].shape, &y = request.outputs[0].shape;
  const auto scale = attributes.get<double>("scale");
  const auto suits = [&](int axis) {
    const int64_t factor = y[axis] / x[axis];
    return factor > 1 && factor * x[axis] == y[axis] && (scale == 0 || scale == factor) &&
           std::has_single_bit(static_cast<uint64_t>(factor));
  };
  if (attributes.get<std::string>("coordinates") != "half_pixel" || !suits(2) || !suits(3))
    return {};
  const auto& mode = attributes.get<std::string>("mode");
  if (mode == "bilinear") return dnnl::algorithm::resampling_linear;
  const bool rounds = attributes.get<std::string>("rounding").starts_with("round");
  return mode == "nearest" && rounds ? std::optional(dnnl::algorithm::resampling_nearest)
                                     : std::nullopt;
}

/// Returns oneDNN's kernel, or nothing if the loops above are faster: if channels are innermost, or
/// if there are few planes, which those loops divide into rows.
std::optional<Kernel> prepare_resampling(const Request& request) {
  constexpr int64_t kFewest = 16;
  const TensorDesc& x = request.inputs[0];
  if (x.layout == Layout::kChannelsLast || x.shape.elements(0, 2) < kFewest) return {};
  const auto mode = onednn_mode(request);
  if (!mode) return {};
  try {
    Resampling resampling(request, *mode);
    if (!resampling.implementation().starts_with("jit")) return {};
    Kernel kernel;
    kernel.workspace = resampling.workspace();
    kernel.library = "oneDNN " + resampling.implementation();
    kernel.launch = [resampling = std::move(resampling)](const Buffers& buffers,
                                                         const CallState&) mutable {
      resampling.launch(buffers);
    };
    return kernel;
  } catch (const dnnl::error&) {
    return {};
  }
}

Kernel prepare_resize(const Request& request) {
  if (auto kernel = prepare_resampling(request)) return *std::move(kernel);
  return resize_kernel(request, {request.step.attributes, request.inputs[0].shape,
                                 request.outputs[0].shape, 2, false});
}

Kernel prepare_resize_grad(const Request& request) {
  return resize_kernel(request, {request.step.attributes, request.outputs[0].shape,
                                 request.inputs[0].shape, 2, true});
}

}  // namespace

std::span<const KernelEntry> resize() {
  static constexpr KernelEntry kKernels[] = {
      {"resize", prepare_resize, Layouts::kSame},
      {"resize_grad", prepare_resize_grad, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
