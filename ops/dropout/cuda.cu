// dropout: y = x * mask / (1 - rate). The mask is a function of (seed, name, step, element) and
// identical on all devices: an element is kept if its Philox word is at least round(rate * 2^32).
#include "ops/random_draws/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

constexpr int kWords = ops::WordSource::kBlock;  // elements that a thread processes at a time

template <typename T>
struct alignas(kWords * sizeof(T) < 16 ? kWords * sizeof(T) : 16) Four {
  T values[kWords];
};

struct Drop {
  ops::WordSource source;
  uint64_t threshold;
};

/// Computes y = keep ? x * factor : 0 and, unless it is null, mask = keep. REQUIRES: each aligned
/// block of four elements is also an aligned block of the whole batch.
template <typename T>
__global__ void dropout_forward(const T* x, T* y, bool* mask, int64_t n, Drop drop, T factor,
                                const CallBlock* call) {
  for (int64_t block = first_index(); block * kWords < n; block += index_step()) {
    const int64_t first = block * kWords;
    const WholeIndex& place = drop.source.place;
    const PhiloxBlock words =
        drop.source.block(place.per_shard ? place.at(first, call->shard) : first, *call);
    const bool whole = first + kWords <= n;
    Four<T> four;
    Four<bool> kept;
    if (whole) four = reinterpret_cast<const Four<T>*>(x)[block];
    for (int k = 0; k < kWords; ++k) {
      kept.values[k] = words.words[k] >= drop.threshold;
      if (whole) {
        four.values[k] = kept.values[k] ? four.values[k] * factor : T{0};
      } else if (first + k < n) {
        y[first + k] = kept.values[k] ? x[first + k] * factor : T{0};
        if (mask) mask[first + k] = kept.values[k];
      }
    }
    if (!whole) continue;
    reinterpret_cast<Four<T>*>(y)[block] = four;
    if (mask) reinterpret_cast<Four<bool>*>(mask)[block] = kept;
  }
}

/// Computes dropout element by element, for shards whose rows do not start at a block of the whole
/// batch.
template <typename T>
__global__ void dropout_elements(const T* x, T* y, bool* mask, int64_t n, Drop drop, T factor,
                                 const CallBlock* call) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = drop.source.place.at(i, call->shard);
    const bool kept = drop.source.block(at, *call).word(at % kWords) >= drop.threshold;
    y[i] = kept ? x[i] * factor : T{0};
    if (mask) mask[i] = kept;
  }
}

/// Computes dx = mask ? dy * factor : 0.
template <typename T>
__global__ void dropout_backward(const T* dy, const bool* mask, T* dx, int64_t n, T factor) {
  const int64_t fours = n / kWords;
  for (int64_t i = first_index(); i < fours; i += index_step()) {
    Four<T> four = reinterpret_cast<const Four<T>*>(dy)[i];
    const Four<bool> kept = reinterpret_cast<const Four<bool>*>(mask)[i];
    for (int k = 0; k < kWords; ++k)
      four.values[k] = kept.values[k] ? four.values[k] * factor : T{0};
    reinterpret_cast<Four<T>*>(dx)[i] = four;
  }
  for (int64_t i = fours * kWords + first_index(); i < n; i += index_step())
    dx[i] = mask[i] ? dy[i] * factor : T{0};
}

LaunchShape shape_for_fours(int64_t n) { return shape_for(ceil_div(n, kWords)); }

template <typename T>
T factor_of(const Request& request) {
  return static_cast<T>(dropout_factor(attribute<double>(request, "rate")));
}

Kernel prepare_dropout(const Request& request) {
  const Drop drop{ops::word_source(request), dropout_threshold(attribute<double>(request, "rate"))};
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const bool fours = drop.source.keeps_blocks();
    return {[drop, fours, n = result_elements(request), factor = factor_of<T>(request)](
                const Buffers& buffers, const LaunchState& state) {
      launch(state, "dropout", fours ? shape_for_fours(n) : shape_for(n),
             fours ? dropout_forward<T> : dropout_elements<T>, input<T>(buffers, 0),
             output<T>(buffers, 0), output<bool>(buffers, 1), n, drop, factor, state.call);
    }};
  });
}

Kernel prepare_dropout_grad(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[n = result_elements(request), factor = factor_of<T>(request)](
                const Buffers& buffers, const LaunchState& state) {
      launch(state, "dropout_grad", shape_for_fours(n), dropout_backward<T>, input<T>(buffers, 0),
             input<bool>(buffers, 1), output<T>(buffers, 0), n, factor);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::dropout() {
  static constexpr KernelEntry kKernels[] = {
      {"dropout", prepare_dropout},
      {"dropout_grad", prepare_dropout_grad},
  };
  return kKernels;
}

}  // namespace flow::cuda
