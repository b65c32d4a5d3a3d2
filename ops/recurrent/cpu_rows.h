// Helpers that divide the rows of a recurrent layer among threads; each thread takes some rows
// through all steps.
#pragma once

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "ops/core/cpu_labels.h"
#include "ops/recurrent/problem.h"
#include "runtime/base/host_device.h"
#include "runtime/cpu/loops/operands.h"
#include "runtime/cpu/loops/strided_copy.h"

namespace flow::cpu::fast {

/// Rows [first, first + count), which one thread takes through the steps.
struct RowChunk {
  int64_t first, count;
};

/// The rows of a call, divided into chunks, and their lengths.
class StepOrder : public RecurrentSteps {
 public:
  /// `weight` and `lengths` are indices of operands; operand `lengths` may be missing. Operand 0
  /// has all steps.
  StepOrder(const Request& request, size_t weight, size_t lengths)
      : RecurrentSteps(request.step.attributes, request.inputs[0].shape,
                       request.inputs[weight].shape),
        lengths_(lengths),
        // A chunk has enough rows for efficient products, and there are enough chunks for all
        // threads.
        chunk_(std::clamp<int64_t>(round_up(ceil_div(rows, 16), 8), 16, 64)) {
    if (lengths_ < request.inputs.size())
      check_.emplace(request, request.inputs[lengths_], steps + 1);
  }

  void check(const Buffers& buffers, const CallState& state) const {
    if (check_) check_->run(buffers.inputs[lengths_], state);
  }

  int64_t most_rows() const { return std::min(chunk_, rows); }
  int64_t chunks() const { return ceil_div(rows, chunk_); }
  RowChunk chunk(int64_t i) const { return {i * chunk_, std::min(chunk_, rows - i * chunk_)}; }

  /// Returns the number of steps of a row.
  int64_t length(const Buffers& buffers, int64_t row) const {
    if (!check_) return steps;
    return steps_of_length(integer_at(check_->dtype, buffers.inputs[lengths_], row));
  }

 private:
  size_t lengths_;
  int64_t chunk_;
  std::optional<LabelCheck> check_;
};

inline void copy_floats(const float* from, int64_t n, float* to) {
  std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
}

inline void clear(float* to, int64_t n) { std::fill_n(to, n, 0.0f); }

/// These functions write to an array of all steps, which is null if the plan omits it.
inline void store_floats(float* all, int64_t place, const float* row, int64_t n) {
  if (all) copy_floats(row, n, all + place * n);
}
inline void store_zeros(float* all, int64_t place, int64_t n) {
  if (all) clear(all + place * n, n);
}

/// The right factor of products: a matrix whose rows have `row` elements, or such a matrix stored
/// transposed.
struct Factor {
  const float* data;
  int64_t row;
  bool transposed;

  /// Returns the part that begins at this row and column.
  Factor from(int64_t first_row, int64_t first_column) const {
    return {data + (transposed ? first_column * row + first_row : first_row * row + first_column),
            row, transposed};
  }
};

/// The recurrent weight (G H, H), by which each step multiplies the states.
class StateWeight {
 public:
  /// Prepares forward steps, which multiply by the transpose of the weight. oneDNN's product copies
  /// a transposed factor in each call, which halves its speed for few rows, so all steps share one
  /// copy if there are enough of them.
  StateWeight(const Request& request, size_t operand, int64_t steps)
      : operand_(operand), shape_(request.inputs[operand].shape), transposed_(true) {
    constexpr int64_t kStepsThatPay = 4;
    if (steps < kStepsThatPay) return;
    const int64_t gates = shape_[0], units = shape_[1];
    const std::vector<StridedCopy::Axis> axes = {{units, 1, gates}, {gates, units, 1}};
    transpose_.emplace(sizeof(float), axes, 0, 0);
  }
  /// Prepares gradients, which multiply by the weight itself.
  StateWeight(const Request& request, size_t operand)
      : operand_(operand), shape_(request.inputs[operand].shape), transposed_(false) {}

  size_t bytes() const {
    return transpose_ ? static_cast<size_t>(shape_.elements()) * sizeof(float) : 0;
  }
  /// Returns the factor. `space` has bytes() bytes.
  Factor prepare(int threads, const Buffers& buffers, std::byte* space) const {
    if (!transpose_) return {input<float>(buffers, operand_), shape_[1], transposed_};
    transpose_->run(threads, buffers.inputs[operand_], space);
    return {reinterpret_cast<const float*>(space), shape_[0], false};
  }

