// Updates whose rate for a variable depends on the whole of it: LARS, LAMB and Adafactor, whose
// means of squares have a kernel. One pass sums squares for each chunk, one finds the rate of each
// variable, and one moves all of them.
#include <cmath>

#include "ops/optimizer/cuda_piece_sums.h"
#include "ops/optimizer/cuda_update.cuh"
#include "runtime/base/optimizer_math.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/team.cuh"

namespace flow::cuda {
namespace {

/// Two sums over a variable, or a chunk of it.
struct TwoSums {
  double first, second;
};

/// Adds up what the block's threads have, and stores it.
__device__ void store_sums(TwoSums own, TwoSums* to) {
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

/// Of the variable, and of the gradient before its scale.
struct LarsRule {
  static constexpr int kMoved = 2;
  double scale, momentum, epsilon, coefficient, weight_decay;

  explicit LarsRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        momentum(attribute<double>(request, "momentum_beta")),
        epsilon(attribute<double>(request, "epsilon")),
        coefficient(attribute<double>(request, "lars_coefficient")),
        weight_decay(attribute<double>(request, "weight_decay")) {}

  template <typename T>
  __device__ TwoSums squares(const UpdateEntry<kMoved>& entry, const Piece& piece,
                             const CallBlock&) const {
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    TwoSums sums{};
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      sums.first += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      sums.second += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    }
    return sums;
  }

  /// Norms are root mean squares.
  __device__ double rate(TwoSums sums, double scaled, int64_t elements,
                         const CallBlock& call) const {
    const double size = std::sqrt(sums.first / static_cast<double>(elements));
    const double slope = std::abs(scaled) * std::sqrt(sums.second / static_cast<double>(elements));
    const bool any = size > 0 && slope > 0;
    return call.learning_rate *
           (any ? coefficient * size / (slope + weight_decay * size + epsilon) : 1);
  }

  /// m = b*m - r*(scale*g + wd*w), w += m
  template <typename T>
  struct Move {
    T scale, momentum, weight_decay, negative_rate;
    __device__ void operator()(T g, T (&values)[kMoved]) const {
      values[1] = momentum * values[1] + negative_rate * (scale * g + weight_decay * values[0]);
      values[0] = values[0] + values[1];
    }
  };
  template <typename T>
  __device__ void move(const UpdateEntry<kMoved>& entry, const Piece& piece, double rate,
                       const CallBlock&) const {
    const double scaled = entry.template scaled<T>(scale);
    move_piece<T>(entry, piece,
                  Move<T>{static_cast<T>(scaled), static_cast<T>(momentum),
                          static_cast<T>(weight_decay), static_cast<T>(-rate)});
  }
};

/// Of the variable, and of its movement, for which m and v move first.
struct LambRule : MeansRule {
  using MeansRule::MeansRule;

  template <typename T>
  struct Movement {
    T mean_correction, root_correction, epsilon, weight_decay;
    __device__ T operator()(T w, T m, T v) const {
      return mean_correction * m / (root_correction * std::sqrt(v) + epsilon) + weight_decay * w;
    }
  };
  template <typename T>
  __device__ Movement<T> movement(const CallBlock& call) const {
    return {static_cast<T>(1 / gathered(beta1, true, call.step)),
            static_cast<T>(1 / std::sqrt(gathered(beta2, true, call.step))),
            static_cast<T>(epsilon), static_cast<T>(weight_decay)};
  }

  template <typename T>
  __device__ TwoSums squares(const UpdateEntry<kMoved>& entry, const Piece& piece,
                             const CallBlock& call) const {
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* old_m = reinterpret_cast<const T*>(entry.from[1]);
    const T* old_v = reinterpret_cast<const T*>(entry.from[2]);
    const Means<T> means = this->means<T>(entry.template scaled<T>(scale));
    const Movement<T> moves = movement<T>(call);
    TwoSums sums{};
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      T values[kMoved] = {w[i], old_m[i], old_v[i]};
      means.move(g[i], values);
      const auto [variable, m, v] = values;
      const auto a = static_cast<double>(moves(variable, m, v));
      sums.first += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      sums.second += a * a;
      reinterpret_cast<T*>(entry.to[1])[i] = m;
      reinterpret_cast<T*>(entry.to[2])[i] = v;
    }
    return sums;
  }

  __device__ double rate(TwoSums sums, double, int64_t, const CallBlock& call) const {
    const bool any = sums.first > 0 && sums.second > 0;
    return call.learning_rate * (any ? std::sqrt(sums.first) / std::sqrt(sums.second) : 1);
  }

  /// w -= r*a
  template <typename T>
  __device__ void move(const UpdateEntry<kMoved>& entry, const Piece& piece, double rate,
                       const CallBlock& call) const {
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* m = reinterpret_cast<const T*>(entry.to[1]);
    const T* v = reinterpret_cast<const T*>(entry.to[2]);
    const Movement<T> moves = movement<T>(call);
    const auto negative_rate = static_cast<T>(-rate);
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x)
      reinterpret_cast<T*>(entry.to[0])[i] = w[i] + negative_rate * moves(w[i], m[i], v[i]);
  }
};

