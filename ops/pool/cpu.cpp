// max_pool2d and its gradient. The forward pass keeps, for each result, the place kh*KW+kw in its
// window of the first maximum in row order (the first NaN, if there is one), so that the gradient
// needs no x.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/pool/cpu_average.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"
#include "runtime/cpu/loops/window.h"

namespace flow::cpu::fast {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Of a float, or of a bfloat16 that has one's value.
inline void store(float x, float& to) { to = x; }
inline void store(float x, uint16_t& to) { to = static_cast<uint16_t>(bits_as<uint32_t>(x) >> 16); }

/// One row of windows: x is an input plane [H, W, C], y and places are rows [OW, C]. The loops
/// over channels are plain ones on a block that stays in registers or L1: GCC splits its vector
/// types into scalars before it inlines into the clones for wider instruction sets.
template <typename T, typename Place>
[[gnu::always_inline]] inline void pool_row(const Window& w, int64_t channels, int64_t row,
                                            const T* x, T* y, Place* places) {
  constexpr int64_t kBlock = 64;
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const Places kw = w.columns.inside(column);
    const bool empty = kh.first >= kh.end || kw.first >= kw.end;
    const int64_t first = empty ? 0 : kh.first * w.columns.size + kw.first;
    const T* window =
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
          const T* values = window + (i * w.columns.input + k) * channels + c0;
          const auto place = static_cast<int32_t>(i * w.columns.size + k);
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) {
            const float value = wide(values[c]);
            const bool larger = !(value <= best[c]) & (best[c] == best[c]);
            best[c] = larger ? value : best[c];
            best_place[c] = larger ? place : best_place[c];
          }
        }
      }
      T* results = y + column * channels + c0;
#pragma omp simd
      for (int64_t c = 0; c < count; ++c) store(best[c], results[c]);
      if (!places) continue;
      Place* to = places + column * channels + c0;
#pragma omp simd
      for (int64_t c = 0; c < count; ++c) to[c] = static_cast<Place>(best_place[c]);
    }
  }
}

/// The same of a plane [H, W] of one channel, side by side for neighboring windows.
template <typename T, typename Place>
[[gnu::always_inline]] inline void pool_row_of_one(const Window& w, int64_t row, const T* x, T* y,
                                                   Place* places) {
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
      const T* line = x + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const Reach reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        const T* values = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c) {
          const float value = wide(values[c * stride]);
          const bool larger = !(value <= best[c]) & (best[c] == best[c]);
          best[c] = larger ? value : best[c];
          best_place[c] = larger ? place : best_place[c];
        }
      }
    }
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) store(best[c], y[c0 + c]);
    if (!places) continue;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) places[c0 + c] = static_cast<Place>(best_place[c]);
  }
}

template <typename T, typename Place>
[[gnu::always_inline]] inline void pool_any_row(const Window& w, int64_t channels, int64_t row,
                                                const T* x, T* y, Place* places) {
  if (channels == 1)
    pool_row_of_one(w, row, x, y, places);
  else
    pool_row(w, channels, row, x, y, places);
}

// A function for each, since not every compiler clones templates for what the CPU has.
#define FLOW_POOL_ROW(T, Place)                                                                   \
  FLOW_VECTORIZED void pool_one(const Window& w, int64_t channels, int64_t row, const T* x, T* y, \
                                Place* places) {                                                  \
    pool_any_row(w, channels, row, x, y, places);                                                 \
  }
FLOW_POOL_ROW(float, uint8_t)
FLOW_POOL_ROW(float, int32_t)
FLOW_POOL_ROW(uint16_t, uint8_t)
FLOW_POOL_ROW(uint16_t, int32_t)
#undef FLOW_POOL_ROW

/// x or 0, by a mask of 32 bits, for which every instruction set has what it takes.
[[gnu::always_inline]] inline float where(bool holds, float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & (uint32_t{0} - uint32_t{holds}));
}
[[gnu::always_inline]] inline uint16_t where(bool holds, uint16_t x) {
  return static_cast<uint16_t>(x & (uint32_t{0} - uint32_t{holds}));
}

/// bfloat16 is written alone: its bits cannot be added.
template <bool kAssigns, typename T>
[[gnu::always_inline]] inline void put(T part, T& to) {
  if constexpr (kAssigns)
    to = part;
  else
    to += part;
}

/// The gradient of one row of windows: dx is a plane [H, W, C]. Gradients are written where each
/// element is in one window at most; else they are added.
template <bool kAssigns, typename T, typename Place>
[[gnu::always_inline]] inline void spread_row(const Window& w, int64_t channels, int64_t row,
                                              const T* dy, const Place* places, T* dx) {
  const Places kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const Places kw = w.columns.inside(column);
    T* window = dx + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    const T* gradient = dy + column * channels;
    const Place* taken = places + column * channels;
    for (int64_t i = kh.first; i < kh.end; ++i) {
      for (int64_t k = kw.first; k < kw.end; ++k) {
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        T* to = window + (i * w.columns.input + k) * channels;
#pragma omp simd
        for (int64_t c = 0; c < channels; ++c) {
          const T part = where(static_cast<int32_t>(taken[c]) == place, gradient[c]);
          put<kAssigns>(part, to[c]);
        }
      }
    }
  }
}

