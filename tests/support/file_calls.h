// Records the calls that make files last: syncs, renames, removals; and lets one fail.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/file_operations.h"

namespace flow {

/// The path that a descriptor has open.
fs::path descriptor_path(int descriptor);
/// The absolute path that an operation is on: the first of two.
fs::path operation_path(const FileOperation& operation);

/// The path relative to the folder; nothing where it is not below it.
std::optional<std::string> path_below(const fs::path& folder, const fs::path& path);

/// Records what this program calls on files below a folder, on all threads, for as long as it
/// lives.
class FileCalls : public FileObserver {
 public:
  explicit FileCalls(const fs::path& folder);
  ~FileCalls() override;
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// "fsync out/.run.json.tmp", "rename out/run.json": in order, paths relative to the folder, the
  /// random part of temporary names left out. Calls: fsync, syncfs, rename (to the path), exchange
  /// (with the path), remove.
  std::vector<std::string> list() const;
  /// Makes the next such call, or a "close", fail with the errno `error`, without effect.
  void fail(const std::string& call, int error);

  long make(const FileOperation& operation, const std::function<long()>& call) override;

 private:
  int take(const FileOperation& operation);

  const fs::path folder_;
  FileObserver* const before_;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, int> failing_;
};

}  // namespace flow
