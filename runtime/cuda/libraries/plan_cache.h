// Plans of a library kept on disk from run to run: choosing one asks its heuristics, which takes a
// tenth of a second and more in a new process. Which algorithms were chosen by time is kept
// likewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::cuda {

/// A file for each key. What cannot be kept, or was changed since, is as if it had never been.
/// Where there are `most` plans the oldest quarter goes.
class PlanCache {
 public:
  /// Keeps nothing.
  PlanCache() = default;
  explicit PlanCache(fs::path folder, size_t most = 1000)
      : folder_(std::move(folder)), most_(most) {}
  /// $XDG_CACHE_HOME/flow/NAME, or ~/.cache/flow/NAME; keeps nothing where neither is known.
  static PlanCache of_user(std::string_view name);

  std::optional<std::vector<uint8_t>> find(std::string_view key) const noexcept;
  void store(std::string_view key, std::span<const uint8_t> plan) const noexcept;
  /// Is there a file for the key that `find` does not take?
  bool is_damaged(std::string_view key) const noexcept;
  fs::path path_of(std::string_view key) const;

 private:
  void make_room() const;

  fs::path folder_;
  size_t most_ = 0;
};

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