Updates prepare_lars_update(std::span<const Request> requests) {
  return layerwise<LarsRule>("lars_update", requests);
}

Updates prepare_lamb_update(std::span<const Request> requests) {
  return layerwise<LambRule>("lamb_update", requests);
}

/// An entry's `gradient` is the square, and what moves is its mean.
template <typename T>
__global__ void move_means(Table<UpdateEntry<1>> table, double scale, double decay,
                           const CallBlock* call) {
  const Piece piece = piece_of_block(table);
  const UpdateEntry<1>& entry = table.entries[piece.index];
  if (entry.skipped<T>()) return keep_piece<T>(entry, piece);
  const double scaled = entry.scaled<T>(scale);
  const T square_scale = static_cast<T>(scaled * scaled);
  const T share = static_cast<T>(share_of_squares(decay, call->step));
  move_piece<T>(entry, piece, [=](T square, T(&values)[1]) {
    values[0] = values[0] + share * (square_scale * square - values[0]);
  });
}

/// The second array is the mean squares, which stay as they are.
struct AdafactorRule {
  static constexpr int kMoved = 2;
  double scale, epsilon1, rate_scale, weight_decay;
  AdafactorLimits limits;

  explicit AdafactorRule(const Request& request)
      : scale(attribute<double>(request, "scale")),
        epsilon1(attribute<double>(request, "epsilon1")),
        rate_scale(attribute<double>(request, "rate_scale")),
        weight_decay(attribute<double>(request, "weight_decay")),
        limits{attribute<double>(request, "epsilon2"),
               attribute<double>(request, "clip_threshold")} {}

  template <typename T>
  struct Direction {
    T scale, epsilon1;
    __device__ T operator()(T g, T mean_square) const {
      const T root = std::sqrt(mean_square);
      return scale * g / (root < epsilon1 ? epsilon1 : root);
    }
  };
  template <typename T>
  __device__ Direction<T> direction(const UpdateEntry<kMoved>& entry) const {
    return {static_cast<T>(entry.template scaled<T>(scale)), static_cast<T>(epsilon1)};
  }

  template <typename T>
  __device__ TwoSums squares(const UpdateEntry<kMoved>& entry, const Piece& piece,
                             const CallBlock&) const {
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* mean_square = reinterpret_cast<const T*>(entry.from[1]);
    const Direction<T> direction_of = direction<T>(entry);
    TwoSums sums{};
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x) {
      const auto u = static_cast<double>(direction_of(g[i], mean_square[i]));
      sums.first += static_cast<double>(w[i]) * static_cast<double>(w[i]);
      sums.second += u * u;
    }
    return sums;
  }

  __device__ double rate(TwoSums sums, double, int64_t elements, const CallBlock& call) const {
    const auto size_of = [elements](double sum) {
      return std::sqrt(sum / static_cast<double>(elements));
    };
    return limits.rate(size_of(sums.first), size_of(sums.second), call.learning_rate, call.step);
  }

  template <typename T>
  __device__ void move(const UpdateEntry<kMoved>& entry, const Piece& piece, double rate,
                       const CallBlock& call) const {
    const T* g = reinterpret_cast<const T*>(entry.gradient);
    const T* w = reinterpret_cast<const T*>(entry.from[0]);
    const T* mean_square = reinterpret_cast<const T*>(entry.from[1]);
    const Direction<T> direction_of = direction<T>(entry);
    const auto negative_rate = static_cast<T>(-rate);
    const auto decay = static_cast<T>(-call.at_rate(rate_scale).learning_rate * weight_decay);
    for (int64_t i = piece.first + threadIdx.x; i < piece.end; i += blockDim.x)
      reinterpret_cast<T*>(entry.to[0])[i] =
          w[i] + (negative_rate * direction_of(g[i], mean_square[i]) + decay * w[i]);
  }
};

Updates prepare_adafactor_mean(std::span<const Request> requests) {
  const auto scale = attribute<double>(requests[0], "scale");
  const auto decay = attribute<double>(requests[0], "beta2_decay");
  return visit_float(requests[0].inputs[0].dtype, [&]<typename T>(T) -> Updates {
    return {[scale, decay, elements = elements_of(requests)](std::span<const Buffers> buffers,
                                                             const LaunchState& state) {
      for_tables<1>(elements, buffers, [&](const auto& table, const LaunchShape& shape, size_t) {
        launch(state.driver, state.stream, "adafactor_mean", shape, move_means<T>, table, scale,
               decay, state.call);
      });
    }};
  });
}

Updates prepare_adafactor_update(std::span<const Request> requests) {
  return layerwise<AdafactorRule>("adafactor_update", requests);
}

}  // namespace

std::span<const KernelEntry> kernels::layerwise_updates() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "lars_update", .prepare_updates = prepare_lars_update},
      {.op = "lamb_update", .prepare_updates = prepare_lamb_update},
      {.op = "adafactor_mean", .prepare_updates = prepare_adafactor_mean},
      {.op = "adafactor_update", .prepare_updates = prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
