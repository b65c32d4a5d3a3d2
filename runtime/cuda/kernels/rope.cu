// rope and its gradient: a thread for each pair of features, which finds its angle from a table of
// frequencies that lies in the device's memory from the start.
#include <cmath>
#include <memory>
#include <vector>

#include "ops/rope_frequencies.h"
#include "runtime/cuda/driver/handles.h"
#include "runtime/cuda/kernels/families.h"
#include "runtime/cuda/loops/integers.cuh"
#include "runtime/cuda/loops/operands.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

constexpr double kTurn = 6.283185307179586;

/// x, y: (rows, depth), of whose features the first 2 pairs turn.
struct Rotation {
  int64_t rows, length, depth, pairs;
  bool halves;
  double sign;                // -1: the other way
  const double* frequencies;  // on the device
  Integers positions;         // without data: 0, 1, ...
  int64_t rows_of_positions;  // rows that share a vector of positions

  __device__ double position(int64_t row) const {
    const int64_t place = row % length;
    if (!positions.data) return static_cast<double>(place);
    return static_cast<double>(positions[row / rows_of_positions * length + place]);
  }
};

/// What of an angle is left without whole turns: sines of T lose nothing then.
template <typename T>
__device__ T angle_of(double position, double frequency) {
  const double angle = position * frequency;
  if constexpr (sizeof(T) == sizeof(double)) return angle;
  return static_cast<T>(angle - kTurn * rint(angle / kTurn));
}

/// Threads of a row: one for each pair, and one for each feature that is only copied. y may be x.
template <typename T>
__global__ void rotate(Rotation r, const T* x, T* y) {
  const int64_t copied = r.depth - 2 * r.pairs, width = r.pairs + copied;
  for (int64_t at = first_index(); at < r.rows * width; at += index_step()) {
    const int64_t row = at / width, i = at % width;
    if (i >= r.pairs) {
      const int64_t same = row * r.depth + i + r.pairs;
      y[same] = x[same];
      continue;
    }
    const T angle = angle_of<T>(r.position(row), r.frequencies[i]);
    const T cos = std::cos(angle), sin = static_cast<T>(r.sign) * std::sin(angle);
    const int64_t first = row * r.depth + (r.halves ? i : 2 * i);
    const int64_t second = r.halves ? first + r.pairs : first + 1;
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

Kernel prepare_rotation(const Request& request, const char* name, double sign) {
  const Shape& x = request.inputs[0].shape;
  const int rank = x.rank();
  const auto frequencies = std::make_shared<const DeviceNumbers>(
      request.driver, ops::rope_frequencies(request.step.attributes));
  Rotation r{x.elements(0, rank - 1),
             x[rank - 2],
             x[rank - 1],
             attribute<int64_t>(request, "dims") / 2,
             ops::rope_splits_halves(request.step.attributes),
             sign,
             frequencies->get(),
             {nullptr, DType::kInt32},
             1};
  const bool placed = request.inputs.size() > 1;
  if (placed) {
    r.positions.dtype = request.inputs[1].dtype;
    r.rows_of_positions = request.inputs[1].shape.rank() == 2 ? r.rows / x[0] : r.rows;
  }
  return visit_float(request.inputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=](const Buffers& b, const LaunchState& state) {
      Rotation own = r;
      if (placed) own.positions.data = b.inputs[1];
      launch(state.driver, state.stream, name, shape_for(r.rows * (r.depth - r.pairs)), rotate<T>,
             own, input<T>(b, 0), output<T>(b, 0));
      static_cast<void>(frequencies);  // kept as long as the launch
    }};
  });
}

Kernel prepare_rope(const Request& request) { return prepare_rotation(request, "rope", 1); }
Kernel prepare_rope_grad(const Request& request) {
  return prepare_rotation(request, "rope_grad", -1);
}

}  // namespace

std::span<const KernelEntry> kernels::rope() {
  static constexpr KernelEntry kKernels[] = {
      {"rope", prepare_rope, Order::kOwn},
      {"rope_grad", prepare_rope_grad, Order::kOwn},
  };
  return kKernels;
}

}  // namespace flow::cuda
