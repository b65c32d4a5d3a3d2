// NVIDIA's libraries on a real device.
#include <cuda_runtime_api.h>

#include <map>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/cuda/cublas.h"
#include "runtime/cuda/cudnn.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/masks.h"
#include "runtime/cuda/runtime_error.h"

namespace flow::cuda {
namespace {

class NvidiaLibraries : public Libraries {
 public:
  explicit NvidiaLibraries(Driver& driver) : driver_(driver) {}

  LibraryKernel prepare(const MatmulSpec& spec) override {
    activate();
    if (!cublas_) cublas_.emplace();
    if (has_mask(spec) && !masks_fit(spec.dtype))
      throw RunError("cuBLASLt has no algorithm whose masks leave out 0");
    return cublas_->prepare(spec);
  }

  LibraryKernel prepare(const ConvolutionSpec& spec) override {
    activate();
    if (!cudnn_) cudnn_.emplace(device().index, PlanCache::of_user("cudnn"));
    return cudnn_->prepare(spec);
  }

  std::map<std::string, std::string> versions() const override {
    return {{"cublas", Cublas::version()}, {"cudnn", Cudnn::version()}};
  }

 private:
  /// The libraries work for the device that is the thread's current one.
  void activate() { check(cudaSetDevice(device().index), "using the GPU", device().name); }
  const DeviceProperties& device() const { return driver_.properties(); }

  /// Asked once for each dtype. False, too, where the library has no product to ask.
  bool masks_fit(DType dtype) {
    const auto known = masks_fit_.find(dtype);
    if (known != masks_fit_.end()) return known->second;
    LibraryKernel kernel;
    try {
      kernel = cublas_->prepare(product_of_zeros(dtype));
    } catch (const RunError&) {
      return masks_fit_[dtype] = false;
    }
    return masks_fit_[dtype] = masks_out_zeros(kernel, dtype, driver_);
  }

  Driver& driver_;
  std::map<DType, bool> masks_fit_;
  std::optional<Cublas> cublas_;
  std::optional<Cudnn> cudnn_;
};

}  // namespace

std::unique_ptr<Libraries> open_libraries(Driver& driver) {
  return std::make_unique<NvidiaLibraries>(driver);
}

}  // namespace flow::cuda
