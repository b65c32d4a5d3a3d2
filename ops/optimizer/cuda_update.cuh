// Kernels that update many variables in one launch. The learning rate is read on the device, so
// that a captured call can be launched at any step.
#pragma once

#include "ops/optimizer/rule.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/cuda/loops/map.cuh"
#include "runtime/cuda/loops/table.cuh"

namespace flow::cuda {

/// The factor of gradients; null if there is no factor.
struct GradientFactor {
  const std::byte* factor;

  template <typename T>
  __device__ double scaled(double scale) const {
    return factor ? scale * static_cast<double>(*reinterpret_cast<const T*>(factor)) : scale;
  }
  /// Returns true if the factor is NaN, in which case the arrays stay unchanged.
  template <typename T>
  __device__ bool skipped() const {
    if (!factor) return false;
    const T value = *reinterpret_cast<const T*>(factor);
    return value != value;
  }
};

/// A gradient, and kMoved arrays that get new values: a variable, then its slots. The last arrays
/// may be read only.
template <int kMoved>
struct UpdateEntry : GradientFactor {
  const std::byte* gradient;
  const std::byte* from[kMoved];
  std::byte* to[kMoved];  // null if the array is only read
  int64_t elements;
  int32_t end;    // the first block of the next entry
  int32_t place;  // for layerwise updates: the place of the sums of the first block
};

/// Leaves the elements of the arrays unchanged; copies them unless they are updated in place.
template <typename T, int kMoved>
__device__ void keep_piece(const UpdateEntry<kMoved>& entry, const Piece& piece) {
  for (int k = 0; k < kMoved; ++k)
    if (entry.to[k] && entry.to[k] != entry.from[k])
      for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x)
        reinterpret_cast<T*>(entry.to[k])[i] = reinterpret_cast<const T*>(entry.from[k])[i];
}

/// Calls move(g, values) for the elements of a piece, 16 bytes at a time. `values` are the elements
/// of the arrays, which `move` replaces by their new values.
template <typename T, int kMoved, typename Move>
__device__ void move_piece(const UpdateEntry<kMoved>& entry, const Piece& piece, Move move) {
  constexpr int kCount = Vector<T>::kCount;
  const T* g = reinterpret_cast<const T*>(entry.gradient) + piece.first;
  const T* from[kMoved];
  T* to[kMoved];
  for (int k = 0; k < kMoved; ++k) {
    from[k] = reinterpret_cast<const T*>(entry.from[k]) + piece.first;
    to[k] = reinterpret_cast<T*>(entry.to[k]) + piece.first;
  }
  const int64_t n = piece.end - piece.first, vectors = n / kCount;
  for (int64_t i = threadIdx.x; i < vectors; i += blockDim.x) {
    const Vector<T> gs = reinterpret_cast<const Vector<T>*>(g)[i];
    Vector<T> moved[kMoved];
    for (int k = 0; k < kMoved; ++k) moved[k] = reinterpret_cast<const Vector<T>*>(from[k])[i];
    for (int lane = 0; lane < kCount; ++lane) {
      T values[kMoved];
      for (int k = 0; k < kMoved; ++k) values[k] = moved[k].values[lane];
      move(gs.values[lane], values);
      for (int k = 0; k < kMoved; ++k) moved[k].values[lane] = values[k];
    }
    for (int k = 0; k < kMoved; ++k) reinterpret_cast<Vector<T>*>(to[k])[i] = moved[k];
  }
  for (int64_t i = vectors * kCount + threadIdx.x; i < n; i += blockDim.x) {
    T values[kMoved];
    for (int k = 0; k < kMoved; ++k) values[k] = from[k][i];
    move(g[i], values);
    for (int k = 0; k < kMoved; ++k) to[k][i] = values[k];
  }
}

inline std::vector<int64_t> elements_of(std::span<const Request> requests) {
  std::vector<int64_t> elements;
  for (const Request& request : requests) elements.push_back(result_elements(request));
  return elements;
}

/// Calls run(table, shape, first) for consecutive groups of variables that fit in a table. Skips
/// groups without elements. `first` is the number of the first variable of the group.
template <int kMoved, typename Run>
void for_tables(const std::vector<int64_t>& elements, std::span<const Buffers> buffers, Run run) {
  constexpr size_t kMost = Table<UpdateEntry<kMoved>>::kMost;
  for (size_t first = 0; first < elements.size(); first += kMost) {
    const size_t end = std::min(elements.size(), first + kMost);
    Table<UpdateEntry<kMoved>> table{};
    int64_t blocks = 0;
    for (size_t i = first; i < end; ++i) {
      UpdateEntry<kMoved>& entry = table.entries[i - first];
      const Buffers& b = buffers[i];
      entry.gradient = b.inputs[0];
      entry.factor = b.inputs.size() > kMoved + 1 ? b.inputs[kMoved + 1] : nullptr;
      for (size_t k = 0; k < kMoved; ++k) {
        entry.from[k] = b.inputs[1 + k];
        entry.to[k] = k < b.outputs.size() ? b.outputs[k] : nullptr;
      }
      entry.elements = elements[i];
      entry.end = static_cast<int32_t>(blocks += chunks_of(elements[i]));
    }
    if (blocks > 0) run(table, LaunchShape{{static_cast<unsigned>(blocks)}, {kThreads}}, first);
  }
}

