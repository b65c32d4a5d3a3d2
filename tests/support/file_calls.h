// Records the system calls that make files last: syncs, renames, removals; and lets one fail.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace flow {

/// Records what this program calls on files below a folder, on all threads, for as long as it
/// lives. One at a time.
class FileCalls {
 public:
  explicit FileCalls(const fs::path& folder);
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// "fsync out/.run.json.tmp", "rename out/run.json": in order, paths relative to the folder, the
  /// random part of temporary names left out. Calls: fsync, syncfs, rename (to the path), exchange
  /// (with the path), remove.
  std::vector<std::string> list() const;
  /// Makes the next such call, or a "close", fail with the errno `error`, without effect.
  void fail(const std::string& call, int error);

  /// Of the interposed functions: takes note, and returns the errno to fail with, or 0.
  static int note(const char* name, const fs::path& path);
  static int note(const char* name, int descriptor);

 private:
  int take(const std::string& name, const fs::path& path);

  const fs::path folder_;
  mutable std::mutex mutex_;
  std::vector<std::string> calls_;
  std::map<std::string, int> failing_;
};

}  // namespace flow
