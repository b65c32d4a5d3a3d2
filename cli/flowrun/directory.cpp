// Prepares the directory in which a run writes.
#include "cli/flowrun/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/exec/core/run_files.h"

namespace flow::cli {

namespace {

[[noreturn]] void refuse(const fs::path& path, const std::error_code& error) {
  throw RequestError(
      fmt::format("cannot create the directory {}: {}", path.string(), error.message()),
      "name another directory with -o DIR");
}

[[noreturn]] void refuse_removal(const fs::path& path, const std::error_code& error) {
  throw RequestError(fmt::format("cannot remove {}: {}", path.string(), error.message()),
                     "remove it, or name another directory with -o DIR");
}

bool stays(std::string_view name) { return name == exec::kRescued || name == exec::kPlanFile; }

/// Moves everything that a run wrote into `aside`, or nothing. The plan identifies the other files
/// as output of a run, so it is moved last, after the other moves have reached the disk.
void move_aside(const fs::path& directory, const fs::path& aside, bool restarts) {
  static_assert(exec::kWritten.back() == std::string_view(exec::kPlanFile));
  std::vector<const char*> moved;
  for (const char* name : exec::kWritten) {
    if (restarts && stays(name)) continue;
    if (name == exec::kWritten.back()) Folder(directory).sync();
    const std::error_code error = error_of(calls::rename(directory / name, aside / name));
    if (!error) moved.push_back(name);
    if (!error || error == std::errc::no_such_file_or_directory) continue;
    for (const char* back : moved) calls::rename(aside / back, directory / back);
    remove_path(aside);
    refuse_removal(directory / name, error);
  }
}

}  // namespace

void remove_run(const fs::path& directory, bool restarts) {
  std::error_code error;
  const fs::path aside = directory / exec::kRemovedFolder;
  const bool ran =
      fs::is_regular_file(directory / exec::kPlanFile, error) || fs::exists(aside, error);
  for (const char* name : exec::kWritten)
    if (const fs::path path = directory / name; !ran && fs::exists(fs::symlink_status(path, error)))
      throw RequestError(
          fmt::format("{} does not belong to a run: no {} next to it", path.string(),
                      exec::kPlanFile),
          "name another directory with -o DIR; --force removes only the files of a run");
  if (!ran) {
    if (exec::has_leftovers_only(directory)) exec::remove_temporaries(directory);
    return;
  }
  if (error = remove_tree(aside); !error) error = make_path(aside);
  if (error) refuse_removal(aside, error);
  move_aside(directory, aside, restarts);
  if (error = remove_tree(aside); error) refuse_removal(aside, error);
  exec::remove_temporaries(directory);
}

DirectoryLock::DirectoryLock(const fs::path& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!descriptor_.is_open() || ::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0 ||
      errno != EWOULDBLOCK)
    return;
  throw RequestError(fmt::format("another run is writing to {}", path.string()),
                     "wait until it ends, or name another directory with -o DIR");
}

fs::path make_default_directory(const std::string& file, const std::string& job) {
  const std::string stem = fs::path(file).stem().string() + "-" + job;
  if (const std::error_code error = make_path("runs")) refuse("runs", error);
  for (int number = 1; number < 1'000'000; ++number) {
    fs::path path = fs::path("runs") / fmt::format("{}-{:03}", stem, number);
    const std::error_code error = error_of(calls::make_folder(path));
    if (!error) return path;
    if (error != std::errc::file_exists) refuse(path, error);
  }
  throw RequestError(fmt::format("all directories runs/{}-NNN are taken", stem),
                     "name a directory with -o DIR");
}

void check_directory(const fs::path& path, bool force) {
  if (path.empty()) throw RequestError("-o: empty directory name", "name a directory with -o DIR");
  std::error_code error;
  const bool directory = fs::is_directory(path, error);
  if (!directory && fs::exists(path, error))
    throw RequestError(fmt::format("{} is a file, not a directory", path.string()),
                       "name another directory with -o DIR");
  if (!directory || force) return;
  const bool empty = fs::is_empty(path, error);
  if (error) refuse(path, error);
  if (empty) return;
  const bool resumable = fs::exists(path / "checkpoints", error);
  throw RequestError(fmt::format("{} is not empty", path.string()),
                     fmt::format("use --force to remove the files of an earlier run{}",
                                 resumable ? ", or --resume to continue it" : ""));
}

DirectoryLock lock_directory(const fs::path& path) {
  std::error_code error;
  if (path.empty() || (fs::exists(path, error) && !fs::is_directory(path, error)))
    check_directory(path, false);
  if (error = make_path(path); error) refuse(path, error);
  return DirectoryLock(path);
}

DirectoryLock take_directory(const fs::path& path, bool force) {
  check_directory(path, force);
  DirectoryLock directory = lock_directory(path);
  check_directory(path, force);  // another run may have taken the directory in the meantime
  remove_run(path);
  return directory;
}

}  // namespace flow::cli
