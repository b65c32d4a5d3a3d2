// Checkpoints: directories of .npy files, whole once their checkpoint.json is there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/state.h"
#include "runtime/plan/records.h"

namespace flow::exec {

/// Is there a checkpoint at `path`, and not a file or any other directory?
bool is_checkpoint(const fs::path& path);

/// Writes every variable and a record with their checksums to a temporary directory beside
/// `path`, syncs it and moves it there: at any moment `path` is the old checkpoint or the new one.
/// RunError when that fails, or when `path` is there and no checkpoint.
void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record);

/// A checkpoint that can be read. Untrusted: checked as it is read.
class Checkpoint {
 public:
  /// RequestError when `path` is no checkpoint.
  explicit Checkpoint(const fs::path& path);

  const fs::path& path() const { return path_; }
  const plan::CheckpointRecord& record() const { return record_; }
  struct Item {
    std::string name;  // of the variable
    DType dtype;
    Shape shape;
  };
  /// What it holds, by name. RunError when a file is missing or no .npy.
  std::vector<Item> items() const;
  /// RunError naming the file when it is damaged. REQUIRES: it is one of items().
  Array read(const std::string& name) const;

 private:
  fs::path path_;
  plan::CheckpointRecord record_;
};

/// The checkpoints of a run directory: DIR/checkpoints/000600, ...
class CheckpointFolder {
 public:
  explicit CheckpointFolder(const fs::path& run_directory) : path_(run_directory / "checkpoints") {}

  fs::path at(int64_t step) const;
  /// Steps of those that are whole, ascending.
  std::vector<int64_t> steps() const;
  std::optional<fs::path> newest() const;
  /// Removes the oldest beyond the newest `keep`.
  void prune(int64_t keep) const;
  /// Removes what a write that was cut short left.
  void remove_leftovers() const;

 private:
  fs::path path_;
};

}  // namespace flow::exec
