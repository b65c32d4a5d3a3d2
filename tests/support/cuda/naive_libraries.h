// Stands in for cuBLASLt and cuDNN in tests: plain loops on the CPU, each put into the stream as a
// kernel of one thread, so that what captures kernels captures it too.
#pragma once

#include <map>
#include <string>

#include "runtime/cuda/libraries/libraries.h"

namespace flow::cuda {

/// Floats of any size; sums in double. A fused epilogue gives the bits of one that stands apart.
/// Fails a check where a spec's shapes do not fit each other. The driver outlives the kernels.
class NaiveLibraries : public Libraries {
 public:
  explicit NaiveLibraries(Driver& driver) : driver_(driver) {}
  Expected<LibraryKernel> find(const MatmulSpec& spec) override;
  Expected<LibraryKernel> find(const ConvolutionSpec& spec) override;
  Expected<AttentionKernel> find(const AttentionSpec& spec) override;
  Expected<RecurrentKernel> find(const RecurrentSpec& spec) override;
  std::map<std::string, std::string> versions() const override { return {{"naive", "1"}}; }

 private:
  Driver& driver_;
};

}  // namespace flow::cuda