/// The same into a plane [H, W] of one channel.
template <bool kAssigns, typename T, typename Place>
[[gnu::always_inline]] inline void spread_row_of_one(const Window& w, int64_t row, const T* dy,
                                                     const Place* places, T* dx) {
  const Places kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t i = kh.first; i < kh.end; ++i) {
    T* line = dx + (w.rows.start(row) + i) * w.columns.input;
    for (int64_t k = 0; k < w.columns.size; ++k) {
      const Reach reach = w.columns.reach(k);
      const auto place = static_cast<int32_t>(i * w.columns.size + k);
      T* to = line + w.columns.start(0) + k;
#pragma omp simd
      for (int64_t c = reach.first; c < reach.end; ++c) {
        const T part = where(static_cast<int32_t>(places[c]) == place, dy[c]);
        put<kAssigns>(part, to[c * stride]);
      }
    }
  }
}

template <bool kAssigns, typename T, typename Place>
[[gnu::always_inline]] inline void spread_any_row(const Window& w, int64_t channels, int64_t row,
                                                  const T* dy, const Place* places, T* dx) {
  if (channels == 1)
    spread_row_of_one<kAssigns>(w, row, dy, places, dx);
  else
    spread_row<kAssigns>(w, channels, row, dy, places, dx);
}

#define FLOW_SPREAD_ROW(T, Place)                                                              \
  FLOW_VECTORIZED void spread_one(const Window& w, int64_t channels, int64_t row, const T* dy, \
                                  const Place* places, T* dx) {                                \
    if (std::is_same_v<T, uint16_t> || w.tiles())                                              \
      spread_any_row<true>(w, channels, row, dy, places, dx);                                  \
    else                                                                                       \
      spread_any_row<false>(w, channels, row, dy, places, dx);                                 \
  }
FLOW_SPREAD_ROW(float, uint8_t)
FLOW_SPREAD_ROW(float, int32_t)
FLOW_SPREAD_ROW(uint16_t, uint8_t)
FLOW_SPREAD_ROW(uint16_t, int32_t)
#undef FLOW_SPREAD_ROW

template <typename T, typename Place>
Kernel pool(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads,
                   p = Pooling(request, request.inputs[0], request.outputs[0])](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = p.output_row(), plane_size = p.input_plane();
    const int64_t rows = p.window.rows.output;
    Place* places = output<Place>(buffers, 1);
    for_pieces(threads, p.planes * rows, std::max<int64_t>(1, kPiece / 4 / row_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t i = first; i < end; ++i)
                   pool_one(p.window, p.channels, i % rows,
                            input<T>(buffers, 0) + i / rows * plane_size,
                            output<T>(buffers, 0) + i * row_size,
                            places ? places + i * row_size : nullptr);
               });
  };
  return kernel;
}

template <typename T, typename Place>
Kernel spread(const Request& request) {
  Kernel kernel;
  kernel.launch = [threads = request.threads,
                   p = Pooling(request, request.outputs[0], request.inputs[0])](
                      const Buffers& buffers, const CallState&) {
    const int64_t row_size = p.output_row(), plane_size = p.input_plane();
    const int64_t rows = p.window.rows.output;
    for_pieces(threads, p.planes, std::max<int64_t>(1, kPiece / plane_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t plane = first; plane < end; ++plane) {
                   T* to = output<T>(buffers, 0) + plane * plane_size;
                   if (!p.window.tiles()) std::fill_n(to, plane_size, T{0});
                   for (int64_t row = plane * rows; row < (plane + 1) * rows; ++row)
                     spread_one(p.window, p.channels, row % rows,
                                input<T>(buffers, 0) + row * row_size,
                                input<Place>(buffers, 1) + row * row_size, to);
                 }
               });
  };
  return kernel;
}

template <typename T>
Kernel spread_of(const Request& request) {
  if (request.inputs[1].dtype == DType::kUInt8) return spread<T, uint8_t>(request);
  return spread<T, int32_t>(request);
}

template <typename T>
Kernel pool_of(const Request& request) {
  if (request.outputs[1].dtype == DType::kUInt8) return pool<T, uint8_t>(request);
  return pool<T, int32_t>(request);
}

Kernel prepare_max_pool2d(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_low_precision(dtype)) return pool_of<float>(request);
  return dtype == DType::kBFloat16 ? pool_of<uint16_t>(request) : Kernel{};
}

Kernel prepare_max_pool2d_grad(const Request& request) {
  if (!is_low_precision(request.inputs[0].dtype)) return spread_of<float>(request);
  const Window window(request.step.attributes, request.outputs[0].shape, request.inputs[0].shape);
  return window.overlap() ? Kernel{} : spread_of<uint16_t>(request);
}

}  // namespace

std::span<const KernelEntry> pool() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "max_pool2d",
       .prepare = prepare_max_pool2d,
       .layouts = Layouts::kSame,
       .low_precision = true},
      {.op = "max_pool2d_grad",
       .prepare = prepare_max_pool2d_grad,
       .layouts = Layouts::kSame,
       .low_precision = true},
      {"avg_pool2d", prepare_avg_pool2d, Layouts::kSame},
      {"avg_pool2d_grad", prepare_avg_pool2d_grad, Layouts::kSame},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
