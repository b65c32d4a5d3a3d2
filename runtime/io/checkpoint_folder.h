// The directories in which checkpoints are stored. A checkpoint is complete once its directory
// contains checkpoint.json.
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

/// The hint for the user if a checkpoint is damaged.
inline constexpr const char* kTakeAnother =
    "use another checkpoint; to resume from the one before, remove the directory of this one";

/// Returns true if `path` is a checkpoint, and false if it is a file or any other directory. Throws
/// RunError if the system cannot tell, for example because permission is missing.
bool is_checkpoint(const fs::path& path);

/// Reads the record of the checkpoint at `path`, and sets `text` to the record as it is in the
/// file. Throws RequestError if the record is missing or damaged.
plan::CheckpointRecord read_checkpoint_record(const fs::path& path, std::string& text);

/// Throws RequestError unless the folder of a checkpoint has the name that runs give to the
/// checkpoint of `step`.
void require_named_by_step(const fs::path& path, int64_t step);

/// The checkpoints of a run directory: DIR/checkpoints/000600, ...
class CheckpointFolder {
  struct AsItIs {};

 public:
  explicit CheckpointFolder(const fs::path& run_directory)
      : path_(run_directory / kCheckpointsFolder) {}
  /// Returns the checkpoints of the folder `path` itself, instead of those of a run directory.
  static CheckpointFolder at_path(fs::path path) { return {std::move(path), AsItIs()}; }

  fs::path at(int64_t step) const;
  /// Returns the steps of the complete checkpoints in ascending order. Throws RunError if the
  /// folder exists and cannot be read.
  std::vector<int64_t> steps() const;
  /// Returns the folder whose name is the largest step, or nothing if there is none. Throws
  /// RequestError if the folder is not a complete checkpoint of this step. Runs never leave an
  /// incomplete folder with this name, but an interrupted copy may, and the checkpoint before it is
  /// older than the user believes.
  std::optional<fs::path> newest() const;
  void remove(int64_t step) const { remove(std::vector<fs::path>{at(step)}); }
  /// Removes all complete checkpoints but the newest `keep`; at least one is kept.
  void prune(int64_t keep) const;
  /// Removes all checkpoints except the one of `step`, or all if `step` is empty; also removes
  /// incomplete ones.
  void keep_only(std::optional<int64_t> step) const;
  /// Removes what an interrupted write or removal left, and incomplete checkpoints that are older
  /// than the newest complete one.
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
