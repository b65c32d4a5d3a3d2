// Chooses kernels of libraries, and kernels of steps, by measuring their time.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <utility>

#include "runtime/cuda/libraries/libraries.h"
#include "runtime/cuda/libraries/plan_cache.h"
#include "runtime/cuda/libraries/stopwatch.h"
#include "runtime/cuda/loops/kernel.h"
#include "runtime/exec/core/backend.h"

namespace flow::cuda {

/// Runs a library's candidates for a spec on the device and chooses the fastest one, or the first
/// of equally fast ones; those that fail are skipped. A stored choice is used without a trial.
/// Products that store or read a mask, or store sums, keep the library's own choice, because other
/// kernels depend on its layout. The constructor's arguments outlive this object; the kernels that
/// `find` returns do not need it.
class TimedLibraries : public Libraries {
 public:
  TimedLibraries(Libraries& libraries, Driver& driver, const Choices& choices);

  using Libraries::find;
  Expected<LibraryKernel> find(const MatmulSpec& spec) override;
  Expected<LibraryKernel> find(const ConvolutionSpec& spec) override;
  Expected<AttentionKernel> find(const AttentionSpec& spec) override;
  /// There is only one algorithm.
  Expected<RecurrentKernel> find(const RecurrentSpec& spec) override {
    return libraries_.find(spec);
  }
  std::string describe(const MatmulSpec& spec) const override { return libraries_.describe(spec); }
  std::string describe(const ConvolutionSpec& spec) const override {
    return libraries_.describe(spec);
  }
  std::string describe(const AttentionSpec& spec) const override {
    return libraries_.describe(spec);
  }
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

/// Runs each kernel on separate operands and chooses the fastest one, or the first of equally fast
/// ones. The constructor's arguments outlive this object.
class KernelTimer : public StepTimer {
 public:
  KernelTimer(Driver& driver, const Choices& choices);
  size_t fastest(const std::string& key, const Request& request,
                 std::span<const Kernel> kernels) override;

 private:
  std::optional<size_t> measure(const Request& request, std::span<const Kernel> kernels) const;

  Driver& driver_;
  const Choices& choices_;
  Stopwatch stopwatch_;
};

/// The choices and both timers of a job.
struct Tuner {
  Choices choices;
  TimedLibraries libraries;
  KernelTimer timer;

  Tuner(const exec::Tuning& tuning, std::string device, Libraries& from, Driver& driver)
      : choices(tuning.kept.empty() ? PlanCache() : PlanCache(tuning.kept, kMostKept),
                PlanCache::of_user("algorithms"), std::move(device), tuning.say),
        libraries(from, driver, choices),
        timer(driver, choices) {}

 private:
  /// The number of choices that a run keeps, which is so large that none is ever deleted.
  static constexpr size_t kMostKept = std::numeric_limits<size_t>::max() / 4;
};

}  // namespace flow::cuda
