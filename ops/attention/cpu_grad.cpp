// The gradients of attention. Weights are recomputed from the scores and their log-sum-exp, which
// is faster than storing them. The gradients of keys and values are sums over tiles of queries. If
// there are few batches of keys, these tiles are split into several parts with separate sums, which
// are then added in order. The gradient of the bias is a sum over all tiles that read it. The parts
// depend only on shapes.
#include "ops/attention/cpu.h"

#include <iterator>
#include <vector>

#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/vectors.h"

namespace flow::cpu::fast {
namespace {

/// The weights and slopes of a tile, in rows of Tiles::width floats. A slope is the gradient of a
/// score.
struct TileSlopes {
  float *weights, *slopes;
};

/// Computes weights and slopes of tiles. The operands are dy, query, key, value, out, logsumexp,
/// ...
class SlopesOfTiles {
 public:
  explicit SlopesOfTiles(const Request& request) : tiles(Attention(request, true)) {}

  /// The number of floats that a thread needs for a tile.
  int64_t space() const { return 2 * tiles.space(); }
  TileSlopes in(float* space) const { return {space, space + tiles.space()}; }

  int64_t row(const Queries& q) const { return q.batch * tiles.at.queries + q.first; }
  int64_t row(const Queries& q, const Keys& k) const {
    return q.batch / tiles.at.group * tiles.at.keys + k.first;
  }
  Matrix dy(const Buffers& b, const Queries& q) const {
    return {input<float>(b, 0) + row(q) * tiles.at.value_depth, tiles.at.value_depth};
  }
  Matrix query(const Buffers& b, const Queries& q) const {
    return {input<float>(b, 1) + row(q) * tiles.at.depth, tiles.at.depth};
  }
  Matrix key(const Buffers& b, const Queries& q, const Keys& k) const {
    return {input<float>(b, 2) + row(q, k) * tiles.at.depth, tiles.at.depth};
  }
  Matrix value(const Buffers& b, const Queries& q, const Keys& k) const {
    return {input<float>(b, 3) + row(q, k) * tiles.at.value_depth, tiles.at.value_depth};
  }

  /// Checks the operands of these queries: dy, query, out and logsumexp.
  Numbers numbers(const Buffers& b, const Queries& q) const {
    const Attention& at = tiles.at;
    const bool finite =
        all_finite(dy(b, q).data, q.count * at.value_depth) &&
        all_finite(query(b, q).data, q.count * at.depth) &&
        all_finite(input<float>(b, 4) + row(q) * at.value_depth, q.count * at.value_depth) &&
        all_finite(input<float>(b, 5) + row(q), q.count);
    return finite ? Numbers::kFinite : Numbers::kAny;
  }
  /// Also checks the operands of these keys.
  Numbers numbers(const Buffers& b, const Queries& q, const Keys& k, Numbers of_queries) const {
    const bool finite = of_queries == Numbers::kFinite &&
                        all_finite(key(b, q, k).data, k.count * tiles.at.depth) &&
                        all_finite(value(b, q, k).data, k.count * tiles.at.value_depth);
    return finite ? Numbers::kFinite : Numbers::kAny;
  }

  void compute(const Buffers& b, const Queries& q, const Keys& k, Numbers numbers,
               const TileSlopes& to) const {
    const Attention& at = tiles.at;
    multiply('N', 'T', {q.count, k.count, at.depth}, static_cast<float>(at.scale), query(b, q),
             key(b, q, k), 0.0f, to.weights, tiles.width);
    multiply('N', 'T', {q.count, k.count, at.value_depth}, 1.0f, dy(b, q), value(b, q, k), 0.0f,
             to.slopes, tiles.width);
    for (int64_t i = 0; i < q.count; ++i) finish_row(b, q, k, i, numbers, to);
  }

  Tiles tiles;

