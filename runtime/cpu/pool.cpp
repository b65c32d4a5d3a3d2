// max_pool2d and its gradient. Forward keeps, for each result, the place kh*KW+kw in its window of
// the first maximum in row order (the first NaN, if there is one), so that the gradient needs no x.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "runtime/cpu/features.h"
#include "runtime/cpu/operands.h"
#include "runtime/cpu/window.h"

namespace flow::cpu::fast {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

/// The gradient's and the forward kernel's loops go over planes: a whole image where channels are
/// innermost, one channel of an image where they are not.
struct Planes {
  int64_t count, channels;  // channels: of one plane, innermost
};

Planes planes_of(const TensorDesc& desc) {
  const int64_t images = desc.shape[0], channels = desc.shape[1];
  if (desc.layout == Layout::kChannelsLast) return {images, channels};
  return {images * channels, 1};
}

/// One row of windows: x is an input plane [H, W, C], y and places are rows [OW, C]. The loops
/// over channels are plain ones on a block that stays in registers or L1: GCC splits its vector
/// types into scalars before it inlines into the clones for wider instruction sets.
template <typename Place>
[[gnu::always_inline]] inline void pool_row(const Window& w, int64_t channels, int64_t row,
                                            const float* x, float* y, Place* places) {
  constexpr int64_t kBlock = 64;
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const Places kw = w.columns.inside(column);
    const bool empty = kh.first >= kh.end || kw.first >= kw.end;
    const int64_t first = empty ? 0 : kh.first * w.columns.size + kw.first;
    const float* window =
        x + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    for (int64_t c0 = 0; c0 < channels; c0 += kBlock) {
      const int64_t count = std::min(kBlock, channels - c0);
      float best[kBlock];
      int32_t best_place[kBlock];
      for (int64_t c = 0; c < count; ++c) {
        best[c] = kNothing;
        best_place[c] = static_cast<int32_t>(first);
      }
      for (int64_t i = kh.first; i < kh.end; ++i) {
        for (int64_t k = kw.first; k < kw.end; ++k) {
          const float* values = window + (i * w.columns.input + k) * channels + c0;
          const auto place = static_cast<int32_t>(i * w.columns.size + k);
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) {
            const bool larger = !(values[c] <= best[c]) & (best[c] == best[c]);
            best[c] = larger ? values[c] : best[c];
            best_place[c] = larger ? place : best_place[c];
          }
        }
      }
      std::copy_n(best, count, y + column * channels + c0);
      if (!places) continue;
      Place* to = places + column * channels + c0;
#pragma omp simd
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<Place>(best_place[c]);
    }
  }
}

/// The same of a plane [H, W] of one channel, side by side for neighbouring windows.
template <typename Place>
[[gnu::always_inline]] inline void pool_row_of_one(const Window& w, int64_t row, const float* x,
                                                   float* y, Place* places) {
  constexpr int64_t kBlock = 64;
  const Places kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t c0 = 0; c0 < w.columns.output; c0 += kBlock) {
    const int64_t count = std::min(kBlock, w.columns.output - c0);
    float best[kBlock];
    int32_t best_place[kBlock];
    for (int64_t c = 0; c < count; ++c) {
      const Places kw = w.columns.inside(c0 + c);
      const bool empty = kh.first >= kh.end || kw.first >= kw.end;
      best[c] = kNothing;
      best_place[c] = empty ? 0 : static_cast<int32_t>(kh.first * w.columns.size + kw.first);
    }
    for (int64_t i = kh.first; i < kh.end; ++i) {
      const float* line = x + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const Reach reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        const float* values = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c) {
          const float value = values[c * stride];
          const bool larger = !(value <= best[c]) & (best[c] == best[c]);
          best[c] = larger ? value : best[c];
          best_place[c] = larger ? place : best_place[c];
        }
      }
    }
    std::copy_n(best, count, y + c0);
    if (!places) continue;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) places[c0 + c] = static_cast<Place>(best_place[c]);
  }
}

FLOW_VECTORISED void pool_row_bytes(const Window& w, int64_t channels, int64_t row, const float* x,
                                    float* y, uint8_t* places) {
  if (channels == 1)
    pool_row_of_one(w, row, x, y, places);
  else
    pool_row(w, channels, row, x, y, places);
}

FLOW_VECTORISED void pool_row_ints(const Window& w, int64_t channels, int64_t row, const float* x,
                                   float* y, int32_t* places) {
  if (channels == 1)
    pool_row_of_one(w, row, x, y, places);
  else
    pool_row(w, channels, row, x, y, places);
}

/// The gradient of one row of windows: dx is a plane [H, W, C]. Where windows tile the plane each
/// element is written; else gradients are added to it.
template <bool kTiles, typename Place>
[[gnu::always_inline]] inline void spread_row(const Window& w, int64_t channels, int64_t row,
                                              const float* dy, const Place* places, float* dx) {
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const Places kw = w.columns.inside(column);
    float* window = dx + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    const float* gradient = dy + column * channels;
    const Place* taken = places + column * channels;
    for (int64_t i = kh.first; i < kh.end; ++i) {
      for (int64_t k = kw.first; k < kw.end; ++k) {
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        float* to = window + (i * w.columns.input + k) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          const float part = static_cast<int32_t>(taken[c]) == place ? gradient[c] : 0.0f;
          to[c] = kTiles ? part : to[c] + part;
        }
      }
    }
  }
}

