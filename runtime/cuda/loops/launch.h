// Launches kernels and sizes their grids. The code is the same under nvcc and in tests that compile
// kernels for the CPU (with FLOW_CUDA_ON_CPU, __global__ functions are plain functions).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256;  // the default number of threads of a block

/// Returns the number of blocks of a grid. If there are more items than blocks, each block
/// processes several items.
inline unsigned blocks_for(int64_t items) {
  constexpr int64_t kMostBlocks = 1 << 16;
  return static_cast<unsigned>(std::min(items, kMostBlocks));
}

struct LaunchShape {
  Extent grid, block;
  size_t shared_bytes = 0;
};

#ifdef FLOW_CUDA_ON_CPU
template <typename... Parameters>
void run_kernel_thread(const void* function, void** arguments) {
  const auto kernel = reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(function));
  [&]<size_t... I>(std::index_sequence<I...>) {
    kernel(*static_cast<Parameters*>(arguments[I])...);
  }
  (std::index_sequence_for<Parameters...>{});
}
#endif

/// Puts kernel<<<shape>>>(values...) into `stream`.
template <typename... Parameters>
void launch(Driver& driver, Stream stream, const char* name, const LaunchShape& shape,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... values) {
  void* pointers[] = {static_cast<void*>(&values)...};
  const size_t sizes[] = {sizeof(Parameters)...};
  KernelCall call{name,
                  reinterpret_cast<const void*>(kernel),
                  shape.grid,
                  shape.block,
                  shape.shared_bytes,
                  pointers,
                  sizes};
#ifdef FLOW_CUDA_ON_CPU
  call.run_thread = run_kernel_thread<Parameters...>;
#endif
  driver.launch(call, stream);
}

/// Puts the kernel into the stream of a call; `state` is its LaunchState.
template <typename State, typename... Parameters>
void launch(const State& state, const char* name, const LaunchShape& shape,
            void (*kernel)(Parameters...), std::type_identity_t<Parameters>... values) {
  launch(state.driver, state.stream, name, shape, kernel, values...);
}

}  // namespace flow::cuda
