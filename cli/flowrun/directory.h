// The directory in which a run writes: DIR of `-o`, or the next free runs/<file>-<job>-NNN.
#pragma once

#include <string>

#include "runtime/base/file.h"

namespace flow::cli {

/// Creates the default directory. Several processes may do this at the same time.
fs::path make_default_directory(const std::string& file, const std::string& job);

/// Prevents other runs from using a directory during the lifetime of this object. File systems
/// without locks provide no protection.
class DirectoryLock {
 public:
  DirectoryLock() = default;  // locks no directory
  /// Throws RequestError if another run has locked the directory.
  explicit DirectoryLock(const fs::path& path);

 private:
  Descriptor descriptor_;
};

/// Reports the errors of take_directory, but creates nothing.
void check_directory(const fs::path& path, bool force);

/// Creates `path` if it is absent, and locks it. Throws RequestError if `path` is not a directory.
[[nodiscard]] DirectoryLock lock_directory(const fs::path& path);

/// Creates and locks `path` like lock_directory. Throws RequestError if the directory is not empty,
/// unless `force` is set. With `force`, first removes the output of an earlier run and nothing
/// else.
[[nodiscard]] DirectoryLock take_directory(const fs::path& path, bool force);

/// Removes the output of a run. A folder without a plan is not the folder of a run: files with
/// these names belong to the user, so their removal is refused. `restarts` means that the same run
/// starts again. In this case its plan stays, so that the folder is recognizable as a run's at any
/// moment, and so does a state that was saved after a failure.
void remove_run(const fs::path& directory, bool restarts = false);

}  // namespace flow::cli
