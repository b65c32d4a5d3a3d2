// avg_pool2d, whose padding does not count, and its gradient.
#include "ops/pool/cpu_average.h"

#include <algorithm>

#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/window.h"

namespace flow::cpu::fast {
namespace {

constexpr int64_t kSumBlock = 64;  // sums that stay in registers or L1

/// 1 / the elements of a window that lie inside the input.
float share_of(Places rows, Places columns) {
  return 1 / static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
}

/// One row of windows: x is an input plane [H, W, C], y a row [OW, C].
FLOW_VECTORIZED void average_row(const Window& w, int64_t channels, int64_t row, const float* x,
                                 float* y) {
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column, y += channels) {
    const Places kw = w.columns.inside(column);
    const float share = share_of(kh, kw);
    const float* window =
        x + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    for (int64_t c0 = 0; c0 < channels; c0 += kSumBlock) {
      const int64_t count = std::min(kSumBlock, channels - c0);
      float sums[kSumBlock] = {};
      for (int64_t i = kh.first; i < kh.end; ++i) {
        for (int64_t k = kw.first; k < kw.end; ++k) {
          const float* values = window + (i * w.columns.input + k) * channels + c0;
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) sums[c] += values[c];
        }
      }
#pragma omp simd
      for (int64_t c = 0; c < count; ++c) y[c0 + c] = sums[c] * share;
    }
  }
}

/// The same of a plane [H, W] of one channel, side by side for neighboring windows.
FLOW_VECTORIZED void average_row_of_one(const Window& w, int64_t row, const float* x, float* y) {
  const Places kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t c0 = 0; c0 < w.columns.output; c0 += kSumBlock) {
    const int64_t count = std::min(kSumBlock, w.columns.output - c0);
    float sums[kSumBlock] = {};
    for (int64_t i = kh.first; i < kh.end; ++i) {
      const float* line = x + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const Reach reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        const float* values = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c)
          sums[c] += values[c * stride];
      }
    }
    for (int64_t c = 0; c < count; ++c)
      y[c0 + c] = sums[c] * share_of(kh, w.columns.inside(c0 + c));
  }
}

/// The gradient of one row of windows is added to dx, a plane [H, W, C].
FLOW_VECTORIZED void spread_row(const Window& w, int64_t channels, int64_t row, const float* dy,
                                float* dx) {
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column, dy += channels) {
    const Places kw = w.columns.inside(column);
    const float share = share_of(kh, kw);
    float* window = dx + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    for (int64_t i = kh.first; i < kh.end; ++i) {
      for (int64_t k = kw.first; k < kw.end; ++k) {
        float* to = window + (i * w.columns.input + k) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) to[c] += dy[c] * share;
      }
    }
  }
}

/// The same into a plane [H, W] of one channel.
FLOW_VECTORIZED void spread_row_of_one(const Window& w, int64_t row, const float* dy, float* dx) {
  const Places kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t c0 = 0; c0 < w.columns.output; c0 += kSumBlock) {
    const int64_t count = std::min(kSumBlock, w.columns.output - c0);
    float parts[kSumBlock];
    for (int64_t c = 0; c < count; ++c)
      parts[c] = dy[c0 + c] * share_of(kh, w.columns.inside(c0 + c));
    for (int64_t i = kh.first; i < kh.end; ++i) {
      float* line = dx + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const Reach reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        float* to = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c)
          to[c * stride] += parts[c];
      }
    }
  }
}

}  // namespace

Kernel prepare_avg_pool2d(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads,
                   p = Pooling(request, request.inputs[0], request.outputs[0])](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = p.output_row(), plane_size = p.input_plane();
    const int64_t rows = p.window.rows.output;
    for_pieces(threads, p.planes * rows, std::max<int64_t>(1, kPiece / 4 / row_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t i = first; i < end; ++i) {
                   const float* plane = input<float>(buffers, 0) + i / rows * plane_size;
                   float* to = output<float>(buffers, 0) + i * row_size;
                   if (p.channels == 1)
                     average_row_of_one(p.window, i % rows, plane, to);
                   else
                     average_row(p.window, p.channels, i % rows, plane, to);
                 }
               });
  };
  return kernel;
}

Kernel prepare_avg_pool2d_grad(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads,
                   p = Pooling(request, request.outputs[0], request.inputs[0])](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = p.output_row(), plane_size = p.input_plane();
    const int64_t rows = p.window.rows.output;
    for_pieces(threads, p.planes, std::max<int64_t>(1, kPiece / plane_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t plane = first; plane < end; ++plane) {
                   float* to = output<float>(buffers, 0) + plane * plane_size;
                   std::fill_n(to, plane_size, 0.0f);
                   for (int64_t row = 0; row < rows; ++row) {
                     const float* from = input<float>(buffers, 0) + (plane * rows + row) * row_size;
                     if (p.channels == 1)
                       spread_row_of_one(p.window, row, from, to);
                     else
                       spread_row(p.window, p.channels, row, from, to);
                   }
                 }
               });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
