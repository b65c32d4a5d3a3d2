// CUDA kernels of updates by rules whose rate for a variable depends on the whole variable. One
// pass sums squares for each chunk, one finds the rate of each variable, and one moves all
// variables.
#pragma once

#include "ops/optimizer/cuda_piece_sums.h"
#include "ops/optimizer/cuda_update.cuh"
#include "ops/optimizer/layerwise.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

using optimizers::TwoSums;

/// Adds up the sums of all threads of the block and stores the total.
__device__ void store_sums(TwoSums own, TwoSums* to) {
  const double first = over_block(own.first, Sum{}), second = over_block(own.second, Sum{});
  if (threadIdx.x == 0) *to = {first, second};
}

/// Returns the sums of squares of the terms of this thread's elements.
template <typename T, typename Rule>
__device__ TwoSums squares_of(const UpdateEntry<Rule::kMoved>& entry, const Piece& piece,
                              const Rule& rule, const CallBlock& call) {
  const T* g = reinterpret_cast<const T*>(entry.gradient);
  const auto terms = rule.template terms<T>(entry.template scaled<T>(rule.scale), rule.seen(call));
  TwoSums sums{};
  for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
    T values[Rule::kMoved];
    for (int k = 0; k < Rule::kMoved; ++k) values[k] = reinterpret_cast<const T*>(entry.from[k])[i];
    const optimizers::Pair<T> found = terms(g[i], values);
    const auto x = static_cast<double>(found.first), y = static_cast<double>(found.second);
    sums.first += x * x;
    sums.second += y * y;
    if constexpr (Rule::kMovesSlots)
      for (int k = 1; k < Rule::kMoved; ++k) reinterpret_cast<T*>(entry.to[k])[i] = values[k];
  }
  return sums;
}

template <typename T, typename Rule>
__global__ void sum_of_chunks(Table<UpdateEntry<Rule::kMoved>> table, Rule rule,
                              const CallBlock* call, TwoSums* sums) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<Rule::kMoved>& entry = table.entries[piece.index];
  if (entry.template skipped<T>()) return;
  const int64_t first = piece.index ? table.entries[piece.index - 1].end : 0;
  store_sums(squares_of<T>(entry, piece, rule, *call), sums + entry.place + blockIdx.x - first);
}

/// A variable of which this rank has elements. Its chunks on all ranks have the sums [first, end).
struct RateEntry : GradientFactor {
  int64_t elements;  // on all ranks
  int64_t first, end;
  int64_t place;  // where the rate is stored
};

/// Computes the rate of each variable and stores it in the place of the sums of this rank's first
/// chunk. One block handles one variable.
template <typename T, typename Rule>
__global__ void find_rates(Table<RateEntry> table, Rule rule, const CallBlock* call,
                           TwoSums* sums) {
  const RateEntry& entry = table.entries[blockIdx.x];
  if (entry.template skipped<T>()) return;
  TwoSums own{};
  for (int64_t i = entry.first + threadIdx.x; i < entry.end; i += blockDim.x) {
    own.first += sums[i].first;
    own.second += sums[i].second;
  }
  const TwoSums all{over_block(own.first, Sum{}), over_block(own.second, Sum{})};
  __syncthreads();
  if (threadIdx.x > 0) return;
  const double scaled = entry.template scaled<T>(rule.scale);
  sums[entry.place].first =
      rule.rate(all, scaled, static_cast<double>(entry.elements), rule.seen(*call));
}

/// Moves the elements of a piece and writes the first kWritten arrays. Slots that the terms have
/// already moved are read from their new place.
template <typename T, typename Rule, typename Move>
__device__ void move_written(const UpdateEntry<Rule::kMoved>& entry, const Piece& piece,
                             Move move) {
  const T* g = reinterpret_cast<const T*>(entry.gradient);
  for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
    T values[Rule::kMoved];
    for (int k = 0; k < Rule::kMoved; ++k)
      values[k] =
          reinterpret_cast<const T*>(Rule::kMovesSlots && k > 0 ? entry.to[k] : entry.from[k])[i];
    move(g[i], values);
    for (int k = 0; k < Rule::kWritten; ++k) reinterpret_cast<T*>(entry.to[k])[i] = values[k];
  }
}

