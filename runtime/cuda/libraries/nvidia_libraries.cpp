// NVIDIA's libraries on a real device.
#include <cuda_runtime_api.h>

#include <map>
#include <optional>

#include "runtime/cuda/driver/runtime_error.h"
#include "runtime/cuda/libraries/cublas.h"
#include "runtime/cuda/libraries/cudnn.h"
#include "runtime/cuda/libraries/cudnn_recurrent.h"

namespace flow::cuda {
namespace {

class NvidiaLibraries : public Libraries {
 public:
  explicit NvidiaLibraries(Driver& driver) : driver_(driver) {}

  Expected<LibraryKernel> find(const MatmulSpec& spec) override { return cublas().find(spec); }
  Expected<LibraryKernel> find(const ConvolutionSpec& spec) override { return cudnn().find(spec); }
  Expected<AttentionKernel> find(const AttentionSpec& spec) override { return cudnn().find(spec); }
  Expected<RecurrentKernel> find(const RecurrentSpec& spec) override {
    activate();
    return recurrent_.find(spec);
  }

  using Kernels = std::vector<LibraryKernel>;
  using Plan = std::span<const uint8_t>;
  Kernels candidates(const MatmulSpec& spec, size_t most) override {
    return cublas().candidates(spec, most);
  }
  Kernels candidates(const ConvolutionSpec& spec, size_t most) override {
    return cudnn().candidates(spec, most);
  }
  std::vector<AttentionKernel> candidates(const AttentionSpec& spec, size_t most) override {
    return cudnn().candidates(spec, most);
  }
  std::optional<LibraryKernel> restore(const MatmulSpec& spec, Plan plan) override {
    return cublas().restore(spec, plan);
  }
  std::optional<LibraryKernel> restore(const ConvolutionSpec& spec, Plan plan) override {
    return cudnn().restore(spec, plan);
  }
  std::optional<AttentionKernel> restore(const AttentionSpec& spec, Plan plan) override {
    return cudnn().restore(spec, plan);
  }
  std::string describe(const MatmulSpec& spec) const override { return Cublas::describe(spec); }
  std::string describe(const ConvolutionSpec& spec) const override { return Cudnn::describe(spec); }
  std::string describe(const AttentionSpec& spec) const override { return Cudnn::describe(spec); }

  std::map<std::string, std::string> versions() const override {
    return {{"cublas", Cublas::version()}, {"cudnn", Cudnn::version()}};
  }

 private:
  /// Makes the device the thread's current one, because the libraries work for that device.
  void activate() { cuda::check(cudaSetDevice(device().index), "using the GPU", device().name); }
  Cublas& cublas() {
    activate();
    if (!cublas_) cublas_.emplace();
    return *cublas_;
  }
  Cudnn& cudnn() {
    activate();
    if (!cudnn_) cudnn_.emplace(device().index, PlanCache::of_user("cudnn"));
    return *cudnn_;
  }
  const DeviceProperties& device() const { return driver_.properties(); }

  Driver& driver_;
  std::optional<Cublas> cublas_;
  std::optional<Cudnn> cudnn_;
  CudnnRecurrent recurrent_;
};

}  // namespace

std::unique_ptr<Libraries> open_libraries(Driver& driver) {
  CudnnRecurrent::make_reproducible();
  return std::make_unique<NvidiaLibraries>(driver);
}

}  // namespace flow::cuda
