// Random numbers: functions of (seed, entry, step, element), in arithmetic that devices share, so
// that they are the CPU's.
#include "ops/random_draws/cuda_count_pass.h"
#include "runtime/base/element_types.h"
#include "runtime/base/index_maps.h"
#include "runtime/base/random_values.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"

namespace flow::cuda {
namespace {

constexpr int kWordsOfBlock = 4;

struct WordSource {
  PhiloxKey key;
  WholeIndex place;

  __device__ PhiloxBlock block(int64_t drawn, const CallBlock* call) const {
    return philox_block(key, static_cast<uint32_t>(call->step), static_cast<uint64_t>(drawn),
                        static_cast<uint32_t>(call->pass));
  }
  /// Are four elements that lie together here one block of the whole batch?
  bool keeps_blocks() const { return place.per_shard == 0 || place.run % kWordsOfBlock == 0; }
};

/// Of the first result, drawn under the name in the attribute `consumer`.
WordSource source_of(const Request& request) {
  const TensorDesc& out = request.outputs[0];
  return {philox_key(request.seed, attribute<std::string>(request, "consumer")),
          whole_index(out.shape, out.batch_axis, request.shards)};
}

/// y[i] = number k of what the words of its block make. A thread for each block.
template <typename Draw, typename T>
__global__ void draw_blocks(Draw draw, WordSource source, T* y, int64_t n, const CallBlock* call) {
  for (int64_t block = first_index(); block * kWordsOfBlock < n; block += index_step()) {
    const int64_t first = block * kWordsOfBlock;
    const PhiloxBlock words =
        source.block(source.place.at(first, call->shard) / kWordsOfBlock, call);
    for_elements<kWordsOfBlock>([&](int k) {
      if (first + k < n) y[first + k] = convert<T>(draw.value(words, k, first + k));
    });
  }
}

/// The same, one by one: the rows of a shard need not begin with a block.
template <typename Draw, typename T>
__global__ void draw_elements(Draw draw, WordSource source, T* y, int64_t n,
                              const CallBlock* call) {
  for (int64_t i = first_index(); i < n; i += index_step()) {
    const int64_t at = source.place.at(i, call->shard);
    const PhiloxBlock words = source.block(at / kWordsOfBlock, call);
    y[i] = convert<T>(draw.value(words, static_cast<int>(at % kWordsOfBlock), i));
  }
}

/// A number that depends on the words alone.
template <typename Draw>
struct OfWords {
  Draw draw;
  FLOW_INLINE double value(const PhiloxBlock& words, int k, int64_t /*i*/) const {
    return draw.value(words, k);
  }
};

/// A trial of each element's probability.
template <typename P>
struct Trial {
  const P* p;
  FLOW_INLINE bool value(const PhiloxBlock& words, int k, int64_t i) const {
    return happens(p[i], words.word(k));
  }
};

template <typename T, typename Draw>
void launch_draw(const LaunchState& state, const char* name, const Draw& draw,
                 const WordSource& source, T* y, int64_t n) {
  if (source.keeps_blocks())
    launch(state.driver, state.stream, name, shape_for(ceil_div<int64_t>(n, kWordsOfBlock)),
           draw_blocks<Draw, T>, draw, source, y, n, state.call);
  else
    launch(state.driver, state.stream, name, shape_for(n), draw_elements<Draw, T>, draw, source, y,
           n, state.call);
}

template <typename Draw>
Kernel prepare_draw(const Request& request, const char* name, const Draw& draw) {
  return visit_float(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=, source = source_of(request), n = result_elements(request)](
                const Buffers& buffers, const LaunchState& state) {
      launch_draw(state, name, OfWords<Draw>{draw}, source, output<T>(buffers, 0), n);
    }};
  });
}

Kernel prepare_random_normal(const Request& request) {
  return prepare_draw(
      request, "random_normal",
      NormalDraw{attribute<double>(request, "mean"), attribute<double>(request, "stddev")});
}

Kernel prepare_random_uniform(const Request& request) {
  const auto minimum = attribute<double>(request, "minimum");
  return prepare_draw(request, "random_uniform",
                      UniformDraw{minimum, attribute<double>(request, "maximum") - minimum});
}

Kernel prepare_gumbel(const Request& request) {
  return prepare_draw(request, "gumbel", GumbelDraw{});
}

template <typename P>
Kernel bernoulli_of(const Request& request) {
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[source = source_of(request), n = result_elements(request)](const Buffers& buffers,
                                                                        const LaunchState& state) {
      launch_draw(state, "bernoulli", Trial<P>{input<P>(buffers, 0)}, source, output<T>(buffers, 0),
                  n);
    }};
  });
}

Kernel prepare_bernoulli(const Request& request) {
  return visit_float(request.inputs[0].dtype,
                     [&]<typename P>(P) -> Kernel { return bernoulli_of<P>(request); });
}

/// Weights (rows, classes), of so many pieces a row; indices (rows, samples).
struct WeightRows {
  int64_t rows, classes, pieces, samples;
};

/// A block for each row. ends (rows, pieces).
template <typename T>
__global__ void draw_from_rows(const T* weights, WeightRows sizes, WordSource source, double* ends,
                               int64_t* indices, const CallBlock* call) {
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
      const PhiloxBlock words = source.block(at / kWordsOfBlock, call);
      indices[i] = drawn_index(own, sizes.classes, own_ends, words.word(at % kWordsOfBlock));
    }
  }
}

Kernel prepare_draw_indices(const Request& request) {
  const Shape& x = request.inputs[0].shape;
  const int64_t classes = x[x.rank() - 1], rows = x.elements() / classes;
  const WeightRows sizes{rows, classes, ceil_div(classes, kWeightsOfPiece),
                         result_elements(request) / rows};
  const bool large = std::max(sizes.pieces, sizes.samples) > kWarp;
  const LaunchShape shape{{blocks_for(rows)}, {large ? kThreads : unsigned{kWarp}}};
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    Kernel kernel{
        [=, source = source_of(request)](const Buffers& buffers, const LaunchState& state) {
          launch(state.driver, state.stream, "draw_indices", shape, draw_from_rows<T>,
                 input<T>(buffers, 0), sizes, source, reinterpret_cast<double*>(buffers.workspace),
                 output<int64_t>(buffers, 0), state.call);
        }};
    kernel.workspace = static_cast<size_t>(rows * sizes.pieces) * sizeof(double);
    return kernel;
  });
}

__global__ void add_pass(CallBlock* call) { ++call->pass; }

}  // namespace

void count_pass(CallBlock* call, const LaunchState& state) {
  launch(state.driver, state.stream, "count_pass", LaunchShape{{1}, {1}}, add_pass, call);
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