/// A move by the scaled gradient plus the gradient of an L2 penalty.
template <typename T, int kMoved, typename Move>
struct Decayed {
  Move move;
  T scale, l2;
  __device__ void operator()(T g, T (&values)[kMoved]) const {
    move(scale * g + l2 * values[0], values);
  }
};

template <typename T, typename Rule>
__global__ void update(Table<UpdateEntry<Rule::kMoved>> table, Rule rule, const CallBlock* block) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<Rule::kMoved>& entry = table.entries[piece.index];
  const optimizers::UpdateCall call = rule.seen(*block);
  if (entry.template skipped<T>() || optimizers::is_idle<T>(rule, call))
    return keep_piece<T>(entry, piece);
  const double scaled = entry.template scaled<T>(rule.scale);
  if (rule.l2 == 0) return move_piece<T>(entry, piece, rule.template at<T>(scaled, call));
  const auto move = rule.template at<T>(1, call);
  move_piece<T>(entry, piece,
                Decayed<T, Rule::kMoved, std::decay_t<decltype(move)>>{move, static_cast<T>(scaled),
                                                                       static_cast<T>(rule.l2)});
}

/// Returns the updates of variables by a rule, which are launched together.
template <typename Rule>
Updates updates_by(std::span<const Request> requests) {
  const Rule rule(requests[0].step.attributes);
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[name = requests[0].step.op->name.data(), rule, elements = elements_of(requests)](
                std::span<const Buffers> buffers, const LaunchState& state) {
      for_tables<Rule::kMoved>(elements, buffers,
                               [&](const auto& table, const LaunchShape& shape, size_t) {
                                 launch(state.driver, state.stream, name, shape, update<T, Rule>,
                                        table, rule, state.call);
                               });
    }};
  });
}

/// A sparse gradient [count, width], the indices of its rows, and the arrays that move: a variable
/// of `extent` rows, then its slots.
template <int kMoved>
struct SparseEntry : GradientFactor {
  static constexpr size_t kIndices = 1 + kMoved;  // the operand with the indices
  const std::byte* gradient;
  const int64_t* indices;
  std::byte* to[kMoved];
  int64_t count, width, extent;
};

/// Copies the elements of an array that is not updated in place.
template <typename T>
__global__ void keep_elements(const T* from, T* to, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) to[i] = from[i];
}

/// Moves the rows that have an index. REQUIRES: no valid index occurs twice.
template <typename T, typename Rule>
__global__ void update_rows(SparseEntry<Rule::kMoved> entry, Rule rule, const CallBlock* call) {
  if (entry.template skipped<T>()) return;
  const auto move = rule.template at<T>(entry.template scaled<T>(rule.scale), rule.seen(*call));
  for (int64_t at = first_index(); at < entry.count * entry.width; at += index_step()) {
    const int64_t r = at / entry.width, index = entry.indices[r];
    if (index < 0 || index >= entry.extent) continue;
    const int64_t place = index * entry.width + (at - r * entry.width);
    T values[Rule::kMoved];
    for (int k = 0; k < Rule::kMoved; ++k) values[k] = reinterpret_cast<T*>(entry.to[k])[place];
    move(reinterpret_cast<const T*>(entry.gradient)[at], values);
    for (int k = 0; k < Rule::kMoved; ++k) reinterpret_cast<T*>(entry.to[k])[place] = values[k];
  }
}

/// Returns a kernel that updates rows of a variable by a rule. The operands are the rows, the
/// variable, its slots, the indices and the factor.
template <typename Rule>
Kernel sparse_update_by(const Request& request) {
  using Entry = SparseEntry<Rule::kMoved>;
  const Rule rule(request.step.attributes);
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[name = request.step.op->name.data(), rule,
             count = request.inputs[Entry::kIndices].shape.elements(),
             elements = request.inputs[0].shape.elements(), extent = request.inputs[1].shape[0],
             n = result_elements(request)](const Buffers& buffers, const LaunchState& state) {
      Entry entry{};
      entry.gradient = buffers.inputs[0];
      entry.indices = input<int64_t>(buffers, Entry::kIndices);
      entry.factor = buffers.inputs.size() > Entry::kIndices + 1
                         ? buffers.inputs[Entry::kIndices + 1]
                         : nullptr;
      entry.count = count;
      entry.width = elements / count;
      entry.extent = extent;
      for (size_t k = 0; k < Rule::kMoved; ++k) {
        entry.to[k] = buffers.outputs[k];
        if (entry.to[k] != buffers.inputs[1 + k])
          launch(state.driver, state.stream, "keep_elements", shape_for(n), keep_elements<T>,
                 input<T>(buffers, 1 + k), output<T>(buffers, k), n);
      }
      launch(state.driver, state.stream, name, shape_for(elements), update_rows<T, Rule>, entry,
             rule, state.call);
    }};
  });
}

}  // namespace flow::cuda
