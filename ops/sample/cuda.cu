// The kernel of sample, with a block for each row. It finds the bound of the likeliest tokens bit
// by bit, with sums over all logits. These are sums of integers, so they equal those of the CPU.
#include "ops/sample/problem.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"

namespace flow::cuda {
namespace {

/// A bound on the tokens that are kept: those of a higher order, and those of the same order whose
/// place is before `end`.
template <typename T>
struct Bound {
  OrderOf<T> order;
  int64_t end;

  __device__ bool keeps(OrderOf<T> other, int64_t place) const {
    return other > order || (other == order && place < end);
  }
};

/// The logits of a row, which is shared by the threads of a block.
template <typename T>
struct Row {
  const T* logits;
  int64_t tokens;

  /// Returns the sum of f(order, place) over all tokens.
  template <typename F>
  __device__ uint64_t sum(F f) const {
    uint64_t own = 0;
    for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x) own += f(order_of(logits[i]), i);
    return over_block(own, Sum());
  }

  __device__ OrderOf<T> largest() const {
    OrderOf<T> own = 0;
    for (int64_t i = threadIdx.x; i < tokens; i += blockDim.x)
      if (const OrderOf<T> order = order_of(logits[i]); order > own) own = order;
    return over_block(own, Larger());
  }

  /// Returns the place of the first token at which the running sum of f(order, place), in the order
  /// of places, exceeds `sum`. REQUIRES: there is such a token. Each thread sums a contiguous range
  /// of tokens.
  template <typename F>
  __device__ int64_t place_of(uint64_t sum, F f) const {
    uint64_t* sums = shared<uint64_t>();
    int64_t* found = reinterpret_cast<int64_t*>(sums + blockDim.x);
    const int64_t length = (tokens + blockDim.x - 1) / blockDim.x;
    const int64_t first = threadIdx.x * length;
    const int64_t end = first + length < tokens ? first + length : tokens;
    uint64_t own = 0;
    for (int64_t i = first; i < end; ++i) own += f(order_of(logits[i]), i);
    __syncthreads();  // other threads may still read shared memory
    sums[threadIdx.x] = own;
    __syncthreads();
    uint64_t before = 0;
    for (unsigned thread = 0; thread < threadIdx.x; ++thread) before += sums[thread];
    if (before <= sum && sum < before + own) {
      int64_t i = first;
      for (uint64_t at = before;; ++i)
        if ((at += f(order_of(logits[i]), i)) > sum) break;
      *found = i;
    }
    __syncthreads();
    return *found;
  }
};

/// Returns the bound that keeps the fewest of the likeliest tokens within `bound` such that the sum
/// of f(order) over them is at least `least`. f depends only on the order.
template <typename T, typename F>
__device__ Bound<T> bound_of(const Row<T>& row, const Bound<T>& bound, uint64_t least, F f) {
  using Order = OrderOf<T>;
  const auto sum_from = [&](Order from) {
    return row.sum([&](Order order, int64_t i) {
      return order >= from && bound.keeps(order, i) ? f(order) : uint64_t{0};
    });
  };
  Order found = 0;
  for (int bit = 8 * static_cast<int>(sizeof(Order)) - 1; bit >= 0; --bit) {
    const Order tried = found | Order{1} << bit;
    if (sum_from(tried) >= least) found = tried;
  }
  const uint64_t above = found == static_cast<Order>(~Order{0}) ? 0 : sum_from(found + 1);
  // Of the tokens of equal order, only as many are kept as are needed.
  const uint64_t each = f(found), rest = least - above;
  const uint64_t equal = each == 0 ? 1 : (rest + each - 1) / each;
  const int64_t last = row.place_of(equal - 1, [&](Order order, int64_t i) {
    return uint64_t{order == found && bound.keeps(order, i)};
  });
  return {found, last + 1};
}

/// Draws one token for each row. REQUIRES: blocks consist of whole warps, and have shared memory
/// for a uint64_t for each thread and one more.
template <typename T>
__global__ void draw_tokens(const T* logits, SampleProblem sizes, Integers positions,
                            const CallBlock* call, int32_t* out) {
  const Sampling& sampling = sizes.sampling;
  const int64_t tokens = sizes.tokens;
  for (int64_t r = blockIdx.x; r < sizes.rows; r += gridDim.x) {
    const Row<T> row{logits + r * tokens, tokens};
    const OrderOf<T> largest = row.largest();
    const auto weigh = [&](OrderOf<T> order) {
      if (order == largest) return kUnitWeight;
      if (order == 0) return uint64_t{0};
      return weight_of(logit_of<T>(order), logit_of<T>(largest), sampling.temperature);
    };
    Bound<T> bound{0, tokens};
    if (sampling.top_k > 0 && sampling.top_k < tokens)
      bound = bound_of(row, bound, static_cast<uint64_t>(sampling.top_k),
                       [](OrderOf<T>) { return uint64_t{1}; });
    const auto weigh_kept = [&](OrderOf<T> order, int64_t i) {
      return bound.keeps(order, i) ? weigh(order) : uint64_t{0};
    };
    if (sampling.top_p < 1)
      bound = bound_of(row, bound, kept_weight(row.sum(weigh_kept), sampling.top_p), weigh);
    const uint64_t drawn =
        sizes.draw(r, positions[sizes.position_at(r)], *call, row.sum(weigh_kept));
    const int64_t place = row.place_of(drawn, weigh_kept);
    if (threadIdx.x == 0) out[r] = static_cast<int32_t>(place);
  }
}

/// Does the same with temperature 0.
template <typename T>
__global__ void take_likeliest(const T* logits, int64_t rows, int64_t tokens, int32_t* out) {
  for (int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Row<T> row{logits + r * tokens, tokens};
    const OrderOf<T> largest = row.largest();
    const int64_t place =
        row.place_of(0, [&](OrderOf<T> order, int64_t) { return uint64_t{order == largest}; });
    if (threadIdx.x == 0) out[r] = static_cast<int32_t>(place);
  }
}

Kernel prepare_sample(const Request& request) {
  const SampleProblem sizes = sample_problem(request);
  const unsigned threads = sizes.tokens >= kThreads ? kThreads : kWarp;
  const LaunchShape shape{{blocks_for(sizes.rows)}, {threads}, (threads + 1) * sizeof(uint64_t)};
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    if (sizes.sampling.temperature == 0)
      return {[=](const Buffers& buffers, const LaunchState& state) {
        launch(state, "sample", shape, take_likeliest<T>, input<T>(buffers, 0), sizes.rows,
               sizes.tokens, output<int32_t>(buffers, 0));
      }};
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, "sample", shape, draw_tokens<T>, input<T>(buffers, 0), sizes,
             Integers{buffers.inputs[1], sizes.position}, state.call, output<int32_t>(buffers, 0));
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::sample() {
  static constexpr KernelEntry kKernels[] = {{"sample", prepare_sample}};
  return kKernels;
}

}  // namespace flow::cuda
