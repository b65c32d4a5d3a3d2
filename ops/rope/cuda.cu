// Kernels of rope and of its gradient: a thread for each pair of features computes its angle from a
// table of frequencies that is copied to device memory in advance.
#include <cmath>
#include <memory>
#include <numbers>
#include <vector>

#include "ops/core/spec.h"
#include "ops/rope/frequencies.h"
#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/loops.h"

namespace flow::cuda {
namespace {

constexpr double kHalfTurn = std::numbers::pi;
constexpr double kHalfTurnRest = 1.2246467991473532e-16;  // pi minus the value of that double

/// x and y are (rows, depth), and the first 2 * pairs features are rotated. All numbers of elements
/// fit Index.
template <typename Index>
struct Rotation {
  Index rows, depth, pairs;
  Divider width, length, rows_of_positions;  // divide by threads per row and by these sizes
  bool halves;
  double sign;                // -1 for the opposite direction
  const double* frequencies;  // a table in device memory
  Integers positions;         // no data if positions are 0, 1, ...
  int64_t places;             // the extent of a vector of positions

  __device__ double position(Index row) const {
    const Index place = length.divide(row).remainder;
    if (!positions.data) return static_cast<double>(place);
    const Index vector = rows_of_positions.divide(row).quotient;
    return static_cast<double>(positions[vector * places + place]);
  }
};

/// The cosine and sine of an angle in radians. Half turns are subtracted first: the rest fits a
/// float, and sincospi reduces it without local memory.
template <typename T>
struct CosineSine {
  T cos, sin;

  __device__ explicit CosineSine(double angle) {
    const double half_turns = rint(angle / kHalfTurn);
    const double rest = fma(-half_turns, kHalfTurnRest, fma(-half_turns, kHalfTurn, angle));
    const auto part = static_cast<T>(rest / kHalfTurn);
#ifdef FLOW_CUDA_ON_CPU
    cos = std::cos(static_cast<T>(kHalfTurn) * part);
    sin = std::sin(static_cast<T>(kHalfTurn) * part);
#else
    if constexpr (sizeof(T) == sizeof(double))
      sincospi(part, &sin, &cos);
    else
      sincospif(part, &sin, &cos);
#endif
    if (half_turns == 2 * rint(half_turns / 2)) return;
    cos = -cos;
    sin = -sin;
  }
};

/// Rotates x into y. Each row has one thread for each pair and one for each feature that is only
/// copied. y may alias x.
template <typename Index, typename T>
__global__ void rotate(Rotation<Index> r, const T* x, T* y) {
  const int64_t threads = static_cast<int64_t>(r.rows) * (r.depth - r.pairs);
  for (int64_t at = first_index(); at < threads; at += index_step()) {
    const auto [row, i] = r.width.divide(static_cast<Index>(at));
    if (i >= r.pairs) {
      const Index same = row * r.depth + i + r.pairs;
      y[same] = x[same];
      continue;
    }
    const CosineSine<T> turn(r.position(row) * r.frequencies[i]);
    const T cos = turn.cos, sin = static_cast<T>(r.sign) * turn.sin;
    const Index first = row * r.depth + (r.halves ? i : 2 * i);
    const Index second = r.halves ? first + r.pairs : first + 1;
    const T one = x[first], other = x[second];
    y[first] = one * cos - other * sin;
    y[second] = other * cos + one * sin;
  }
}

/// A copy of numbers in the device's memory.
class DeviceNumbers {
 public:
  DeviceNumbers(Driver& driver, const std::vector<double>& numbers)
      : memory_(driver, driver.allocate(numbers.size() * sizeof(double))) {
    const OwnedStream stream(driver, driver.create_stream());
    driver.copy(memory_.get(), numbers.data(), numbers.size() * sizeof(double), stream.get());
    driver.synchronize(stream.get());
  }

  const double* get() const { return reinterpret_cast<const double*>(memory_.get()); }

 private:
  DeviceBytes memory_;
};

template <typename Index>
Kernel rotation_of(const Request& request, double sign) {
  const ops::Rope rope = ops::rope_of(request);
  const auto frequencies = std::make_shared<const DeviceNumbers>(
      request.driver, ops::rope_frequencies(request.step.attributes));
  const Rotation<Index> r{static_cast<Index>(rope.rows),
                          static_cast<Index>(rope.depth),
                          static_cast<Index>(rope.pairs),
                          Divider(rope.depth - rope.pairs),
                          Divider(rope.length),
                          Divider(rope.rows_of_positions),
                          rope.halves,
                          sign,
                          frequencies->get(),
                          {nullptr, rope.positions.value_or(DType::kInt32)},
                          rope.length};
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    // The launch keeps the frequencies alive.
    return {[r, frequencies, placed = rope.positions.has_value(),
             name = request.step.op->name.data(), threads = rope.rows * (rope.depth - rope.pairs)](
                const Buffers& b, const LaunchState& state) {
      Rotation<Index> bound = r;
      if (placed) bound.positions.data = b.inputs[1];
      launch(state, name, shape_for(threads), rotate<Index, T>, bound, input<T>(b, 0),
             output<T>(b, 0));
    }};
  });
}

template <int kSign>
Kernel prepare_rotation(const Request& request) {
  return result_elements(request) < kNarrow ? rotation_of<int32_t>(request, kSign)
                                            : rotation_of<int64_t>(request, kSign);
}

}  // namespace

std::span<const KernelEntry> kernels::rope() {
  static constexpr KernelEntry kKernels[] = {
      {"rope", prepare_rotation<1>, Order::kOwn},
      {"rope_grad", prepare_rotation<-1>, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
