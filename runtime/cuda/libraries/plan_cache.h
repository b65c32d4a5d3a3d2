// Caches a library's plans on disk from run to run, because choosing one queries the library's
// heuristics, which takes a tenth of a second or more in a new process. Choices among algorithms
// that were made by measuring time are cached in the same way.
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

/// A folder with a file for each key. A plan that could not be stored, or whose file has changed,
/// counts as missing. When there are `most` plans, the oldest quarter is deleted.
class PlanCache {
 public:
  /// Stores nothing.
  PlanCache() = default;
  explicit PlanCache(fs::path folder, size_t most = 1000)
      : folder_(std::move(folder)), most_(most) {}
  /// Returns the cache in $XDG_CACHE_HOME/flow/NAME or ~/.cache/flow/NAME. It stores nothing if
  /// neither folder is known.
  static PlanCache of_user(std::string_view name);

  std::optional<std::vector<uint8_t>> find(std::string_view key) const noexcept;
  void store(std::string_view key, std::span<const uint8_t> plan) const noexcept;
  /// Returns true if there is a file for the key that `find` rejects.
  bool is_damaged(std::string_view key) const noexcept;
  fs::path path_of(std::string_view key) const;

 private:
  void make_room() const;

  fs::path folder_;
  size_t most_ = 0;
};

/// The choices of a run and of all runs of a user. The run's choices take precedence and are kept,
/// so that a resumed run computes the same results regardless of the user's other choices.
class Choices {
 public:
  /// `device` describes what a choice depends on besides its key: the device, its driver and the
  /// libraries. `say` receives remarks and may be empty.
  Choices(PlanCache run, PlanCache user, std::string device,
          std::function<void(const std::string&)> say);

  std::optional<std::vector<uint8_t>> find(const std::string& key) const;
  /// Stores a choice. If it was not measured, it is stored for the run only.
  void store(const std::string& key, std::span<const uint8_t> choice, bool measured) const;

 private:
  std::optional<std::vector<uint8_t>> find_in(const PlanCache& cache, const std::string& key) const;

  PlanCache run_, user_;
  std::string device_;
  std::function<void(const std::string&)> say_;
};

}  // namespace flow::cuda
