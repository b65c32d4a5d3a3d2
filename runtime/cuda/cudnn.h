// Convolutions by cuDNN's graph API.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/cuda/libraries.h"

namespace flow::cuda {

/// Chooses cuDNN's plans. float32 never uses TF32 unless the spec allows it; no plan adds in an
/// order that changes from run to run.
class Cudnn {
 public:
  /// For the device that is current now, and in every use.
  Cudnn();
  /// For a device that need not be here, by cuDNN's JSON of its properties: plans are made for it,
  /// none can run. RunError where cuDNN refuses the text.
  explicit Cudnn(std::string_view description);
  ~Cudnn();

  /// RunError where no engine does what the spec says.
  LibraryKernel prepare(const ConvolutionSpec& spec);
  /// The engine and knobs that `prepare` chooses, as cuDNN names them: "eng44_k2=2_k18=0".
  std::string engine(const ConvolutionSpec& spec);

  /// cuDNN's JSON of a device that is here.
  static std::string describe(int device);
  /// "9.19.0"
  static std::string version();

 private:
  class Planner;
  std::unique_ptr<Planner> planner_;
};

}  // namespace flow::cuda
