// Plans of a library kept on disk from run to run: choosing one asks its heuristics, which takes a
// tenth of a second and more in a new process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
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

}  // namespace flow::cuda
