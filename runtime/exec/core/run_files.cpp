// The contents of a run directory, and tests whether a path leads there.
#include "runtime/exec/core/run_files.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"

namespace flow::exec {
namespace {

/// Returns true if `path` is `folder` or is below it. Both are canonical paths.
bool is_within(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

bool is_temporary(const fs::directory_entry& entry) {
  const std::string file = entry.path().filename().string();
  const std::string_view name = std::string_view(file).substr(file.starts_with('.') ? 1 : 0);
  const bool ours = std::ranges::any_of(
      kWritten, [&](const char* written) { return name.starts_with(std::string(written) + '.'); });
  std::error_code ignored;
  return ours && name.ends_with(kTemporarySuffix) && entry.is_regular_file(ignored);
}

/// Returns the device and inode number of the directory that the path leads to, or nothing if it is
/// not a directory.
std::optional<std::pair<uint64_t, uint64_t>> identity_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return {};
  return std::pair<uint64_t, uint64_t>(status.st_dev, status.st_ino);
}

/// Checks all files that a resumed run reads and writes.
class OwnFiles {
 public:
  explicit OwnFiles(const fs::path& directory)
      : directory_(directory), real_(fs::weakly_canonical(directory)) {}

  void require() {
    for (const char* name : kWritten) look_at(fs::directory_entry(real_ / name));
  }

 private:
  void look_at(const fs::directory_entry& entry) {
    std::error_code gone;
    if (entry.is_symlink(gone)) return look_behind(entry.path());
    if (entry.is_regular_file(gone) || !entry.exists(gone)) return;
    if (!entry.is_directory(gone))
      refuse(entry.path(), "neither a file nor a directory", "remove it");
    if (!seen_.insert(entry.path()).second) return;  // links may form cycles
    std::error_code error;
    for (const fs::directory_entry& below : fs::directory_iterator(entry.path(), error))
      look_at(below);
    if (error) throw cannot("read", entry.path(), error.value());
  }

  void look_behind(const fs::path& link) {
    if (const std::string problem = link_problem(link, real_); !problem.empty())
      refuse(link, problem, kReplaceLink);
    look_at(fs::directory_entry(fs::canonical(link)));
  }

  [[noreturn]] void refuse(const fs::path& path, const std::string& what,
                           const std::string& remedy) const {
    const fs::path shown = directory_ / path.lexically_relative(real_);
    throw RequestError(fmt::format("cannot resume: {} is {}", shown.string(), what),
                       remedy + ", or start a new run with -o DIR");
  }

  const fs::path directory_, real_;
  std::set<fs::path> seen_;
};

}  // namespace

SameDirectory::SameDirectory(fs::path path)
    : path_(std::move(path)), folder_(path_), identity_(identity_of(path_)) {}

void SameDirectory::require() const {
  if (identity_of(path_) == identity_) return;
  throw RunError(fmt::format("{} was removed or replaced during the run", path_.string()),
                 "stop a run before you remove its directory");
}

bool has_leftovers_only(const fs::path& directory) {
  std::error_code unreadable;
  const fs::directory_iterator entries(directory, unreadable);
  return !unreadable && std::all_of(begin(entries), end(entries), [](const auto& entry) {
    return is_temporary(entry) || entry.path().filename() == kRemovedFolder;
  });
}

void remove_temporaries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored))
    if (is_temporary(entry)) found.push_back(entry.path());
  for (const fs::path& path : found) remove_path(path);
  remove_tree(directory / kRemovedFolder);
}

void require_own_files(const fs::path& directory) { OwnFiles(directory).require(); }

bool lies_in(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const fs::path below = fs::weakly_canonical(path, ignored);
  const fs::path above = fs::weakly_canonical(folder, ignored);
  return !below.empty() && !above.empty() && is_within(below, above);
}

bool is_written(const fs::path& path, const fs::path& directory) {
  std::error_code ignored;
  const fs::path read = fs::weakly_canonical(path, ignored);
  if (read.empty()) return false;  // the path is a pipe
  return std::ranges::any_of(kWritten, [&](const char* name) {
    const fs::path written = fs::weakly_canonical(directory / name, ignored);
    return is_within(read, written) || (fs::exists(written, ignored) && is_within(written, read));
  });
}

}  // namespace flow::exec
