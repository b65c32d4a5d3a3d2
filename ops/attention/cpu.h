// Code shared by the CPU's attention kernels: the extents of a call, the keys that a query sees,
// rows of scores, and tiles. A tile is a block of queries over a block of keys, whose scores fit in
// the cache.
#pragma once

#include <dnnl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "ops/attention/problem.h"
#include "ops/core/cpu_labels.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/loops/onednn_status.h"

namespace flow::cpu {

using ops::KeyRange;

/// An operand that broadcasts to the scores.
struct ScoreOperand : ops::ScoreSteps {
  ScoreOperand(size_t at, const Shape& shape, const Shape& query, int64_t keys);

  /// The index of the element for query `query` of a batch and its first key.
  int64_t row(int64_t batch, int64_t query) const {
    return offsets[static_cast<size_t>(batch)] + query * query_step;
  }

  size_t operand;
  int64_t elements;
  std::vector<int64_t> offsets;  // one for each batch
};

struct Attention : ops::AttentionExtents {
  std::optional<ScoreOperand> mask, bias;

  /// Reads a call of attention, or of its gradients if `gradients` is set.
  Attention(const Request& request, bool gradients)
      : Attention(request, ops::AttentionOperands::of(request, gradients)) {}

  /// Reports lengths that are out of range.
  void check(const Buffers& buffers, const CallState& state) const {
    if (lengths_) lengths_->run(buffers.inputs[lengths_operand_], state);
  }

  /// The keys that at least one of the queries [first, end) of a batch may see.
  KeyRange seen_keys(const Buffers& buffers, int64_t batch, int64_t first, int64_t end) const {
    return AttentionExtents::seen_keys(length(buffers, batch), first, end);
  }

 private:
  Attention(const Request& request, const ops::AttentionOperands& at);

  /// The number of keys in a batch.
  int64_t length(const Buffers& buffers, int64_t batch) const {
    if (!lengths_) return keys;
    return keys_of_length(integer_at(lengths_->dtype, buffers.inputs[lengths_operand_],
                                     batch / (batches / lengths_->rows)));
  }

  size_t lengths_operand_ = 0;
  std::optional<LabelCheck> lengths_;
};

}  // namespace flow::cpu

namespace flow::cpu::fast {

/// The number of scores in a vector. Rows of scores are padded to whole vectors.
inline constexpr int64_t kScoreLanes = 16;
/// The score of a hidden key.
inline constexpr float kHidden = -std::numeric_limits<float>::infinity();

/// Sets scores[i] = -inf for each false element of the mask. The elements of the mask are `step`
/// apart.
void hide(const bool* mask, int64_t step, float* scores, int64_t n);
/// Adds the bias to the scores. The elements of the bias are `step` (0 or 1) apart.
void add_bias(const float* bias, int64_t step, float* scores, int64_t n);
/// Sets scores[i] = -inf wherever the bias is -inf, even if the score is NaN.
void hide_by_bias(const float* bias, int64_t step, float* scores, int64_t n);
bool all_finite(const float* x, int64_t n);
/// Computes x = exp(x - shift), for x at most slightly above `shift`, and returns the sum.
float exp_less(float* x, float shift, int64_t n);
float dot_rows(const float* a, const float* b, int64_t n);
float sum_row(const float* x, int64_t n);
/// Computes dp = p * (dp - expected).
void slope_row(const float* p, float expected, float* dp, int64_t n);
/// Replaces scores x by weights exp(x - shift) and dp by slopes, like exp_less followed by
/// slope_row. Both are exactly 0 where the score is -inf, even if other operands are NaN or
/// infinite.
void slope_seen(float* x, float shift, float expected, float* dp, int64_t n);

inline constexpr int64_t kTileQueries = 64, kTileKeys = 256;

/// The keys of a tile.
struct Keys {
  int64_t first, count;
  bool opens;  // true for the first tile of keys, which overwrites sums instead of adding to them
};

/// The queries of a tile.
struct Queries {
  int64_t batch, first, count;
};

/// The kind of numbers that a tile reads. With NaN or infinities (kAny), a weight of 0 does not
/// hide a key, since 0 times NaN is not 0, and the tile needs special products.
enum class Numbers : uint8_t { kFinite, kAny };

/// The data that all tiles of a call share.
struct Tiles {
  Attention at;
  int64_t width;    // of a row of scores in memory, in floats
  int64_t queries;  // number of query tiles in a batch

  explicit Tiles(const Attention& attention) : at(attention) {
    width = round_up(std::min(kTileKeys, at.keys), kScoreLanes);
    queries = ceil_div(at.queries, kTileQueries);
  }

  /// The size of a tile's scores, in floats.
  int64_t space() const { return kTileQueries * width; }

  Queries tile(int64_t batch, int64_t index) const {
    const int64_t first = index * kTileQueries;
    return {batch, first, std::min(kTileQueries, at.queries - first)};
  }

