// Recurrent layers by cuDNN's RNN calls, which its graph API lacks.
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

/// Layers with cuDNN's standard algorithm, for the device that is current in every use.
class CudnnRecurrent {
 public:
  /// Or why cuDNN does not compute the layer. Its kernels do not outlive this.
  Expected<RecurrentKernel> find(const RecurrentSpec& spec);

  /// cuDNN multiplies by cuBLAS in several streams. With buffers of two sizes, as by default, the
  /// buffer that is free decides which kernel runs, and results differ from run to run (cuBLAS
  /// documentation, "Results Reproducibility"; cuDNN release notes, "Limitations"). This asks for
  /// buffers of one size in the environment, where the user has not asked for any. Before the first
  /// use of cuBLAS.
  static void make_reproducible();

 private:
  RecurrentDescriptor<cudnnHandle_t> handle_;  // null before the first layer
};

}  // namespace flow::cuda
