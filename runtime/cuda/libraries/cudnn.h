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

/// Chooses cuDNN's plans, within the spec's math mode. A kept plan is for one device, as
/// cuDNN describes it, and one version of cuDNN.
class Cudnn {
 public:
  /// For a device, which is current now and in every use.
  explicit Cudnn(int device, PlanCache cache = {});
  /// For a device that need not be here, by cuDNN's JSON of its properties: plans are made for it,
  /// none can run. RunError where cuDNN refuses the text.
  explicit Cudnn(std::string description, PlanCache cache = {});
  ~Cudnn();

  /// Or why no engine does what the spec says. The kernel's name has the engine and its knobs, as
  /// cuDNN names them, and whether it uses tensor cores: "cuDNN eng44_k2=2_k18=0, tensor cores".
  Expected<LibraryKernel> find(const ConvolutionSpec& spec);
  Expected<AttentionKernel> find(const AttentionSpec& spec);

  // As of Libraries.
  std::vector<LibraryKernel> candidates(const ConvolutionSpec& spec, size_t most);
  std::vector<AttentionKernel> candidates(const AttentionSpec& spec, size_t most);
  std::optional<LibraryKernel> restore(const ConvolutionSpec& spec, std::span<const uint8_t> plan);
  std::optional<AttentionKernel> restore(const AttentionSpec& spec, std::span<const uint8_t> plan);
  static std::string describe(const ConvolutionSpec& spec);
  static std::string describe(const AttentionSpec& spec);

  /// cuDNN's JSON of a device that is here.
  static std::string describe(int device);
  /// "9.19.0"
  static std::string version();

 private:
  class Planner;
  std::unique_ptr<Planner> planner_;
};

}  // namespace flow::cuda
