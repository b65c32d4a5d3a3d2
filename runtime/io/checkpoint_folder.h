// Where checkpoints lie: directories that are whole once their checkpoint.json is there.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/plan/json/records.h"

namespace flow::io {

inline constexpr const char* kCheckpointRecord = "checkpoint.json";
inline constexpr const char* kCheckpointsFolder = "checkpoints";

/// The remedy where a checkpoint is damaged.
inline constexpr const char* kTakeAnother =
    "use another checkpoint; to resume from the one before, remove the directory of this one";

/// Is there a checkpoint at `path`, and not a file or any other directory? RunError where the
/// system does not say, such as without permission.
bool is_checkpoint(const fs::path& path);

/// The record of the checkpoint at `path`; `text`: as it is written. RequestError where that is
/// missing or damaged.
plan::CheckpointRecord read_checkpoint_record(const fs::path& path, std::string& text);

/// RequestError where the folder of a checkpoint is not named by its step, as runs name theirs.
void require_named_by_step(const fs::path& path, int64_t step);

/// The checkpoints of a run directory: DIR/checkpoints/000600, ...
class CheckpointFolder {
  struct AsItIs {};

 public:
  explicit CheckpointFolder(const fs::path& run_directory)
      : path_(run_directory / kCheckpointsFolder) {}
  /// One that lies at `path` itself.
  static CheckpointFolder at_path(fs::path path) { return {std::move(path), AsItIs()}; }

  fs::path at(int64_t step) const;
  /// Steps of those that are whole, ascending. RunError where the folder is there and cannot be
  /// read.
  std::vector<int64_t> steps() const;
  /// The folder with the largest step for a name. RequestError if it is not a whole checkpoint of
  /// this step. Runs never leave such a folder, but an interrupted copy may, and the checkpoint
  /// before it is older than the user believes.
  std::optional<fs::path> newest() const;
  void remove(int64_t step) const { remove(std::vector<fs::path>{at(step)}); }
  /// Removes the oldest beyond the newest `keep`.
  void prune(int64_t keep) const;
  /// Removes all but the one of that step, or all, parts of checkpoints too.
  void keep_only(std::optional<int64_t> step) const;
  /// Removes what a write or a removal left that was cut short, and parts of checkpoints before the
  /// newest whole one.
  void remove_leftovers() const;

 private:
  CheckpointFolder(fs::path path, AsItIs) : path_(std::move(path)) {}
  struct Named {
    int64_t step;
    fs::path path;
    bool operator==(const Named&) const = default;
  };
  std::vector<Named> named() const;
  void remove(const std::vector<fs::path>& checkpoints) const;

  fs::path path_;
};

}  // namespace flow::io
