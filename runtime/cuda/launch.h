// The one way to launch a kernel, the same where nvcc compiles it and where a test compiles it for
// the CPU (FLOW_CUDA_ON_CPU: __global__ functions are plain functions there).
#pragma once

#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "runtime/cuda/driver.h"

namespace flow::cuda {

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

/// Puts kernel<<<shape>>>(arguments...) into `stream`.
template <typename... Parameters, typename... Arguments>
void launch(Driver& driver, Stream stream, const char* name, const LaunchShape& shape,
            void (*kernel)(Parameters...), const Arguments&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  std::tuple<Parameters...> values{static_cast<Parameters>(arguments)...};
  constexpr std::array<size_t, sizeof...(Parameters)> sizes{sizeof(Parameters)...};
  auto pointers = std::apply(
      [](auto&... value) {
        return std::array<void*, sizeof...(Parameters)>{static_cast<void*>(&value)...};
      },
      values);
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

}  // namespace flow::cuda
