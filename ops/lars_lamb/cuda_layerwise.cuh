// Updates whose rate for a variable depends on norms of the whole of it. One pass sums squares for
// each chunk, one finds the rate of each variable, one moves all of them.
#pragma once

#include <cmath>

#include "ops/optimizer/cuda_piece_sums.h"
#include "ops/optimizer/cuda_update.cuh"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {

/// Two sums over a variable, or a chunk of it.
struct TwoSums {
  double first, second;
};

/// Adds up what the block's threads have, and stores it.
__device__ inline void store_sums(TwoSums own, TwoSums* to) {
  const double first = over_block(own.first, Sum{}), second = over_block(own.second, Sum{});
  if (threadIdx.x == 0) *to = {first, second};
}

template <typename T, typename Rule>
__global__ void sum_of_chunks(Table<UpdateEntry<Rule::kMoved>> table, Rule rule,
                              const CallBlock* call, TwoSums* sums) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<Rule::kMoved>& entry = table.entries[piece.index];
  if (entry.template skipped<T>()) return;
  const int64_t first = piece.index ? table.entries[piece.index - 1].end : 0;
  store_sums(rule.template squares<T>(entry, piece, *call),
             sums + entry.place + blockIdx.x - first);
}

/// A variable of which this rank has elements. Its chunks, on all ranks, have sums [first, end).
struct RateEntry : GradientFactor {
  int64_t elements;  // of all ranks
  int64_t first, end;
  int64_t place;  // of the rate
};

/// A block for each variable: its rate, in the place of the sums of the first chunk here.
template <typename T, typename Rule>
__global__ void find_rates(Table<RateEntry> table, Rule rule, double rate_scale,
                           const CallBlock* call, TwoSums* sums) {
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
  sums[entry.place].first = rule.rate(all, scaled, entry.elements, call->at_rate(rate_scale));
}

template <typename T, typename Rule>
__global__ void move_all(Table<UpdateEntry<Rule::kMoved>> table, Rule rule, const CallBlock* call,
                         const TwoSums* sums) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<Rule::kMoved>& entry = table.entries[piece.index];
  if (entry.template skipped<T>()) return keep_piece<T>(entry, piece);
  rule.template move<T>(entry, piece, sums[entry.place].first, *call);
}

/// Updates of several variables by one rule: `squares` of a chunk, the `rate` that follows from
/// those of all chunks, and `move` by it.
template <typename Rule>
class Layerwise {
 public:
  Layerwise(const char* name, std::span<const Request> requests)
      : name_(name),
        rule_(requests[0]),
        rate_scale_(attribute<double>(requests[0], "rate_scale")),
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
  static constexpr int kFactor = Rule::kMoved + 1;  // the operand, where there is one
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
             rule_, rate_scale_, state.call, sums_of(buffers));
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
  double rate_scale_;
  std::vector<int64_t> elements_, whole_elements_;
  PieceSums pieces_;
};

template <typename Rule>
Updates layerwise(const char* name, std::span<const Request> requests) {
  const Layerwise<Rule> layerwise(name, requests);
  return visit_float(requests[0].inputs[0].dtype,
                     [&]<typename T>(T) -> Updates { return layerwise.template updates<T>(); });
}

}  // namespace flow::cuda
