// The gradients of attention. Weights are computed again from the scores and the logarithms of
// their sums, which is faster than to keep them. What keys and values get is the sum over tiles of
// queries: where batches are few, the tiles are dealt out to several parts, each with sums of its
// own, which are added in order. Parts depend on shapes alone.
#include "runtime/cpu/kernels/attention_grad.h"

#include "runtime/base/ceil_div.h"
#include "runtime/cpu/kernels/attention_tile.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// Where the sums of keys and values go.
struct Sums {
  float *keys, *values;
};

class Backward {
 public:
  explicit Backward(const Request& request)
      : tiles_(Attention(request, 1, 6)), threads_(request.threads) {
    constexpr int64_t kItems = 16;
    const int64_t wanted = ceil_div(kItems, tiles_.at.batches);
    parts_ = std::clamp<int64_t>(wanted, 1, tiles_.queries);
    rows_ = tiles_.at.batches * tiles_.at.keys;
  }

  size_t workspace() const {
    const int64_t sums = (parts_ - 1) * rows_ * (tiles_.at.depth + tiles_.at.value_depth);
    return static_cast<size_t>(threads_ * 2 * tiles_.space() + sums) * sizeof(float);
  }

  void launch(const Buffers& buffers) const {
    parallel_for(threads_, tiles_.at.batches * parts_, [&](int64_t item, int worker) {
      run_part(buffers, item / parts_, item % parts_,
               reinterpret_cast<float*>(buffers.workspace) + worker * 2 * tiles_.space());
    });
    if (parts_ > 1) add_parts(buffers);
  }

 private:
  /// The first part's are the results.
  Sums sums_of(const Buffers& buffers, int64_t part) const {
    if (part == 0) return {output<float>(buffers, 1), output<float>(buffers, 2)};
    float* all = reinterpret_cast<float*>(buffers.workspace) + threads_ * 2 * tiles_.space();
    const int64_t keys = rows_ * tiles_.at.depth, values = rows_ * tiles_.at.value_depth;
    float* own = all + (part - 1) * (keys + values);
    return {own, own + keys};
  }

  void run_part(const Buffers& buffers, int64_t batch, int64_t part, float* space) const {
    const Attention& at = tiles_.at;
    Sums sums = sums_of(buffers, part);
    sums.keys += batch * at.keys * at.depth;
    sums.values += batch * at.keys * at.value_depth;
    std::fill_n(sums.keys, at.keys * at.depth, 0.0f);
    std::fill_n(sums.values, at.keys * at.value_depth, 0.0f);
    for (int64_t i = part; i < tiles_.queries; i += parts_)
      run_tile(buffers, tiles_.tile(batch, i), sums, space);
  }

  void run_tile(const Buffers& buffers, const Queries& q, const Sums& sums, float* weights) const {
    const Attention& at = tiles_.at;
    const int64_t width = tiles_.width, first = q.batch * at.queries + q.first;
    const auto scale = static_cast<float>(at.scale);
    const Matrix dy{input<float>(buffers, 0) + first * at.value_depth, at.value_depth};
    const Matrix query{input<float>(buffers, 1) + first * at.depth, at.depth};
    float* slopes = weights + tiles_.space();
    tiles_.for_keys(q, [&](const Keys& k) {
      const int64_t row = q.batch * at.keys + k.first;
      const Matrix key{input<float>(buffers, 2) + row * at.depth, at.depth};
      const Matrix value{input<float>(buffers, 3) + row * at.value_depth, at.value_depth};
      multiply('N', 'T', {q.count, k.count, at.depth}, scale, query, key, 0.0f, weights, width);
      multiply('N', 'T', {q.count, k.count, at.value_depth}, 1.0f, dy, value, 0.0f, slopes, width);
      for (int64_t i = 0; i < q.count; ++i) finish_row(buffers, q, k, i, weights, slopes);
      multiply('T', 'N', {k.count, at.value_depth, q.count}, 1.0f, {weights, width}, dy, 1.0f,
               sums.values + k.first * at.value_depth, at.value_depth);
      multiply('N', 'N', {q.count, at.depth, k.count}, scale, {slopes, width}, key,
               k.first == 0 ? 0.0f : 1.0f, output<float>(buffers, 0) + first * at.depth, at.depth);
      multiply('T', 'N', {k.count, at.depth, q.count}, scale, {slopes, width}, query, 1.0f,
               sums.keys + k.first * at.depth, at.depth);
    });
  }

  /// A query's weights from its scores; its slopes from what they get, both in place.
  void finish_row(const Buffers& buffers, const Queries& q, const Keys& k, int64_t i,
                  float* weights, float* slopes) const {
    const int64_t row = q.batch * tiles_.at.queries + q.first + i;
    const int64_t depth = tiles_.at.value_depth;
    weights += i * tiles_.width;
    slopes += i * tiles_.width;
    const int64_t length = tiles_.hide_unseen(buffers, q, k, i, weights);
    exp_less(weights, input<float>(buffers, 5)[row], length);
    const float expected = dot_rows(input<float>(buffers, 0) + row * depth,
                                    input<float>(buffers, 4) + row * depth, depth);
    slope_row(weights, expected, slopes, k.count);
  }

  void add_parts(const Buffers& buffers) const {
    const Sums result = sums_of(buffers, 0);
    const auto add = [&](float* sum, auto part_of, int64_t n) {
      for_pieces(threads_, n, kPiece, [&](int64_t first, int64_t end) {
        for (int64_t part = 1; part < parts_; ++part)
          add_to(part_of(sums_of(buffers, part)) + first, sum + first, end - first);
      });
    };
    add(
        result.keys, [](const Sums& sums) { return sums.keys; }, rows_ * tiles_.at.depth);
    add(
        result.values, [](const Sums& sums) { return sums.values; }, rows_ * tiles_.at.value_depth);
  }

  Tiles tiles_;
  int threads_;
  int64_t parts_ = 1;  // of each batch
  int64_t rows_ = 0;   // of all keys
};

}  // namespace

Kernel prepare_attention_grad(const Request& request) {
  Backward backward(request);
  Kernel kernel;
  kernel.workspace = backward.workspace();
  kernel.launch = [backward = std::move(backward)](const Buffers& buffers, const CallState&) {
    backward.launch(buffers);
  };
  return kernel;
}

}  // namespace flow::cpu::fast
