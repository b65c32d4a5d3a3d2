// rope and its gradient: cosines and sines of all positions, then rows of features, each turned by
// those of its position. Without the operand `positions`, the table is made once.
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "ops/rope/frequencies.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/features.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// x, y: (heads, length, depth) for each of `batches`, of whose features the first 2 pairs turn.
struct Rotation {
  int64_t batches, heads, length, depth, pairs;
  bool halves;
  double sign;                     // -1: the other way
  std::optional<DType> positions;  // of the operand
  int64_t tables = 1;              // batches that have positions of their own

  Rotation(const Request& request, double turned)
      : halves(ops::rope_splits_halves(request.step.attributes)), sign(turned) {
    const Shape& x = request.inputs[0].shape;
    const int rank = x.rank();
    depth = x[rank - 1];
    length = x[rank - 2];
    batches = rank > 2 ? x[0] : 1;
    heads = x.elements(0, rank - 2) / batches;
    pairs = request.step.attributes.get<int64_t>("dims") / 2;
    if (request.inputs.size() < 2) return;
    positions = request.inputs[1].dtype;
    if (request.inputs[1].shape.rank() == 2) tables = batches;
  }

  int64_t table_elements() const { return tables * length * 2 * pairs; }
};

/// Cosines, then sines of a position.
template <typename T>
void fill_turns(const std::vector<double>& frequencies, double position, double sign, T* turns) {
  const size_t pairs = frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = position * frequencies[i];
    turns[i] = static_cast<T>(std::cos(angle));
    turns[pairs + i] = static_cast<T>(sign * std::sin(angle));
  }
}

/// x may be y.
template <typename T>
[[gnu::always_inline]] inline void turn_halves(const T* x, const T* turns, int64_t pairs, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
    const T one = x[i], other = x[pairs + i];
    y[i] = one * turns[i] - other * turns[pairs + i];
    y[pairs + i] = other * turns[i] + one * turns[pairs + i];
  }
}

template <typename T>
[[gnu::always_inline]] inline void turn_pairs(const T* x, const T* turns, int64_t pairs, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
    const T one = x[2 * i], other = x[2 * i + 1];
    y[2 * i] = one * turns[i] - other * turns[pairs + i];
    y[2 * i + 1] = other * turns[i] + one * turns[pairs + i];
  }
}

template <typename T>
[[gnu::always_inline]] inline void turn_row(const Rotation& r, const T* x, const T* turns, T* y) {
  if (r.halves)
    turn_halves(x, turns, r.pairs, y);
  else
    turn_pairs(x, turns, r.pairs, y);
  const int64_t turned = 2 * r.pairs;
  if (x != y && turned < r.depth)
    std::memcpy(y + turned, x + turned, static_cast<size_t>(r.depth - turned) * sizeof(T));
}

FLOW_VECTORIZED void turn_rows(const Rotation& r, int64_t rows, const float* x, const float* turns,
                               float* y) {
  for (int64_t row = 0; row < rows; ++row)
    turn_row(r, x + row * r.depth, turns + row * 2 * r.pairs, y + row * r.depth);
}

FLOW_VECTORIZED void turn_rows(const Rotation& r, int64_t rows, const double* x,
                               const double* turns, double* y) {
  for (int64_t row = 0; row < rows; ++row)
    turn_row(r, x + row * r.depth, turns + row * 2 * r.pairs, y + row * r.depth);
}

template <typename T>
class Rope {
 public:
  Rope(const Request& request, double sign)
      : r_(request, sign),
        frequencies_(std::make_shared<const std::vector<double>>(
            ops::rope_frequencies(request.step.attributes))),
        threads_(request.threads) {
    if (r_.positions) return;
    auto turns = std::make_shared<std::vector<T>>(static_cast<size_t>(r_.table_elements()));
    for (int64_t place = 0; place < r_.length; ++place)
      fill_turns(*frequencies_, static_cast<double>(place), sign,
                 turns->data() + place * 2 * r_.pairs);
    turns_ = std::move(turns);
  }

  size_t workspace() const {
    return r_.positions ? static_cast<size_t>(r_.table_elements()) * sizeof(T) : 0;
  }

  void launch(const Buffers& b) const {
    T* own = reinterpret_cast<T*>(b.workspace);
    if (r_.positions) fill_table(b, own);
    const T* turns = r_.positions ? own : turns_->data();
    const int64_t rows = std::max<int64_t>(1, kPiece / r_.depth);
    const int64_t pieces = ceil_div(r_.length, rows);
    parallel_for(threads_, r_.batches * r_.heads * pieces, [&](int64_t item, int) {
      const int64_t head = item / pieces, first = item % pieces * rows;
      const int64_t table = r_.tables > 1 ? head / r_.heads : 0;
      const int64_t at = (head * r_.length + first) * r_.depth;
      turn_rows(r_, std::min(rows, r_.length - first), input<T>(b, 0) + at,
                turns + (table * r_.length + first) * 2 * r_.pairs, output<T>(b, 0) + at);
    });
  }

 private:
  void fill_table(const Buffers& b, T* turns) const {
    constexpr int64_t kCost = 16;  // of an angle, in elements
    const int64_t piece = std::max<int64_t>(1, kPiece / (kCost * r_.pairs));
    for_pieces(threads_, r_.tables * r_.length, piece, [&](int64_t first, int64_t end) {
      for (int64_t at = first; at < end; ++at)
        fill_turns(*frequencies_, static_cast<double>(integer_at(*r_.positions, b.inputs[1], at)),
                   r_.sign, turns + at * 2 * r_.pairs);
    });
  }

  Rotation r_;
  std::shared_ptr<const std::vector<double>> frequencies_;
  std::shared_ptr<const std::vector<T>> turns_;  // of positions 0, 1, ...
  int threads_;
};

Kernel prepare_rotation(const Request& request, double sign) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    Rope<T> rope(request, sign);
    kernel.workspace = rope.workspace();
    kernel.launch = [rope = std::move(rope)](const Buffers& b, const CallState&) {
      rope.launch(b);
    };
  });
  return kernel;
}

Kernel prepare_rope(const Request& request) { return prepare_rotation(request, 1); }
Kernel prepare_rope_grad(const Request& request) { return prepare_rotation(request, -1); }

}  // namespace

std::span<const KernelEntry> rope() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "rope", .prepare = prepare_rope, .float64 = prepare_rope},
      {.op = "rope_grad", .prepare = prepare_rope_grad, .float64 = prepare_rope_grad},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
