// Where a run writes: DIR of `-o`, or the next free runs/<file>-<job>-NNN.
#pragma once

#include <string>

#include "runtime/base/file.h"

namespace flow::cli {

/// Makes the default directory, safe against others who do the same at the same time.
fs::path make_default_directory(const std::string& file, const std::string& job);

/// Keeps other runs out of a directory for as long as it lives. File systems that know no locks
/// keep nobody out.
class DirectoryLock {
 public:
  DirectoryLock() = default;  // of none
  /// RequestError where another run has it.
  explicit DirectoryLock(const fs::path& path);

 private:
  Descriptor descriptor_;
};

/// Reports what take_directory would refuse, and makes nothing.
void check_directory(const fs::path& path, bool force);

/// Makes `path` where it is absent, and locks it. RequestError when it is something else.
[[nodiscard]] DirectoryLock lock_directory(const fs::path& path);

/// The same; a directory that is not empty is refused (RequestError) unless `force`: then what an
/// earlier run wrote there is removed first, and nothing else is.
[[nodiscard]] DirectoryLock take_directory(const fs::path& path, bool force);

/// Removes what a run wrote. A folder without a plan has seen no run: what has such names there is
/// somebody's, and refused. `restarts`: the same run starts again; it keeps its plan, by which a
/// folder is known as its own at any moment, and a state that a failure left.
void remove_run(const fs::path& directory, bool restarts = false);

}  // namespace flow::cli
