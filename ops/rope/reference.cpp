// Reference: rotary position embedding and its gradient, pair by pair in double.
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/rope/frequencies.h"
#include "runtime/cpu/backend/families.h"
#include "runtime/cpu/loops/operands.h"

namespace flow::cpu::reference {
namespace {

/// `sign`: -1 turns the other way.
struct Rotation : ops::Rope {
  Rotation(const Request& request, double turned)
      : Rope(ops::rope_of(request)),
        frequencies(ops::rope_frequencies(request.step.attributes)),
        sign(turned) {}

  double position(const Buffers& b, int64_t row) const {
    const int64_t place = row % length;
    if (!positions) return static_cast<double>(place);
    return static_cast<double>(
        integer_at(*positions, b.inputs[1], row / rows_of_positions * length + place));
  }

  std::vector<double> frequencies;
  double sign;
};

template <typename T>
void rotate_row(const Rotation& r, const Buffers& b, int64_t row) {
  const T* x = input<T>(b, 0) + row * r.depth;
  T* y = output<T>(b, 0) + row * r.depth;
  const size_t pairs = r.frequencies.size();
  if (x != y) std::memcpy(y, x, static_cast<size_t>(r.depth) * sizeof(T));
  for (size_t i = 0; i < pairs; ++i) {
    const double angle = r.position(b, row) * r.frequencies[i];
    const double cos = std::cos(angle), sin = r.sign * std::sin(angle);
    const size_t first = r.halves ? i : 2 * i, second = r.halves ? i + pairs : 2 * i + 1;
    const auto one = static_cast<double>(y[first]), other = static_cast<double>(y[second]);
    y[first] = static_cast<T>(one * cos - other * sin);
    y[second] = static_cast<T>(other * cos + one * sin);
  }
}

Kernel prepare_rotation(const Request& request, double sign) {
  Kernel kernel;
  visit_float(request.inputs[0].dtype, [&]<typename T>(T) {
    kernel.launch = [r = Rotation(request, sign)](const Buffers& b, const CallState&) {
      for (int64_t row = 0; row < r.rows; ++row) rotate_row<T>(r, b, row);
    };
  });
  return kernel;
}

Kernel prepare_rope(const Request& request) { return prepare_rotation(request, 1); }
Kernel prepare_rope_grad(const Request& request) { return prepare_rotation(request, -1); }

}  // namespace

std::span<const KernelEntry> rope() {
  static constexpr KernelEntry kKernels[] = {{"rope", prepare_rope},
                                             {"rope_grad", prepare_rope_grad}};
  return kKernels;
}

}  // namespace flow::cpu::reference
