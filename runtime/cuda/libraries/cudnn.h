// Convolutions and attention by cuDNN's graph API.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/plan_cache.h"

namespace flow::cuda {

/// Chooses cuDNN's plans within the spec's math mode. A cached plan is valid for one device, as
/// cuDNN describes it, and for one version of cuDNN.
class Cudnn {
 public:
  /// Opens cuDNN for a device, which must be current now and in every call.
  explicit Cudnn(int device, PlanCache cache = {});
  /// Plans for a device that need not be present, described by cuDNN's JSON of its properties.
  /// Plans can be created but not run. Throws RunError if cuDNN rejects the description.
  explicit Cudnn(std::string description, PlanCache cache = {});
  ~Cudnn();

  /// Returns a kernel, or the reason why no engine computes the spec. The kernel's name contains
  /// the engine and its knobs in cuDNN's notation, and whether it uses tensor cores: "cuDNN
  /// eng44_k2=2_k18=0, tensor cores".
  Expected<LibraryKernel> find(const ConvolutionSpec& spec);
  Expected<AttentionKernel> find(const AttentionSpec& spec);

  // These functions are as in Libraries.
  std::vector<LibraryKernel> candidates(const ConvolutionSpec& spec, size_t most);
  std::vector<AttentionKernel> candidates(const AttentionSpec& spec, size_t most);
  std::optional<LibraryKernel> restore(const ConvolutionSpec& spec, std::span<const uint8_t> plan);
  std::optional<AttentionKernel> restore(const AttentionSpec& spec, std::span<const uint8_t> plan);
  static std::string describe(const ConvolutionSpec& spec);
  static std::string describe(const AttentionSpec& spec);

  /// Returns cuDNN's JSON of an available device.
  static std::string describe(int device);
  /// Returns the version, such as "9.19.0".
  static std::string version();

 private:
  class Planner;
  std::unique_ptr<Planner> planner_;
};

}  // namespace flow::cuda
