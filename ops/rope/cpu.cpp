// Kernels of rope and of its gradient: they compute cosines and sines of all positions, then rotate
// each row of features by the angles of its position. Without the operand `positions`, the table is
// computed once.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "ops/rope/frequencies.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::fast {
namespace {

/// Writes the cosines, then the sines, of the angles of a position.
template <typename T>
void fill_turns(const std::vector<double>& frequencies, double position, double sign, T* turns) {
  const size_t pairs = frequencies.size();
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = position * frequencies[i];
    turns[i] = static_cast<T>(std::cos(angle));
    turns[pairs + i] = static_cast<T>(sign * std::sin(angle));
  }
}

/// Rotates pairs of features. y may alias x.
template <bool kHalves, typename T>
[[gnu::always_inline]] inline void turn_pairs(const T* x, const T* turns, int64_t pairs, T* y) {
#pragma omp simd
  for (int64_t i = 0; i < pairs; ++i) {
    const int64_t first = kHalves ? i : 2 * i, second = kHalves ? pairs + i : 2 * i + 1;
    const T one = x[first], other = x[second];
    y[first] = one * turns[i] - other * turns[pairs + i];
    y[second] = other * turns[i] + one * turns[pairs + i];
  }
}

template <typename T>
[[gnu::always_inline]] inline void turn_row(const ops::Rope& r, const T* x, const T* turns, T* y) {
  if (r.halves)
    turn_pairs<true>(x, turns, r.pairs, y);
  else
    turn_pairs<false>(x, turns, r.pairs, y);
  const int64_t turned = 2 * r.pairs;
  if (x != y && turned < r.depth)
    std::memcpy(y + turned, x + turned, static_cast<size_t>(r.depth - turned) * sizeof(T));
}

FLOW_VECTORIZED void turn_rows(const ops::Rope& r, int64_t rows, const float* x, const float* turns,
                               float* y) {
  for (int64_t row = 0; row < rows; ++row)
    turn_row(r, x + row * r.depth, turns + row * 2 * r.pairs, y + row * r.depth);
}

FLOW_VECTORIZED void turn_rows(const ops::Rope& r, int64_t rows, const double* x,
                               const double* turns, double* y) {
  for (int64_t row = 0; row < rows; ++row)
    turn_row(r, x + row * r.depth, turns + row * 2 * r.pairs, y + row * r.depth);
}

/// `sign` is -1 for the opposite direction.
template <typename T>
class Rotation {
 public:
  Rotation(const Request& request, double sign)
      : r_(ops::rope_of(request)),
        sign_(sign),
        frequencies_(std::make_shared<const std::vector<double>>(
            ops::rope_frequencies(request.step.attributes))),
        threads_(request.threads) {
    if (r_.positions) return;
    auto turns = std::make_shared<std::vector<T>>(table_elements());
    for (int64_t place = 0; place < r_.length; ++place)
      fill_turns(*frequencies_, static_cast<double>(place), sign,
                 turns->data() + place * 2 * r_.pairs);
    turns_ = std::move(turns);
  }

  size_t workspace() const { return r_.positions ? table_elements() * sizeof(T) : 0; }

  void operator()(const Buffers& b, const CallState&) const {
    T* own = reinterpret_cast<T*>(b.workspace);
    if (r_.positions) fill_table(b, own);
    const T* turns = r_.positions ? own : turns_->data();
    const int64_t rows = std::max<int64_t>(1, kPiece / r_.depth);
    const int64_t pieces = ceil_div(r_.length, rows);
    parallel_for(threads_, r_.rows / r_.length * pieces, [&](int64_t item, int) {
      const int64_t place = item % pieces * rows, first = item / pieces * r_.length + place;
      const int64_t table = first / r_.rows_of_positions;
      turn_rows(r_, std::min(rows, r_.length - place), input<T>(b, 0) + first * r_.depth,
                turns + (table * r_.length + place) * 2 * r_.pairs,
                output<T>(b, 0) + first * r_.depth);
    });
  }

 private:
  /// Returns the number of positions in all vectors of positions.
  int64_t places() const { return r_.rows / r_.rows_of_positions * r_.length; }
  size_t table_elements() const { return static_cast<size_t>(places() * 2 * r_.pairs); }

  void fill_table(const Buffers& b, T* turns) const {
    constexpr int64_t kCost = 16;  // the cost of an angle, in elements
    const int64_t piece = std::max<int64_t>(1, kPiece / (kCost * r_.pairs));
    for_pieces(threads_, places(), piece, [&](int64_t first, int64_t end) {
      for (int64_t at = first; at < end; ++at)
        fill_turns(*frequencies_, static_cast<double>(integer_at(*r_.positions, b.inputs[1], at)),
                   sign_, turns + at * 2 * r_.pairs);
    });
  }

  ops::Rope r_;
  double sign_;
  std::shared_ptr<const std::vector<double>> frequencies_;
  std::shared_ptr<const std::vector<T>> turns_;  // cosines and sines of positions 0, 1, ...
  int threads_;
};

template <int kSign>
Kernel prepare_rotation(const Request& request) {
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const Rotation<T> rotation(request, kSign);
    return {rotation, rotation.workspace()};
  });
}

}  // namespace

std::span<const KernelEntry> rope() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "rope", .prepare = prepare_rotation<1>, .float64 = prepare_rotation<1>},
      {.op = "rope_grad", .prepare = prepare_rotation<-1>, .float64 = prepare_rotation<-1>},
  };
  return kKernels;
}

}  // namespace flow::cpu::fast
