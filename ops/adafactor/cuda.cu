// Adafactor: means of squares, and updates whose rate depends on the sizes of a variable and of its
// update.
#include <cmath>

#include "ops/lars_lamb/cuda_layerwise.cuh"
#include "runtime/base/adafactor_rates.h"
#include "runtime/cuda/loops/families.h"

namespace flow::cuda {
namespace {

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

std::span<const KernelEntry> kernels::adafactor() {
  static constexpr KernelEntry kKernels[] = {
      {.op = "adafactor_mean", .prepare_updates = prepare_adafactor_mean},
      {.op = "adafactor_update", .prepare_updates = prepare_adafactor_update},
  };
  return kKernels;
}

}  // namespace flow::cuda
