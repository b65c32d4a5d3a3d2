// Products by cuBLASLt.
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

/// A spec in cuBLASLt's words. It knows column-major matrices, so it is told out^T = op(b)^T
/// op(a)^T: the left matrix is b, the right one a. No device is needed.
struct ProductDescriptors {
  Descriptor<cublasLtMatmulDesc_t> desc;
  Descriptor<cublasLtMatrixLayout_t> left, right, out;
  Descriptor<cublasLtMatmulPreference_t> preference;
};
ProductDescriptors describe(const MatmulSpec& spec);

/// Chooses algorithms for the device that is current, now and in every use.
class Cublas {
 public:
  Cublas();
  /// Or why no algorithm does what the spec says.
  Expected<LibraryKernel> find(const MatmulSpec& spec);
  /// As of Libraries. A plan is cuBLASLt's description of an algorithm.
  std::vector<LibraryKernel> candidates(const MatmulSpec& spec, size_t most);
  std::optional<LibraryKernel> restore(const MatmulSpec& spec, std::span<const uint8_t> plan);
  static std::string describe(const MatmulSpec& spec);
  /// "13.0.2"
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