 private:
  /// Replaces a query's scores by its weights, and the gradients of its weights by its slopes.
  void finish_row(const Buffers& buffers, const Queries& q, const Keys& k, int64_t i,
                  Numbers numbers, const TileSlopes& to) const {
    const int64_t at = row(q) + i, depth = tiles.at.value_depth;
    float *weights = to.weights + i * tiles.width, *slopes = to.slopes + i * tiles.width;
    const int64_t length = tiles.finish_scores(buffers, q, k, i, weights, numbers);
    const float log_sum = input<float>(buffers, 5)[at];
    const float expected = dot_rows(input<float>(buffers, 0) + at * depth,
                                    input<float>(buffers, 4) + at * depth, depth);
    if (numbers == Numbers::kAny) return slope_seen(weights, log_sum, expected, slopes, k.count);
    exp_less(weights, log_sum, length);
    slope_row(weights, expected, slopes, k.count);
  }
};

/// The gradients of keys and values, or one part of their sums.
struct Sums {
  float *keys, *values;
};

class Backward {
 public:
  explicit Backward(const Request& request) : of_(request), threads_(request.threads) {
    constexpr int64_t kItems = 16;
    const Attention& at = of_.tiles.at;
    const int64_t wanted = ceil_div(kItems, at.key_batches());
    parts_ = std::clamp<int64_t>(wanted, 1, tiles_of_key());
    rows_ = at.key_batches() * at.keys;
  }

  size_t workspace() const {
    const Attention& at = of_.tiles.at;
    const int64_t sums = (parts_ - 1) * rows_ * (at.depth + at.value_depth);
    return static_cast<size_t>(threads_ * of_.space() + sums) * sizeof(float);
  }

  void launch(const Buffers& buffers, const CallState& state) const {
    of_.tiles.at.check(buffers, state);
    parallel_for(threads_, of_.tiles.at.key_batches() * parts_, [&](int64_t item, int worker) {
      run_part(buffers, item / parts_, item % parts_,
               reinterpret_cast<float*>(buffers.workspace) + worker * of_.space());
    });
    if (parts_ > 1) add_parts(buffers);
  }

 private:
  /// The number of query tiles that read a key.
  int64_t tiles_of_key() const { return of_.tiles.at.group * of_.tiles.queries; }

  /// Returns the sums of a part. The first part uses the memory of the results.
  Sums sums_of(const Buffers& buffers, int64_t part) const {
    if (part == 0) return {output<float>(buffers, 1), output<float>(buffers, 2)};
    float* all = reinterpret_cast<float*>(buffers.workspace) + threads_ * of_.space();
    const int64_t keys = rows_ * of_.tiles.at.depth, values = rows_ * of_.tiles.at.value_depth;
    float* own = all + (part - 1) * (keys + values);
    return {own, own + keys};
  }

  void run_part(const Buffers& buffers, int64_t key_batch, int64_t part, float* space) const {
    const Attention& at = of_.tiles.at;
    Sums sums = sums_of(buffers, part);
    sums.keys += key_batch * at.keys * at.depth;
    sums.values += key_batch * at.keys * at.value_depth;
    std::fill_n(sums.keys, at.keys * at.depth, 0.0f);
    std::fill_n(sums.values, at.keys * at.value_depth, 0.0f);
    for (int64_t i = part; i < tiles_of_key(); i += parts_) {
      const int64_t batch = key_batch * at.group + i / of_.tiles.queries;
      run_tile(buffers, of_.tiles.tile(batch, i % of_.tiles.queries), sums, of_.in(space));
    }
  }

  void run_tile(const Buffers& buffers, const Queries& q, const Sums& sums,
                const TileSlopes& of) const {
    const Attention& at = of_.tiles.at;
    const int64_t width = of_.tiles.width;
    const auto scale = static_cast<float>(at.scale);
    float* dquery = output<float>(buffers, 0) + of_.row(q) * at.depth;
    const Numbers of_queries = of_.numbers(buffers, q);
    const bool sees_any = of_.tiles.for_keys(buffers, q, [&](const Keys& k) {
      const Numbers numbers = of_.numbers(buffers, q, k, of_queries);
      of_.compute(buffers, q, k, numbers, of);
      const auto add = [&](char transpose, const ProductShape& shape, float factor,
                           const float* weights, Matrix b, float keep, float* out) {
        multiply_weights(numbers, transpose, shape, factor, {weights, width}, b, keep, out,
                         shape.columns);
      };
      add('T', {k.count, at.value_depth, q.count}, 1.0f, of.weights, of_.dy(buffers, q), 1.0f,
          sums.values + k.first * at.value_depth);
      add('N', {q.count, at.depth, k.count}, scale, of.slopes, of_.key(buffers, q, k),
          k.opens ? 0.0f : 1.0f, dquery);
      add('T', {k.count, at.depth, q.count}, scale, of.slopes, of_.query(buffers, q), 1.0f,
          sums.keys + k.first * at.depth);
    });
    if (!sees_any) std::fill_n(dquery, q.count * at.depth, 0.0f);
  }

