// Kernels of max_pool2d and avg_pool2d, which ignore their padding, and of their gradients. The
// forward pass of max_pool2d stores for each result the place kh*KW+kw of the maximum in its
// window, so the gradient does not need x. If several elements are largest, it stores the first one
// in row order; if the window contains a NaN, it stores the first NaN.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "ops/pool/problem.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

using WindowPlaces = WindowRange<int64_t>;

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr int64_t kPooled = 64;  // results that stay in registers or in the L1 cache

// These functions store a float, or a bfloat16 if `x` is exactly a bfloat16 value.
inline void store(float x, float& to) { to = x; }
inline void store(float x, uint16_t& to) { to = static_cast<uint16_t>(bits_as<uint32_t>(x) >> 16); }

/// Returns 1 / the number of elements of a window that lie inside the input.
float window_share(WindowPlaces rows, WindowPlaces columns) {
  return 1 / static_cast<float>((rows.end - rows.first) * (columns.end - columns.first));
}

// A block of adjacent results: those of one window in several channels, or those of neighboring
// windows. start() begins results [first, end), whose windows have the given places inside the
// input; add() adds an element; and finish() stores result c of the block as number `at` of the
// row.

/// Finds the largest elements of windows and their places. `places` may be null.
template <typename T, typename Place>
struct LargestOfWindow {
  struct Row {
    T* y;
    Place* places;
  } row;
  float best[kPooled];
  int32_t best_place[kPooled];

  void start(int64_t first, int64_t end, const PoolWindows& w, WindowPlaces kh, WindowPlaces kw) {
    const bool empty = kh.first >= kh.end || kw.first >= kw.end;
    const int64_t place = empty ? 0 : kh.first * w.columns.size + kw.first;
    std::fill(best + first, best + end, kNothing);
    std::fill(best_place + first, best_place + end, static_cast<int32_t>(place));
  }
  [[gnu::always_inline]] void add(int64_t c, float value, int32_t place) {
    const bool larger = !(value <= best[c]) & (best[c] == best[c]);
    best[c] = larger ? value : best[c];
    best_place[c] = larger ? place : best_place[c];
  }
  [[gnu::always_inline]] void finish(int64_t at, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) store(best[c], row.y[at + c]);
    if (!row.places) return;
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) row.places[at + c] = static_cast<Place>(best_place[c]);
  }
};

struct AverageOfWindow {
  struct Row {
    float* y;
  } row;
  float sums[kPooled], shares[kPooled];

  void start(int64_t first, int64_t end, const PoolWindows&, WindowPlaces kh, WindowPlaces kw) {
    std::fill(sums + first, sums + end, 0.0f);
    std::fill(shares + first, shares + end, window_share(kh, kw));
  }
  [[gnu::always_inline]] void add(int64_t c, float value, int32_t) { sums[c] += value; }
  [[gnu::always_inline]] void finish(int64_t at, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; ++c) row.y[at + c] = sums[c] * shares[c];
  }
};

/// Pools one row of windows. x is an input plane [H, W, C], and the results are rows [OW, C]. The
/// loops over channels are plain loops over a block, because GCC splits its vector types into
/// scalars before it inlines them into the clones for wider instruction sets.
template <typename Results, typename T>
[[gnu::always_inline]] inline void pool_row(const PoolWindows& w, int64_t channels, int64_t row,
                                            const T* x, const typename Results::Row& to) {
  Results results;
  results.row = to;
  const WindowPlaces kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const WindowPlaces kw = w.columns.inside(column);
    const T* window =
        x + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    for (int64_t c0 = 0; c0 < channels; c0 += kPooled) {
      const int64_t count = std::min(kPooled, channels - c0);
      results.start(0, count, w, kh, kw);
      for (int64_t i = kh.first; i < kh.end; ++i) {
        for (int64_t k = kw.first; k < kw.end; ++k) {
          const T* values = window + (i * w.columns.input + k) * channels + c0;
          const auto place = static_cast<int32_t>(i * w.columns.size + k);
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) results.add(c, wide(values[c]), place);
        }
      }
      results.finish(column * channels + c0, count);
    }
  }
}

