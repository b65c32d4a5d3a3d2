// Matrix products by cuBLASLt.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

struct DescriptorDeleter {
  void operator()(cublasLtMatmulDesc_t desc) const { cublasLtMatmulDescDestroy(desc); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
  void operator()(cublasLtMatmulPreference_t preference) const {
    cublasLtMatmulPreferenceDestroy(preference);
  }
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
};
template <typename T>
using Descriptor = std::unique_ptr<std::remove_pointer_t<T>, DescriptorDeleter>;

/// The cuBLASLt descriptors of a spec. cuBLASLt uses column-major matrices, so they describe out^T
/// = op(b)^T op(a)^T: the left matrix is b and the right one is a. No device is needed.
struct ProductDescriptors {
  Descriptor<cublasLtMatmulDesc_t> desc;
  Descriptor<cublasLtMatrixLayout_t> left, right, out;
  Descriptor<cublasLtMatmulPreference_t> preference;
};
ProductDescriptors describe(const MatmulSpec& spec);

/// Chooses algorithms for the current device, which must be the same one in every call.
class Cublas {
 public:
  Cublas();
  /// Returns a kernel, or the reason why no algorithm computes the spec.
  Expected<LibraryKernel> find(const MatmulSpec& spec);
  /// These functions are as in Libraries. A plan is cuBLASLt's description of an algorithm.
  std::vector<LibraryKernel> candidates(const MatmulSpec& spec, size_t most);
  std::optional<LibraryKernel> restore(const MatmulSpec& spec, std::span<const uint8_t> plan);
  static std::string describe(const MatmulSpec& spec);
  /// Returns the version, such as "13.0.2".
  static std::string version();

 private:
  struct Algorithm {
    cublasLtMatmulAlgo_t choice;
    size_t workspace;  // bytes
  };
  std::optional<Algorithm> check_algorithm(const ProductDescriptors& product,
                                           const cublasLtMatmulAlgo_t& choice) const;
  std::vector<Algorithm> choose(const ProductDescriptors& product, size_t most) const;
  LibraryKernel kernel_of(const MatmulSpec& spec, std::shared_ptr<const ProductDescriptors> product,
                          const Algorithm& algorithm) const;

  Descriptor<cublasLtHandle_t> handle_;
};

}  // namespace flow::cuda
