// Kernels of libraries, chosen by time.
#pragma once

#include <map>
#include <string>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/plan_cache.h"
#include "runtime/cuda/libraries/stopwatch.h"

namespace flow::cuda {

/// Runs a library's candidates for a spec on the device and takes the fastest, the first of equal
/// ones; those that fail are skipped. A choice that is kept is taken without a trial. Products with
/// a mask or sums aside stay with the library's own choice: others rely on its layout. All that it
/// is given outlives it, and it the calls of `find` alone.
class TimedLibraries : public Libraries {
 public:
  TimedLibraries(Libraries& libraries, Driver& driver, const Choices& choices);

  using Libraries::find;
  Expected<LibraryKernel> find(const MatmulSpec& spec) override;
  Expected<LibraryKernel> find(const ConvolutionSpec& spec) override;
  Expected<AttentionKernel> find(const AttentionSpec& spec) override;
  Expected<RecurrentKernel> find(const RecurrentSpec& spec) override;
  std::string describe(const MatmulSpec& spec) const override;
  std::string describe(const ConvolutionSpec& spec) const override;
  std::string describe(const AttentionSpec& spec) const override;
  std::map<std::string, std::string> versions() const override { return libraries_.versions(); }

 private:
  template <typename Spec, typename Found>
  Expected<Found> choose(KernelFinder<Spec, Found>& finder, const Spec& spec);
  template <typename Spec, typename Found>
  std::optional<size_t> fastest(const Spec& spec, const std::vector<Found>& candidates);
  bool is_right(const LibraryKernel& kernel, const MatmulSpec& spec);
  template <typename Found, typename Spec>
  bool is_right(const Found&, const Spec&) {
    return true;
  }

  Libraries& libraries_;
  Driver& driver_;
  const Choices& choices_;
  Stopwatch stopwatch_;
};

}  // namespace flow::cuda