/// Does the same for a plane [H, W] of one channel. Neighboring windows are computed together.
template <typename Results, typename T>
[[gnu::always_inline]] inline void pool_row_of_one(const PoolWindows& w, int64_t row, const T* x,
                                                   const typename Results::Row& to) {
  Results results;
  results.row = to;
  const WindowPlaces kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride;
  for (int64_t c0 = 0; c0 < w.columns.output; c0 += kPooled) {
    const int64_t count = std::min(kPooled, w.columns.output - c0);
    for (int64_t c = 0; c < count; ++c) results.start(c, c + 1, w, kh, w.columns.inside(c0 + c));
    for (int64_t i = kh.first; i < kh.end; ++i) {
      const T* line = x + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const WindowRange<int64_t> reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        const T* values = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c)
          results.add(c, wide(values[c * stride]), place);
      }
    }
    results.finish(c0, count);
  }
}

/// Returns x or 0 by means of a 32-bit mask, which every instruction set supports.
[[gnu::always_inline]] inline float where(bool holds, float x) {
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) & (uint32_t{0} - uint32_t{holds}));
}
[[gnu::always_inline]] inline uint16_t where(bool holds, uint16_t x) {
  return static_cast<uint16_t>(x & (uint32_t{0} - uint32_t{holds}));
}

/// A bfloat16 is only written, because its bits cannot be added.
template <bool kAssigns, typename T>
[[gnu::always_inline]] inline void put(T part, T& to) {
  if constexpr (kAssigns)
    to = part;
  else
    to += part;
}

// Gradients of a row of results, for at most kMost of them at a time. start() receives results
// [first, end), counted from number `at`; part() returns the share of the gradient of result at + c
// that belongs to the element at a place of the window. If kAssigns is set, the gradients of
// elements that are in only one window are assigned instead of added.

template <typename T, typename Place>
struct LargestOfWindowGradient {
  static constexpr bool kAssigns = true;
  static constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  struct Row {
    const T* dy;
    const Place* places;
  } row;

  void start(int64_t, int64_t, int64_t, WindowPlaces, WindowPlaces) {}
  [[gnu::always_inline]] T part(int64_t at, int64_t c, int32_t place) const {
    return where(static_cast<int32_t>(row.places[at + c]) == place, row.dy[at + c]);
  }
};

struct AverageOfWindowGradient {
  static constexpr bool kAssigns = false;
  static constexpr int64_t kMost = kPooled;
  struct Row {
    const float* dy;
  } row;
  float parts[kPooled];

  void start(int64_t at, int64_t first, int64_t end, WindowPlaces kh, WindowPlaces kw) {
    const float share = window_share(kh, kw);
    for (int64_t c = first; c < end; ++c) parts[c] = row.dy[at + c] * share;
  }
  [[gnu::always_inline]] float part(int64_t, int64_t c, int32_t) const { return parts[c]; }
};

/// Computes what one row of windows contributes to dx, a plane [H, W, C]. Gradients are assigned if
/// each element is in at most one window; otherwise they are added.
template <bool kAssigns, typename Gradient, typename T>
[[gnu::always_inline]] inline void spread_row(const PoolWindows& w, int64_t channels, int64_t row,
                                              const typename Gradient::Row& from, T* dx) {
  Gradient gradient;
  gradient.row = from;
  const WindowPlaces kh = w.rows.inside(row);
  for (int64_t column = 0; column < w.columns.output; ++column) {
    const WindowPlaces kw = w.columns.inside(column);
    T* window = dx + (w.rows.start(row) * w.columns.input + w.columns.start(column)) * channels;
    for (int64_t c0 = 0; c0 < channels; c0 += std::min(Gradient::kMost, channels)) {
      const int64_t count = std::min(Gradient::kMost, channels - c0), at = column * channels + c0;
      gradient.start(at, 0, count, kh, kw);
      for (int64_t i = kh.first; i < kh.end; ++i) {
        for (int64_t k = kw.first; k < kw.end; ++k) {
          const auto place = static_cast<int32_t>(i * w.columns.size + k);
          T* to = window + (i * w.columns.input + k) * channels + c0;
#pragma omp simd
          for (int64_t c = 0; c < count; ++c) put<kAssigns>(gradient.part(at, c, place), to[c]);
        }
      }
    }
  }
}

