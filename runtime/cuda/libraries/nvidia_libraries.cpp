// NVIDIA's libraries on a real device.
#include <cuda_runtime_api.h>

#include <map>
#include <optional>

#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/driver/runtime_error.h"
#include "runtime/cuda/libraries/cublas.h"
#include "runtime/cuda/libraries/cudnn.h"

namespace flow::cuda {
namespace {

class NvidiaLibraries : public Libraries {
 public:
  explicit NvidiaLibraries(Driver& driver) : driver_(driver) {}

  Expected<LibraryKernel> find(const MatmulSpec& spec) override {
    activate();
    if (!cublas_) cublas_.emplace();
    return cublas_->find(spec);
  }

  Expected<LibraryKernel> find(const ConvolutionSpec& spec) override {
    activate();
    if (!cudnn_) cudnn_.emplace(device().index, PlanCache::of_user("cudnn"));
    return cudnn_->find(spec);
  }

  std::map<std::string, std::string> versions() const override {
    return {{"cublas", Cublas::version()}, {"cudnn", Cudnn::version()}};
  }

 private:
  /// The libraries work for the device that is the thread's current one.
  void activate() { cuda::check(cudaSetDevice(device().index), "using the GPU", device().name); }
  const DeviceProperties& device() const { return driver_.properties(); }

  Driver& driver_;
  std::optional<Cublas> cublas_;
  std::optional<Cudnn> cudnn_;
};

}  // namespace

std::unique_ptr<Libraries> open_libraries(Driver& driver) {
  return std::make_unique<NvidiaLibraries>(driver);
}

}  // namespace flow::cuda
