// Recurrent layers by cuDNN's RNN functions, because its graph API does not support them.
#pragma once

#include <cudnn.h>

#include <memory>
#include <type_traits>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

struct RecurrentDeleter {
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
  void operator()(cudnnRNNDescriptor_t descriptor) const { cudnnDestroyRNNDescriptor(descriptor); }
  void operator()(cudnnRNNDataDescriptor_t descriptor) const {
    cudnnDestroyRNNDataDescriptor(descriptor);
  }
  void operator()(cudnnTensorDescriptor_t descriptor) const {
    cudnnDestroyTensorDescriptor(descriptor);
  }
  void operator()(cudnnDropoutDescriptor_t descriptor) const {
    cudnnDestroyDropoutDescriptor(descriptor);
  }
};
template <typename T>
using RecurrentDescriptor = std::unique_ptr<std::remove_pointer_t<T>, RecurrentDeleter>;

/// Computes layers with cuDNN's standard algorithm, on the device that is current in every call.
class CudnnRecurrent {
 public:
  /// Returns a kernel, or the reason why cuDNN does not compute the layer. This object must outlive
  /// the kernel.
  Expected<RecurrentKernel> find(const RecurrentSpec& spec);

  /// Makes results reproducible. cuDNN multiplies by cuBLAS in several streams. With buffers of two
  /// sizes, which is the default, the buffer that is free decides which kernel runs, and results
  /// differ from run to run (cuBLAS documentation, "Results Reproducibility"; cuDNN release notes,
  /// "Limitations"). This function requests buffers of one size in an environment variable, unless
  /// the user has set it. REQUIRES: Called before the first use of cuBLAS.
  static void make_reproducible();

 private:
  RecurrentDescriptor<cudnnHandle_t> handle_;  // null before the first layer
};

}  // namespace flow::cuda
