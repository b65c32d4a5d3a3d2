// scaled_dot_product_attention in tiles of queries. Each tile processes its keys in blocks and
// keeps the running maximum and sum of the softmax. The tiles depend only on shapes, and one thread
// computes each tile, so results do not depend on the number of threads.
#include <cmath>
#include <numeric>

#include "ops/attention/cpu.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// The working memory of one thread.
struct Space {
  float* scores;
  float* largest;  // largest score of each query so far
  float* sum;      // sum of exp(score - largest) of each query
};

class Forward {
 public:
  explicit Forward(const Request& request)
      : tiles_(Attention(request, false)), threads_(request.threads) {}

  size_t workspace() const { return static_cast<size_t>(threads_ * space()) * sizeof(float); }

  void launch(const Buffers& buffers, const CallState& state) const {
    tiles_.at.check(buffers, state);
    parallel_for(threads_, tiles_.at.batches * tiles_.queries, [&](int64_t item, int worker) {
      float* own = reinterpret_cast<float*>(buffers.workspace) + worker * space();
      float* largest = own + tiles_.space();
      attend(buffers, tiles_.tile(item / tiles_.queries, item % tiles_.queries),
             {own, largest, largest + kTileQueries});
    });
  }

 private:
  int64_t space() const { return tiles_.space() + 2 * kTileQueries; }

  /// Computes a tile of queries. If its result is not finite, computes it again with products that
  /// skip hidden keys, so that a NaN or an infinity in a hidden key or value does not reach the
  /// result.
  void attend(const Buffers& buffers, const Queries& q, const Space& space) const {
    attend(buffers, q, space, Numbers::kFinite);
    const int64_t depth = tiles_.at.value_depth;
    const int64_t first = q.batch * tiles_.at.queries + q.first;
    if (!all_finite(output<float>(buffers, 0) + first * depth, q.count * depth))
      attend(buffers, q, space, Numbers::kAny);
  }

  void attend(const Buffers& buffers, const Queries& q, const Space& space, Numbers numbers) const {
    const Attention& at = tiles_.at;
    const int64_t first = q.batch * at.queries + q.first;
    const Matrix query{input<float>(buffers, 0) + first * at.depth, at.depth};
    float* out = output<float>(buffers, 0) + first * at.value_depth;
    std::fill_n(space.largest, q.count, kHidden);
    std::fill_n(space.sum, q.count, 0.0f);
    const bool sees_any = tiles_.for_keys(buffers, q, [&](const Keys& k) {
      const int64_t key = q.batch / at.group * at.keys + k.first;
      multiply('N', 'T', {q.count, k.count, at.depth}, static_cast<float>(at.scale), query,
               {input<float>(buffers, 1) + key * at.depth, at.depth}, 0.0f, space.scores,
               tiles_.width);
      for (int64_t row = 0; row < q.count; ++row) weigh(buffers, q, k, row, space, out, numbers);
      multiply_weights(numbers, 'N', {q.count, at.value_depth, k.count}, 1.0f,
                       {space.scores, tiles_.width},
                       {input<float>(buffers, 2) + key * at.value_depth, at.value_depth},
                       k.opens ? 0.0f : 1.0f, out, at.value_depth);
    });
    if (!sees_any) std::fill_n(out, q.count * at.value_depth, 0.0f);
    float* log_sums = output<float>(buffers, 1);
    for (int64_t row = 0; row < q.count; ++row) {
      const float sum = space.sum[row];
      float* result = out + row * at.value_depth;
      scale_to(result, sum == 0 ? 0.0f : 1.0f / sum, result, at.value_depth);
      if (log_sums) log_sums[first + row] = sum == 0 ? 0.0f : space.largest[row] + std::log(sum);
    }
  }

  /// Replaces the scores of a query's keys by their weights. If the largest score grows, also
  /// scales down the sums over the previous keys.
  void weigh(const Buffers& buffers, const Queries& q, const Keys& k, int64_t row,
             const Space& space, float* out, Numbers numbers) const {
    float* scores = space.scores + row * tiles_.width;
    const int64_t length = tiles_.finish_scores(buffers, q, k, row, scores, numbers);
    const float before = space.largest[row];
    const float largest = std::max(before, largest_of(scores, length));
    if (largest == kHidden) {  // all keys are hidden, or a score is NaN
      for (int64_t i = 0; i < length; ++i) scores[i] = scores[i] == kHidden ? 0 : scores[i];
      space.sum[row] += std::accumulate(scores, scores + length, 0.0f);
      return;
    }
    if (before < largest && before != kHidden) {
      const float factor = std::exp(before - largest);
      float* result = out + row * tiles_.at.value_depth;
      scale_to(result, factor, result, tiles_.at.value_depth);
      space.sum[row] *= factor;
    }
    space.largest[row] = largest;
    space.sum[row] += exp_less(scores, largest, length);
  }

  Tiles tiles_;
  int threads_;
};

}  // namespace

std::span<const KernelEntry> attention() {
  static constexpr auto of = [](std::string_view op, Prepare prepare) {
    return KernelEntry{.op = op, .prepare = prepare, .generates_code = true};
  };
  static constexpr KernelEntry kKernels[] = {
      of("scaled_dot_product_attention", kernel_of<Forward>),
      of("scaled_dot_product_attention_grad", prepare_attention_grad),
      of("scaled_dot_product_attention_grad_bias", prepare_attention_grad_bias),
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
