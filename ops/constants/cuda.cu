// fill: a constant of any dtype. evenly_spaced: numbers at equal distances.
#include "runtime/cuda/loops/families.h"
#include "runtime/cuda/loops/threads.cuh"

namespace flow::cuda {
namespace {

/// Sets out[i] = value for i < n.
template <typename T>
__global__ void fill_with(T value, T* out, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) out[i] = value;
}

/// Fills by bit pattern, so that one kernel is enough for each element size.
template <typename Bits, typename T>
Kernel fill_bits(T value, int64_t n) {
  return {[=, bits = bits_as<Bits>(value)](const Buffers& buffers, const LaunchState& state) {
    launch(state, "fill", shape_for(n), fill_with<Bits>, bits, output<Bits>(buffers, 0), n);
  }};
}

Kernel prepare_fill(const Request& request) {
  const auto value = attribute<double>(request, "value");
  const int64_t n = result_elements(request);
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    const auto element = convert<T>(value);
    if constexpr (sizeof(T) == 1) return fill_bits<uint8_t>(element, n);
    if constexpr (sizeof(T) == 2) return fill_bits<uint16_t>(element, n);
    if constexpr (sizeof(T) == 4) return fill_bits<uint32_t>(element, n);
    if constexpr (sizeof(T) == 8) return fill_bits<uint64_t>(element, n);
  });
}

/// Sets y[i] to number i of n.
template <typename T>
__global__ void space_evenly(EvenlySpaced numbers, T* y, int64_t n) {
  for (int64_t i = first_index(); i < n; i += index_step()) y[i] = convert<T>(numbers.at(i, n));
}

Kernel prepare_evenly_spaced(const Request& request) {
  const int64_t n = result_elements(request);
  const EvenlySpaced numbers(attribute<double>(request, "first"),
                             attribute<double>(request, "last"), n);
  return visit_dtype(request.outputs[0].dtype, [&]<typename T>(T) -> Kernel {
    return {[=](const Buffers& buffers, const LaunchState& state) {
      launch(state, "evenly_spaced", shape_for(n), space_evenly<T>, numbers, output<T>(buffers, 0),
             n);
    }};
  });
}

}  // namespace

std::span<const KernelEntry> kernels::constants() {
  static constexpr KernelEntry kKernels[] = {
      {"fill", prepare_fill},
      {"evenly_spaced", prepare_evenly_spaced},
  };
  return kKernels;
}

}  // namespace flow::cuda
