// Where checkpoints lie: directories that are whole once their checkpoint.json is there.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/base/file.h"

namespace flow::io {

inline constexpr const char* kCheckpointRecord = "checkpoint.json";

/// Is there a checkpoint at `path`, and not a file or any other directory?
bool is_checkpoint(const fs::path& path);

/// The checkpoints of a run directory: DIR/checkpoints/000600, ...
class CheckpointFolder {
  struct AsItIs {};

 public:
  explicit CheckpointFolder(const fs::path& run_directory) : path_(run_directory / "checkpoints") {}
  /// One that lies at `path` itself.
  static CheckpointFolder at_path(fs::path path) { return {std::move(path), AsItIs()}; }

  fs::path at(int64_t step) const;
  /// A folder that is named as a checkpoint and has no record, if there is one.
  std::optional<fs::path> find_damaged() const;
  /// Steps of those that are whole, ascending. RunError where the folder is there and cannot be
  /// read.
  std::vector<int64_t> steps() const;
  std::optional<fs::path> newest() const;
  /// Removes what is in the place of a checkpoint to be written and is none: without its record it
  /// is part of one, which a copy that was cut short left.
  void clear(int64_t step) const;
  /// Removes the oldest beyond the newest `keep`.
  void prune(int64_t keep) const;
  /// Removes all but the one of that step, or all.
  void keep_only(std::optional<int64_t> step) const;
  /// Removes what a write that was cut short left, or a removal: parts of checkpoints before the
  /// newest whole one.
  void remove_leftovers() const;

 private:
  CheckpointFolder(fs::path path, AsItIs) : path_(std::move(path)) {}
  void remove(int64_t step) const;

  fs::path path_;
};

}  // namespace flow::io