/// Does the same for a plane [H, W] of one channel.
template <bool kAssigns, typename Gradient, typename T>
[[gnu::always_inline]] inline void spread_row_of_one(const PoolWindows& w, int64_t row,
                                                     const typename Gradient::Row& from, T* dx) {
  Gradient gradient;
  gradient.row = from;
  const WindowPlaces kh = w.rows.inside(row);
  const int64_t stride = w.columns.stride, output = w.columns.output;
  for (int64_t c0 = 0; c0 < output; c0 += std::min(Gradient::kMost, output)) {
    const int64_t count = std::min(Gradient::kMost, output - c0);
    for (int64_t c = 0; c < count; ++c) gradient.start(c0, c, c + 1, kh, w.columns.inside(c0 + c));
    for (int64_t i = kh.first; i < kh.end; ++i) {
      T* line = dx + (w.rows.start(row) + i) * w.columns.input;
      for (int64_t k = 0; k < w.columns.size; ++k) {
        const WindowRange<int64_t> reach = w.columns.reach(k);
        const int64_t end = std::min(reach.end - c0, count);
        const auto place = static_cast<int32_t>(i * w.columns.size + k);
        T* to = line + w.columns.start(c0) + k;
#pragma omp simd
        for (int64_t c = std::max<int64_t>(reach.first - c0, 0); c < end; ++c)
          put<kAssigns>(gradient.part(c0, c, place), to[c * stride]);
      }
    }
  }
}

// Each kernel gets its own function, because not every compiler clones templates for several
// instruction sets.
#define FLOW_POOL_ROW(T, ...)                                                                    \
  FLOW_VECTORIZED void pool_one(const PoolWindows& w, int64_t channels, int64_t row, const T* x, \
                                const __VA_ARGS__::Row& to) {                                    \
    if (channels == 1)                                                                           \
      pool_row_of_one<__VA_ARGS__>(w, row, x, to);                                               \
    else                                                                                         \
      pool_row<__VA_ARGS__>(w, channels, row, x, to);                                            \
  }
FLOW_POOL_ROW(float, LargestOfWindow<float, uint8_t>)
FLOW_POOL_ROW(float, LargestOfWindow<float, int32_t>)
FLOW_POOL_ROW(uint16_t, LargestOfWindow<uint16_t, uint8_t>)
FLOW_POOL_ROW(uint16_t, LargestOfWindow<uint16_t, int32_t>)
FLOW_POOL_ROW(float, AverageOfWindow)
#undef FLOW_POOL_ROW

template <bool kAssigns, typename Gradient, typename T>
[[gnu::always_inline]] inline void spread_any_row(const PoolWindows& w, int64_t channels,
                                                  int64_t row, const typename Gradient::Row& from,
                                                  T* dx) {
  if (channels == 1)
    spread_row_of_one<kAssigns, Gradient>(w, row, from, dx);
  else
    spread_row<kAssigns, Gradient>(w, channels, row, from, dx);
}

#define FLOW_SPREAD_ROW(T, ...)                                                        \
  FLOW_VECTORIZED void spread_one(const PoolWindows& w, int64_t channels, int64_t row, \
                                  const __VA_ARGS__::Row& from, T* dx) {               \
    if (__VA_ARGS__::kAssigns && (std::is_same_v<T, uint16_t> || w.tiles()))           \
      spread_any_row<__VA_ARGS__::kAssigns, __VA_ARGS__>(w, channels, row, from, dx);  \
    else                                                                               \
      spread_any_row<false, __VA_ARGS__>(w, channels, row, from, dx);                  \
  }
FLOW_SPREAD_ROW(float, LargestOfWindowGradient<float, uint8_t>)
FLOW_SPREAD_ROW(float, LargestOfWindowGradient<float, int32_t>)
FLOW_SPREAD_ROW(uint16_t, LargestOfWindowGradient<uint16_t, uint8_t>)
FLOW_SPREAD_ROW(uint16_t, LargestOfWindowGradient<uint16_t, int32_t>)
FLOW_SPREAD_ROW(float, AverageOfWindowGradient)
#undef FLOW_SPREAD_ROW