template <typename T, typename Rule>
__global__ void move_all(Table<UpdateEntry<Rule::kMoved>> table, Rule rule, const CallBlock* call,
                         const TwoSums* sums) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<Rule::kMoved>& entry = table.entries[piece.index];
  if (entry.template skipped<T>()) return keep_piece<T>(entry, piece);
  const auto move = rule.template at<T>(entry.template scaled<T>(rule.scale),
                                        sums[entry.place].first, rule.seen(*call));
  if constexpr (Rule::kWritten == Rule::kMoved)
    move_piece<T>(entry, piece, move);
  else
    move_written<T, Rule>(entry, piece, move);
}

/// Updates of several variables by one rule.
template <typename Rule>
class Layerwise {
 public:
  explicit Layerwise(std::span<const Request> requests)
      : name_(requests[0].step.op->name.data()),
        rule_(requests[0].step.attributes),
        elements_(elements_of(requests)),
        pieces_(variables_of(requests), kChunk, requests[0].rank, false) {
    for (const Request& request : requests)
      whole_elements_.push_back(request.inputs[0].whole_elements());
  }

  template <typename T>
  Updates updates() const {
    const auto sum = [*this](std::span<const Buffers> buffers, const LaunchState& state) {
      launch_tables(buffers, state, kShared, sum_of_chunks<T, Rule>);
    };
    const auto move = [*this](std::span<const Buffers> buffers, const LaunchState& state) {
      pieces_.put_in_order(buffers[0].workspace, sizeof(TwoSums), state);
      launch_rates<T>(buffers, state);
      launch_tables(buffers, state, 0, move_all<T, Rule>);
    };
    return around_gather<Updates>(pieces_, sizeof(TwoSums), sum, move);
  }

 private:
  static constexpr int kFactor = Rule::kMoved + 1;  // the operand with the factor, if there is one
  static constexpr size_t kShared = kThreads / kWarp * sizeof(double);

  static std::vector<TensorDesc> variables_of(std::span<const Request> requests) {
    std::vector<TensorDesc> variables;
    for (const Request& request : requests) variables.push_back(request.inputs[1]);
    return variables;
  }

  static TwoSums* sums_of(std::span<const Buffers> buffers) {
    return reinterpret_cast<TwoSums*>(buffers[0].workspace);
  }

  template <typename KernelOf>
  void launch_tables(std::span<const Buffers> buffers, const LaunchState& state,
                     size_t shared_bytes, KernelOf kernel) const {
    for_tables<Rule::kMoved>(elements_, buffers, [&](auto& table, LaunchShape shape, size_t first) {
      const size_t end = std::min(elements_.size(), first + table.kMost);
      for (size_t i = first; i < end; ++i)
        table.entries[i - first].place = static_cast<int32_t>(pieces_.place(i));
      shape.shared_bytes = shared_bytes;
      launch(state.driver, state.stream, name_, shape, kernel, table, rule_, state.call,
             sums_of(buffers));
    });
  }

  template <typename T>
  void launch_rates(std::span<const Buffers> buffers, const LaunchState& state) const {
    Table<RateEntry> table{};
    unsigned variables = 0;
    const auto launch_table = [&] {
      launch(state.driver, state.stream, name_,
             {{std::exchange(variables, 0U)}, {kThreads}, kShared}, find_rates<T, Rule>, table,
             rule_, state.call, sums_of(buffers));
    };
    for (size_t i = 0; i < elements_.size(); ++i) {
      if (elements_[i] == 0) continue;
      const auto& inputs = buffers[i].inputs;
      table.entries[variables++] = {{inputs.size() > kFactor ? inputs[kFactor] : nullptr},
                                    whole_elements_[i],
                                    pieces_.first(i),
                                    pieces_.end(i),
                                    pieces_.place(i)};
      if (variables == table.kMost) launch_table();
    }
    if (variables > 0) launch_table();
  }

  const char* name_;
  Rule rule_;
  std::vector<int64_t> elements_, whole_elements_;
  PieceSums pieces_;
};

template <typename Rule>
Updates layerwise_by(std::span<const Request> requests) {
  const Layerwise<Rule> layerwise(requests);
  return visit_float(requests[0].inputs[0].dtype,
                     [&]<typename T>(T) -> Updates { return layerwise.template updates<T>(); });
}

}  // namespace flow::cuda