  void add_parts(const Buffers& buffers) const {
    const Sums result = sums_of(buffers, 0);
    const auto add = [&](float* sum, auto part_of, int64_t n) {
      for_pieces(threads_, n, kPiece, [&](int64_t first, int64_t end) {
        for (int64_t part = 1; part < parts_; ++part)
          add_to(part_of(sums_of(buffers, part)) + first, sum + first, end - first);
      });
    };
    const Attention& at = of_.tiles.at;
    add(
        result.keys, [](const Sums& sums) { return sums.keys; }, rows_ * at.depth);
    add(
        result.values, [](const Sums& sums) { return sums.values; }, rows_ * at.value_depth);
  }

  SlopesOfTiles of_;
  int threads_;
  int64_t parts_ = 1;  // number of parts for each batch of keys
  int64_t rows_ = 0;   // number of keys in all batches
};

/// Computes the gradient of the bias: slopes, summed if several scores read the same element. One
/// thread processes all tiles that read the same elements.
class BackwardToBias {
 public:
  explicit BackwardToBias(const Request& request) : of_(request), threads_(request.threads) {
    const ScoreOperand& bias = *of_.tiles.at.bias;
    readers_.resize(static_cast<size_t>(bias.elements / (bias.rows * bias.columns)));
    for (int64_t batch = 0; batch < of_.tiles.at.batches; ++batch)
      readers_[static_cast<size_t>(bias.row(batch, 0) / (bias.rows * bias.columns))].push_back(
          batch);
    tiles_ = bias.rows > 1 ? of_.tiles.queries : 1;
  }

  size_t workspace() const { return static_cast<size_t>(threads_ * of_.space()) * sizeof(float); }

  void launch(const Buffers& buffers, const CallState& state) const {
    of_.tiles.at.check(buffers, state);
    parallel_for(threads_, std::ssize(readers_) * tiles_, [&](int64_t item, int worker) {
      const TileSlopes of =
          of_.in(reinterpret_cast<float*>(buffers.workspace) + worker * of_.space());
      const std::vector<int64_t>& batches = readers_[static_cast<size_t>(item / tiles_)];
      const bool own_rows = bias().rows > 1;
      const int64_t first = own_rows ? item % tiles_ : 0;
      const int64_t end = own_rows ? first + 1 : of_.tiles.queries;
      clear(buffers, own_rows ? of_.tiles.tile(batches[0], first) : Queries{batches[0], 0, 1});
      for (int64_t tile = first; tile < end; ++tile) add_tile(buffers, batches, tile, of);
    });
  }

 private:
  const ScoreOperand& bias() const { return *of_.tiles.at.bias; }

  /// Clears the elements that these queries read.
  void clear(const Buffers& buffers, const Queries& q) const {
    std::fill_n(output<float>(buffers, 0) + bias().row(q.batch, q.first), q.count * bias().columns,
                0.0f);
  }

  void add_tile(const Buffers& buffers, const std::vector<int64_t>& batches, int64_t tile,
                const TileSlopes& of) const {
    for (const int64_t batch : batches) {
      const Queries q = of_.tiles.tile(batch, tile);
      const Numbers of_queries = of_.numbers(buffers, q);
      of_.tiles.for_keys(buffers, q, [&](const Keys& k) {
        of_.compute(buffers, q, k, of_.numbers(buffers, q, k, of_queries), of);
        for (int64_t i = 0; i < q.count; ++i) {
          float* to = output<float>(buffers, 0) + bias().row(batch, q.first + i);
          const float* slopes = of.slopes + i * of_.tiles.width;
          if (bias().columns > 1)
            add_to(slopes, to + k.first, k.count);
          else
            *to += sum_row(slopes, k.count);
        }
      });
    }
  }

  SlopesOfTiles of_;
  int threads_;
  std::vector<std::vector<int64_t>> readers_;  // the readers of each batch of the bias
  int64_t tiles_;                              // number of query tiles that do not share elements
};

}  // namespace

Kernel prepare_attention_grad(const Request& request) { return kernel_of<Backward>(request); }

Kernel prepare_attention_grad_bias(const Request& request) {
  return kernel_of<BackwardToBias>(request);
}

}  // namespace flow::cpu::fast