 private:
  size_t operand_;
  Shape shape_;
  bool transposed_;
  std::optional<StridedCopy> transpose_;
};

/// The working memory of threads: arrays of floats with one row for each row of a chunk, and the
/// weight, which all threads share.
class Scratch {
 public:
  /// `widths` contains the row width of each array.
  Scratch(const Request& request, const StepOrder& order, std::initializer_list<int64_t> widths,
          StateWeight weight)
      : workers_(std::min<int64_t>(request.threads, order.chunks())), weight_(std::move(weight)) {
    for (const int64_t width : widths) {
      starts_.push_back(floats_);
      floats_ += round_up(order.most_rows() * width, 16);
    }
  }
  /// Returns array i of a worker.
  float* at(const Buffers& buffers, int worker, size_t i) const {
    return reinterpret_cast<float*>(buffers.workspace) + worker * floats_ + starts_[i];
  }
  size_t bytes() const { return own_bytes() + weight_.bytes(); }
  Factor prepare_weight(int threads, const Buffers& buffers) const {
    return weight_.prepare(threads, buffers, buffers.workspace + own_bytes());
  }

 private:
  size_t own_bytes() const { return static_cast<size_t>(workers_ * floats_) * sizeof(float); }

  std::vector<int64_t> starts_;
  int64_t floats_ = 0, workers_;
  StateWeight weight_;
};

/// The rows, `stride` apart, that a chunk computes in a step, and the index of the result of all
/// steps that stores the first `width` elements of each row. Nothing is stored if no code reads the
/// result.
struct KeptRows {
  size_t result;
  const float* rows;
  int64_t stride, width;
};

/// One chunk in one launch.
struct ChunkRun {
  const Buffers& buffers;
  const StepOrder& order;
  RowChunk rows;
  Factor weight;

  int64_t length(int64_t row) const { return order.length(buffers, rows.first + row); }
  /// Returns true if any row of the chunk has the step.
  bool any(int64_t step) const {
    for (int64_t row = 0; row < rows.count; ++row)
      if (step < length(row)) return true;
    return false;
  }
  /// Calls active(row of the chunk, its place) for rows that have the step, and idle(row, place)
  /// for the other rows, whose place is after their last step.
  template <typename Active, typename Idle>
  void for_rows(int64_t step, Active active, Idle idle) const {
    for (int64_t row = 0; row < rows.count; ++row) {
      const int64_t steps = length(row), at = rows.first + row;
      if (step < steps)
        active(row, order.place(at, step, steps));
      else
        idle(row, at * order.steps + step);
    }
  }
  /// Does the same, and then stores the rows in `kept` for active rows and zeros for the other
  /// rows.
  template <typename Active>
  void for_rows(int64_t step, std::initializer_list<KeptRows> kept, Active active) const {
    for_rows(
        step,
        [&](int64_t row, int64_t place) {
          active(row, place);
          for (const KeptRows& k : kept)
            store_floats(result(k.result), place, k.rows + row * k.stride, k.width);
        },
        [&](int64_t, int64_t place) {
          for (const KeptRows& k : kept) store_zeros(result(k.result), place, k.width);
        });
  }
  template <typename Active>
  void for_active(int64_t step, Active active) const {
    for_rows(step, active, [](int64_t, int64_t) {});
  }
  /// Return this chunk's part of an operand or result (N, H).
  const float* state(size_t i) const { return input<float>(buffers, i) + rows.first * order.units; }
  float* state_result(size_t i) const {
    return buffers.outputs.size() > i && buffers.outputs[i]
               ? output<float>(buffers, i) + rows.first * order.units
               : nullptr;
  }
  float* result(size_t i) const {
    return buffers.outputs.size() > i ? output<float>(buffers, i) : nullptr;
  }
  int64_t floats() const { return rows.count * order.units; }

  void load(size_t operand, float* to) const { copy_floats(state(operand), floats(), to); }
  void save(const float* from, size_t i) const {
    if (float* to = state_result(i)) copy_floats(from, floats(), to);
  }
  /// Returns a row's state before a step: the result of the previous step in `all`, or the initial
  /// state in operand `initial`.
  const float* before(const float* all, size_t initial, int64_t row, int64_t step) const {
    if (step == 0) return state(initial) + row * order.units;
    return all + order.place(rows.first + row, step - 1, length(row)) * order.units;
  }
};

/// Returns a kernel that calls run(ChunkRun, array) for all chunks, where array(i) is array i of
/// the worker.
template <typename Run>
Kernel over_chunks(const Request& request, StepOrder order, Scratch scratch, Run run) {
  Kernel kernel;
  kernel.workspace = scratch.bytes();
  kernel.library = "oneDNN sgemm";
  kernel.launch = [threads = request.threads, order = std::move(order),
                   scratch = std::move(scratch),
                   run](const Buffers& buffers, const CallState& state) {
    order.check(buffers, state);
    const Factor weight = scratch.prepare_weight(threads, buffers);
    parallel_for(threads, order.chunks(), [&](int64_t i, int worker) {
      run(ChunkRun{buffers, order, order.chunk(i), weight},
          [&](size_t array) { return scratch.at(buffers, worker, array); });
    });
  };
  return kernel;
}

}  // namespace flow::cpu::fast
