// Which algorithms were chosen by time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/libraries/plan_cache.h"

namespace flow::cuda {

/// Choices of a run, and of all runs of a user. Those of the run come first and stay: so it
/// computes the same when it is resumed, whatever became of the others.
class Choices {
 public:
  /// `device`: what a choice depends on besides its key: the device, its driver, the libraries.
  /// `say`: remarks; may be empty.
  Choices(PlanCache run, PlanCache user, std::string device,
          std::function<void(const std::string&)> say);

  std::optional<std::vector<uint8_t>> find(const std::string& key) const;
  /// What was not measured is kept for the run only.
  void store(const std::string& key, std::span<const uint8_t> choice, bool measured) const;

 private:
  std::optional<std::vector<uint8_t>> find_in(const PlanCache& cache, const std::string& key) const;

  PlanCache run_, user_;
  std::string device_;
  std::function<void(const std::string&)> say_;
};

}  // namespace flow::cuda