/// The same into a plane [H, W] of one channel.
template <bool kTiles, typename Place>
[[gnu::always_inline]] inline void spread_row_of_one(const Window& w, int64_t row, const float* dy,
                                                     const Place* places, float* dx) {
  const Places kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t i = kh.first; i < kh.end; ++i) {
    float* line = dx + (w.rows.start(row) + i) * w.columns.input;
    for (int64_t k = 0; k < w.columns.size; ++k) {
      const Reach reach = w.columns.reach(k);
      const auto place = static_cast<int32_t>(i * w.columns.size + k);
      float* to = line + w.columns.start(0) + k;
#pragma omp simd
      for (int64_t c = reach.first; c < reach.end; ++c) {
        const uint32_t all = uint32_t{0} - static_cast<uint32_t>(places[c] == place);
        const auto part = std::bit_cast<float>(std::bit_cast<uint32_t>(dy[c]) & all);
        to[c * stride] = kTiles ? part : to[c * stride] + part;
      }
    }
  }
}

template <bool kTiles, typename Place>
[[gnu::always_inline]] inline void spread_any_row(const Window& w, int64_t channels, int64_t row,
                                                  const float* dy, const Place* places, float* dx) {
  if (channels == 1)
    spread_row_of_one<kTiles>(w, row, dy, places, dx);
  else
    spread_row<kTiles>(w, channels, row, dy, places, dx);
}

FLOW_VECTORISED void spread_row_bytes(const Window& w, int64_t channels, int64_t row,
                                      const float* dy, const uint8_t* places, float* dx) {
  if (w.tiles())
    spread_any_row<true>(w, channels, row, dy, places, dx);
  else
    spread_any_row<false>(w, channels, row, dy, places, dx);
}

FLOW_VECTORISED void spread_row_ints(const Window& w, int64_t channels, int64_t row,
                                     const float* dy, const int32_t* places, float* dx) {
  if (w.tiles())
    spread_any_row<true>(w, channels, row, dy, places, dx);
  else
    spread_any_row<false>(w, channels, row, dy, places, dx);
}

template <typename Place>
Kernel pool(const Request& request,
            void (*pool_one)(const Window&, int64_t, int64_t, const float*, float*, Place*)) {
  const TensorDesc &x = request.inputs[0], &y = request.outputs[0];
  Kernel kernel;
  kernel.launch = [pool_one, threads = request.threads, planes = planes_of(x),
                   window = Window(request.step.attributes, x.shape, y.shape)](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = window.columns.output * planes.channels;
    const int64_t plane_size = window.rows.input * window.columns.input * planes.channels;
    const int64_t rows = window.rows.output;
    Place* places = output<Place>(buffers, 1);
    for_pieces(threads, planes.count * rows, std::max<int64_t>(1, kPiece / 4 / row_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t i = first; i < end; ++i)
                   pool_one(window, planes.channels, i % rows,
                            input<float>(buffers, 0) + i / rows * plane_size,
                            output<float>(buffers, 0) + i * row_size,
                            places ? places + i * row_size : nullptr);
               });
  };
  return kernel;
}

template <typename Place>
Kernel spread(const Request& request, void (*spread_one)(const Window&, int64_t, int64_t,
                                                         const float*, const Place*, float*)) {
  const TensorDesc &dy = request.inputs[0], &dx = request.outputs[0];
  Kernel kernel;
  kernel.launch = [spread_one, threads = request.threads, planes = planes_of(dx),
                   window = Window(request.step.attributes, dx.shape, dy.shape)](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = window.columns.output * planes.channels;
    const int64_t plane_size = window.rows.input * window.columns.input * planes.channels;
    const int64_t rows = window.rows.output;
    for_pieces(threads, planes.count, std::max<int64_t>(1, kPiece / plane_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t plane = first; plane < end; ++plane) {
                   float* to = output<float>(buffers, 0) + plane * plane_size;
                   if (!window.tiles()) std::fill_n(to, plane_size, 0.0f);
                   for (int64_t row = plane * rows; row < (plane + 1) * rows; ++row)
                     spread_one(window, planes.channels, row % rows,
                                input<float>(buffers, 0) + row * row_size,
                                input<Place>(buffers, 1) + row * row_size, to);
                 }
               });
  };
  return kernel;
}

}  // namespace

Kernel max_pool2d(const Request& request) {
  if (request.outputs[1].dtype == DType::kUInt8) return pool<uint8_t>(request, pool_row_bytes);
  return pool<int32_t>(request, pool_row_ints);
}

Kernel max_pool2d_grad(const Request& request) {
  if (request.inputs[1].dtype == DType::kUInt8) return spread<uint8_t>(request, spread_row_bytes);
  return spread<int32_t>(request, spread_row_ints);
}

}  // namespace flow::cpu::fast