  /// Calls f for each tile of keys that at least one of the queries may see. Returns false if there
  /// is no such tile.
  template <typename F>
  bool for_keys(const Buffers& buffers, const Queries& q, F f) const {
    const KeyRange seen = at.seen_keys(buffers, q.batch, q.first, q.first + q.count);
    for (int64_t first = seen.first; first < seen.end; first += kTileKeys)
      f(Keys{first, std::min(kTileKeys, seen.end - first), first == seen.first});
    return seen.first < seen.end;
  }

  /// Adds the bias to the scores of query `row` of the tile, and sets the scores of keys that this
  /// query does not see to -inf, including the padding of the row's last vector. Returns the row's
  /// length in floats, rounded up to whole vectors. If scores may be NaN (kAny), keys with a bias
  /// of -inf are hidden as well.
  int64_t finish_scores(const Buffers& buffers, const Queries& q, const Keys& k, int64_t row,
                        float* scores, Numbers numbers) const {
    const int64_t query = q.first + row;
    const KeyRange seen = at.seen_keys(buffers, q.batch, query, query + 1);
    const int64_t first = std::clamp(seen.first - k.first, int64_t{0}, k.count);
    const int64_t end = std::clamp(seen.end - k.first, first, k.count);
    const int64_t length = round_up(k.count, kScoreLanes);
    const auto at_key = [&](const ScoreOperand& given) {
      return given.row(q.batch, query) + (k.first + first) * given.key_step;
    };
    if (at.bias && first < end) {
      const float* bias =
          reinterpret_cast<const float*>(buffers.inputs[at.bias->operand]) + at_key(*at.bias);
      add_bias(bias, at.bias->key_step, scores + first, end - first);
      if (numbers == Numbers::kAny)
        hide_by_bias(bias, at.bias->key_step, scores + first, end - first);
    }
    if (at.mask && first < end)
      hide(reinterpret_cast<const bool*>(buffers.inputs[at.mask->operand]) + at_key(*at.mask),
           at.mask->key_step, scores + first, end - first);
    std::fill(scores, scores + first, kHidden);
    std::fill(scores + end, scores + length, kHidden);
    return length;
  }
};

/// A matrix operand of a product.
struct Matrix {
  const float* data;
  int64_t stride;  // distance between rows
};

/// The extents of out[rows, columns] = factor a b + keep out, where a and b may be stored
/// transposed.
struct ProductShape {
  int64_t rows, columns, depth;
};

inline void multiply(char transpose_a, char transpose_b, const ProductShape& shape, float factor,
                     Matrix a, Matrix b, float keep, float* out, int64_t out_stride) {
  must_succeed([&] {
    return dnnl_sgemm(transpose_a, transpose_b, shape.rows, shape.columns, shape.depth, factor,
                      a.data, a.stride, b.data, b.stride, keep, out, out_stride);
  });
}

/// Computes out = factor weights b + keep out, where the weights may be stored transposed. A row of
/// b with weight 0 never affects the result: numbers that are not finite are added one by one.
inline void multiply_weights(Numbers numbers, char transpose, const ProductShape& shape,
                             float factor, Matrix weights, Matrix b, float keep, float* out,
                             int64_t out_stride) {
  if (numbers == Numbers::kFinite)
    return multiply(transpose, 'N', shape, factor, weights, b, keep, out, out_stride);
  const int64_t columns = shape.columns;
  std::vector<float> finite(static_cast<size_t>(shape.depth * columns));
  for (int64_t i = 0; i < shape.depth * columns; ++i) {
    const float x = b.data[i / columns * b.stride + i % columns];
    finite[static_cast<size_t>(i)] = std::isfinite(x) ? x : 0.0f;
  }
  multiply(transpose, 'N', shape, factor, weights, {finite.data(), columns}, keep, out, out_stride);
  for (int64_t k = 0; k < shape.depth; ++k)
    for (int64_t i = 0; i < columns; ++i) {
      const float x = b.data[k * b.stride + i];
      if (std::isfinite(x)) continue;
      for (int64_t row = 0; row < shape.rows; ++row) {
        const float weight =
            weights.data[transpose == 'N' ? row * weights.stride + k : k * weights.stride + row];
        if (weight != 0) out[row * out_stride + i] += factor * weight * x;
      }
    }
}

/// Returns a kernel that `Work` computes.
template <typename Work>
Kernel kernel_of(const Request& request) {
  Work work(request);
  Kernel kernel;
  kernel.workspace = work.workspace();
  kernel.launch = [work = std::move(work)](const Buffers& buffers, const CallState& state) {
    work.launch(buffers, state);
  };
  return kernel;
}

Kernel prepare_attention_grad(const Request& request);
Kernel prepare_attention_grad_bias(const Request& request);

}  // namespace flow::cpu::fast
