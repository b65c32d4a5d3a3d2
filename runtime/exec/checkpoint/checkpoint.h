// Checkpoints: directories of .npy files, whole once their checkpoint.json is there.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/state.h"
#include "runtime/exec/weights/stored_variables.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {

/// Writes every variable and a record with their checksums to a temporary directory beside
/// `path`, `files` too where they are given, syncs it and moves it there: at any moment `path` is
/// the old checkpoint or the new one (where the file system cannot exchange two folders, for a
/// moment neither). RunError when that fails, or when `path` is there and no checkpoint.
void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record,
                      const std::optional<plan::FilesRecord>& files = {});

/// A checkpoint that can be read.
class Checkpoint : public StoredVariables {
 public:
  /// RequestError when `path` is no checkpoint.
  explicit Checkpoint(const fs::path& path);

  const fs::path& path() const override { return path_; }
  const plan::CheckpointRecord& record() const { return record_; }
  /// Its files.json; nothing where it has none. RequestError when that is damaged.
  std::optional<plan::FilesRecord> files() const;
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override;
  bool has_names_of_flow() const override { return true; }

 private:
  fs::path path_;
  std::string text_;  // of the record
  plan::CheckpointRecord record_;
};

}  // namespace flow::exec
