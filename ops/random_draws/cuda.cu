// Kernels of random numbers, which are functions of (seed, entry, step, element). Devices share
// their arithmetic, so the numbers equal those of the CPU.
#include "ops/core/spec.h"
#include "ops/random_draws/cuda_count_pass.h"
#include "ops/random_draws/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

constexpr int kWordsOfBlock = ops::WordSource::kBlock;

/// y[i] = the number that word k of element i's block produces. Each block of words has a thread.
template <typename Draw, typename T>
__global__ void draw_blocks(Draw draw, ops::WordSource source, T* y, int64_t n,
                            const CallBlock* call) {
  for (int64_t block = first_index(); block * kWordsOfBlock < n; block += index_step()) {
    const int64_t first = block * kWordsOfBlock;
    const PhiloxBlock words = source.block(source.place.at(first, call->shard), *call);
    for_elements<kWordsOfBlock>([&](int k) {
      if (first + k < n) y[first + k] = convert<T>(draw.value(words, k, first + k));
    });
  }
}

/// Does the same for each element separately, because the rows of a shard need not begin with a
/// block.
template <typename Draw, typename T>
__global__ void draw_elements(Draw draw, ops::WordSource source, T* y, int64_t n,
                              const CallBlock* call) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = source.place.at(i, call->shard);
    const PhiloxBlock words = source.block(at, *call);
    y[i] = convert<T>(draw.value(words, static_cast<int>(at % kWordsOfBlock), i));
  }
}

/// A number that depends only on the words.
template <typename Draw>
struct OfWords {
  Draw draw;
  FLOW_INLINE double value(const PhiloxBlock& words, int k, int64_t /*i*/) const {
    return draw.value(words, k);
  }
};

/// A trial with the probability of each element.
template <typename P>
struct Trial {
  const P* p;
  FLOW_INLINE bool value(const PhiloxBlock& words, int k, int64_t i) const {
    return happens(p[i], words.word(k));
  }
};

template <typename T, typename Draw>
void launch_draw(const LaunchState& state, const char* name, const Draw& draw,
                 const ops::WordSource& source, T* y, int64_t n) {
  if (source.keeps_blocks())
    launch(state, name, shape_for(ceil_div<int64_t>(n, kWordsOfBlock)), draw_blocks<Draw, T>, draw,
           source, y, n, state.call);
  else
    launch(state, name, shape_for(n), draw_elements<Draw, T>, draw, source, y, n, state.call);
}

template <typename Draw>
Kernel prepare_draw(const Request& request, const Draw& draw) {
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=, name = request.step.op->name.data(), source = ops::word_source(request),
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      launch_draw(state, name, OfWords<Draw>{draw}, source, output<T>(buffers, 0), n);
    }};
  });
}

Kernel prepare_random_normal(const Request& request) {
  return prepare_draw(request, NormalDraw{attribute<double>(request, "mean"),
                                          attribute<double>(request, "stddev")});
}

Kernel prepare_random_uniform(const Request& request) {
  const auto minimum = attribute<double>(request, "minimum");
  return prepare_draw(request,
                      UniformDraw{minimum, attribute<double>(request, "maximum") - minimum});
}

Kernel prepare_gumbel(const Request& request) { return prepare_draw(request, GumbelDraw{}); }

Kernel prepare_bernoulli(const Request& request) {
  const auto trials = [&]<typename P, typename T>(P, T) -> Kernel {
    return {[source = ops::word_source(request), n = result_elements(request)](
                const Buffers& buffers, const LaunchState& state) {
      launch_draw(state, "bernoulli", Trial<P>{input<P>(buffers, 0)}, source, output<T>(buffers, 0),
                  n);
    }};
  };
  return visit_float(request.inputs[0].dtype, [&](auto p) {
    return visit_dtype(request.outputs[0].dtype, [&](auto y) { return trials(p, y); });
  });
}

/// Draws with one thread block for each row. `ends` is (rows, pieces).
template <typename T>
__global__ void draw_from_rows(const T* weights, ops::WeightRows sizes, ops::WordSource source,
                               double* ends, int64_t* indices, const CallBlock* call) {
  for (int64_t row = blockIdx.x; row < sizes.rows; row += gridDim.x) {
    const T* own = weights + row * sizes.classes;
    double* own_ends = ends + row * sizes.pieces;
    for (int64_t p = threadIdx.x; p < sizes.pieces; p += blockDim.x)
      own_ends[p] = sum_of_piece(own, sizes.classes, p);
    __syncthreads();
    if (threadIdx.x == 0) add_pieces(own_ends, sizes.pieces);
    __syncthreads();
    for (int64_t j = threadIdx.x; j < sizes.samples; j += blockDim.x) {
      const int64_t i = row * sizes.samples + j, at = source.place.at(i, call->shard);
      const PhiloxBlock words = source.block(at, *call);
      indices[i] = drawn_index(own, sizes.classes, own_ends, words.word(at % kWordsOfBlock));
    }
  }
}

Kernel prepare_draw_indices(const Request& request) {
  const ops::WeightRows sizes(request.inputs[0].shape, request.outputs[0].shape);
  const bool large = std::max(sizes.pieces, sizes.samples) > kWarp;
  const LaunchShape shape{{blocks_for(sizes.rows)}, {large ? kThreads : unsigned{kWarp}}};
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {
        [=, source = ops::word_source(request)](const Buffers& buffers, const LaunchState& state) {
          launch(state, "draw_indices", shape, draw_from_rows<T>, input<T>(buffers, 0), sizes,
                 source, reinterpret_cast<double*>(buffers.workspace), output<int64_t>(buffers, 0),
                 state.call);
        },
        sizes.workspace()};
  });
}

__global__ void add_pass(CallBlock* call) { ++call->pass; }

}  // namespace

void count_pass(CallBlock* call, const LaunchState& state) {
  launch(state, "count_pass", LaunchShape{{1}, {1}}, add_pass, call);
}

std::span<const KernelEntry> kernels::random_draws() {
  static constexpr KernelEntry kKernels[] = {
      {"random_normal", prepare_random_normal},
      {"random_uniform", prepare_random_uniform},
      {"gumbel", prepare_gumbel},
      {"bernoulli", prepare_bernoulli},
      {"draw_indices", prepare_draw_indices},
  };
  return kKernels;
}

}  // namespace flow::cuda
