// What stands in a run directory, and whether a path leads there.
#include "runtime/exec/run_files.h"

#include <algorithm>

namespace flow::exec {
namespace {

/// Is `path` the directory `folder`, or somewhere below it? Both canonical.
bool lies_in(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

}  // namespace

bool is_written(const fs::path& path, const fs::path& directory) {
  std::error_code ignored;
  const fs::path read = fs::weakly_canonical(path, ignored);
  if (read.empty()) return false;  // a pipe
  return std::ranges::any_of(kWritten, [&](const char* name) {
    const fs::path written = fs::weakly_canonical(directory / name, ignored);
    return lies_in(read, written) || (fs::exists(written, ignored) && lies_in(written, read));
  });
}

}  // namespace flow::exec