Pooling pooling_of(const Request& request, const TensorDesc& x, const TensorDesc& y) {
  return {request.step.attributes, x.shape, y.shape, x.layout == Layout::kChannelsLast};
}

/// Computes y from x, one row of results at a time. row_at(buffers, i) returns the row that begins
/// with result i.
template <typename T, typename RowAt>
Kernel pool_with(const Request& request, RowAt row_at) {
  return {[=, threads = request.threads,
           p = pooling_of(request, request.inputs[0], request.outputs[0])](const Buffers& buffers,
                                                                           const CallState&) {
    const int64_t row_size = p.output_row(), rows = p.window.rows.output;
    for_pieces(threads, p.planes * rows, std::max<int64_t>(1, kPiece / 4 / row_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t i = first; i < end; ++i)
                   pool_one(p.window, p.channels, i % rows,
                            input<T>(buffers, 0) + i / rows * p.input_plane(),
                            row_at(buffers, i * row_size));
               });
  }};
}

/// Computes dx from dy in the same way.
template <typename Gradient, typename T, typename RowAt>
Kernel spread_with(const Request& request, RowAt row_at) {
  return {[=, threads = request.threads,
           p = pooling_of(request, request.outputs[0], request.inputs[0])](const Buffers& buffers,
                                                                           const CallState&) {
    const int64_t plane_size = p.input_plane(), rows = p.window.rows.output;
    for_pieces(threads, p.planes, std::max<int64_t>(1, kPiece / plane_size),
               [&](int64_t first, int64_t end) {
                 for (int64_t plane = first; plane < end; ++plane) {
                   T* to = output<T>(buffers, 0) + plane * plane_size;
                   if (!Gradient::kAssigns || !p.window.tiles()) std::fill_n(to, plane_size, T{0});
                   for (int64_t row = plane * rows; row < (plane + 1) * rows; ++row)
                     spread_one(p.window, p.channels, row % rows,
                                row_at(buffers, row * p.output_row()), to);
                 }
               });
  }};
}

template <typename F>
Kernel visit_place(DType dtype, F f) {
  return dtype == DType::kUInt8 ? f(uint8_t{}) : f(int32_t{});
}

template <typename T>
Kernel pool_largest(const Request& request) {
  return visit_place(request.outputs[1].dtype, [&]<typename Place>(Place) {
    return pool_with<T>(request, [](const Buffers& b, int64_t i) {
      Place* places = output<Place>(b, 1);
      return typename LargestOfWindow<T, Place>::Row{output<T>(b, 0) + i,
                                                     places ? places + i : nullptr};
    });
  });
}

template <typename T>
Kernel spread_to_largest(const Request& request) {
  return visit_place(request.inputs[1].dtype, [&]<typename Place>(Place) {
    using Gradient = LargestOfWindowGradient<T, Place>;
    return spread_with<Gradient, T>(request, [](const Buffers& b, int64_t i) {
      return typename Gradient::Row{input<T>(b, 0) + i, input<Place>(b, 1) + i};
    });
  });
}

Kernel prepare_max_pool2d(const Request& request) {
  const DType dtype = request.inputs[0].dtype;
  if (!is_low_precision(dtype)) return pool_largest<float>(request);
  return dtype == DType::kBFloat16 ? pool_largest<uint16_t>(request) : Kernel{};
}

Kernel prepare_max_pool2d_grad(const Request& request) {
  if (!is_low_precision(request.inputs[0].dtype)) return spread_to_largest<float>(request);
  const bool overlap = pooling_of(request, request.outputs[0], request.inputs[0]).window.overlap();
  return overlap ? Kernel{} : spread_to_largest<uint16_t>(request);
}

Kernel prepare_avg_pool2d(const Request& request) {
  return pool_with<float>(request, [](const Buffers& b, int64_t i) {
    return AverageOfWindow::Row{output<float>(b, 0) + i};
  });
}

Kernel prepare_avg_pool2d_grad(const Request& request) {
  return spread_with<AverageOfWindowGradient, float>(request, [](const Buffers& b, int64_t i) {
    return AverageOfWindowGradient::Row{input<float>(b, 0) + i};
  });
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
