// What stands in a run directory, and whether a path leads there.
#include "runtime/exec/run_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/error.h"

namespace flow::exec {
namespace {

/// Of canonical paths.
bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

/// Device and number of what the path leads to; nothing where that is no directory.
std::optional<std::pair<uint64_t, uint64_t>> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  return std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

}  // namespace

SameDirectory::SameDirectory(fs::path path)
    : path_(std::move(path)), folder_(path_), identity_(identity_of(path_)) {}

void SameDirectory::require() const {
  if (identity_of(path_) == identity_) return;
  throw RunError(fmt::format("{} was removed or replaced while the run went on", path_.string()),
                 "end a run before its directory is removed");
}

void remove_temporaries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const std::string file = entry.path().filename().string();
    const std::string_view name = std::string_view(file).substr(file.starts_with('.') ? 1 : 0);
    const bool ours = std::ranges::any_of(kWritten, [&](const char* written) {
      return name.starts_with(std::string(written) + '.');
    });
    if (ours && name.ends_with(kTemporarySuffix) && entry.is_regular_file(ignored))
      found.push_back(entry.path());
  }
  for (const fs::path& path : found) fs::remove(path, ignored);
}

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const fs::path below = fs::weakly_canonical(path, ignored);
  const fs::path above = fs::weakly_canonical(folder, ignored);
  return !below.empty() && !above.empty() && is_within(below, above);
}

bool is_written(const fs::path& path, const fs::path& directory) {
  std::error_code ignored;
  const fs::path read = fs::weakly_canonical(path, ignored);
  if (read.empty()) return false;  // a pipe
  return std::ranges::any_of(kWritten, [&](const char* name) {
    const fs::path written = fs::weakly_canonical(directory / name, ignored);
    return is_within(read, written) || (fs::exists(written, ignored) && is_within(written, read));
  });
}

}  // namespace flow::exec
