// The system calls that change files, and functions for whole trees that use them.
#include "runtime/base/file_operations.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

namespace flow {

namespace {

using Operation = FileOperation;

std::atomic<FileObserver*> file_observer = nullptr;

template <typename Call>
long observed(const FileOperation& operation, const Call& call) {
  FileObserver* const observer = file_observer.load(std::memory_order_acquire);
  if (!observer) [[likely]]
    return call();
  return observer->make(operation, call);
}

template <typename Call>
int observed_int(const FileOperation& operation, const Call& call) {
  return static_cast<int>(observed(operation, call));
}

int remove_at(int folder, const char* name, int flags) {
  const auto kind = flags == 0 ? Operation::Kind::kRemove : Operation::Kind::kRemoveFolder;
  return observed_int({.kind = kind, .path = name, .folder = folder},
                      [=] { return ::unlinkat(folder, name, flags); });
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

/// Lists all names before anything is removed, because removing entries while a directory is read
/// may hide others.
int list_names(DIR* folder, std::vector<std::string>& names) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder);
    if (!entry) return errno == 0 ? 0 : -1;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
}

/// Uses descriptors instead of paths: if another program replaces a directory with a link in the
/// meantime, the link is not followed.
int remove_tree_at(int parent, const char* name) {
  if (remove_at(parent, name, 0) == 0 || errno == ENOENT) return 0;
  if (errno != EISDIR) return -1;
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  const int descriptor = ::openat(parent, name, kFlags);
  if (descriptor < 0) return -1;
  const std::unique_ptr<DIR, CloseFolder> folder(::fdopendir(descriptor));
  if (!folder) {
    const int code = errno;
    ::close(descriptor);
    errno = code;
    return -1;
  }
  std::vector<std::string> names;
  if (list_names(folder.get(), names) != 0) return -1;
  for (const std::string& below : names)
    if (remove_tree_at(descriptor, below.c_str()) != 0) return -1;
  return remove_at(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT ? 0 : -1;
}

void copy_one(const fs::path& from, const fs::path& to) {
  // Opening a pipe would wait for a writer, so only regular files are copied.
  std::error_code unknown;
  if (!fs::is_regular_file(from, unknown))
    throw RunError(fmt::format("{} is not a file", from.string()), "remove or rename it");
  File source = File::open_read(from), copy = File::create(to);
  copy_whole(source, copy);
  copy.close();
}

}  // namespace

FileObserver* observe_files(FileObserver* observer) { return file_observer.exchange(observer); }

namespace calls {

int open(const fs::path& path, int flags) {
  return observed_int({.kind = Operation::Kind::kOpen, .path = path.c_str(), .flags = flags},
                      [&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

long write(int descriptor, std::span<const std::byte> bytes) {
  return observed({.kind = Operation::Kind::kWrite, .descriptor = descriptor, .bytes = bytes},
                  [=] { return ::write(descriptor, bytes.data(), bytes.size()); });
}

long write_at(int descriptor, uint64_t offset, std::span<const std::byte> bytes) {
  return observed(
      {.kind = Operation::Kind::kWrite, .descriptor = descriptor, .offset = offset, .bytes = bytes},
      [=] { return ::pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(offset)); });
}

int truncate(int descriptor, uint64_t size) {
  return observed_int(
      {.kind = Operation::Kind::kTruncate, .descriptor = descriptor, .offset = size},
      [=] { return ::ftruncate(descriptor, static_cast<off_t>(size)); });
}

int sync(int descriptor) {
  return observed_int({.kind = Operation::Kind::kSync, .descriptor = descriptor},
                      [=] { return ::fsync(descriptor); });
}

int sync_file_system(int descriptor) {
  return observed_int({.kind = Operation::Kind::kSyncFileSystem, .descriptor = descriptor},
                      [=] { return ::syncfs(descriptor); });
}

int close(int descriptor) {
  return observed_int({.kind = Operation::Kind::kClose, .descriptor = descriptor},
                      [=] { return ::close(descriptor); });
}

int make_folder(const fs::path& path) {
  return observed_int({.kind = Operation::Kind::kMakeFolder, .path = path.c_str()},
                      [&] { return ::mkdir(path.c_str(), 0777); });
}

int make_link(const fs::path& target, const fs::path& path) {
  return observed_int(
      {.kind = Operation::Kind::kLink, .path = path.c_str(), .target = target.c_str()},
      [&] { return ::symlink(target.c_str(), path.c_str()); });
}

int rename(const fs::path& path, const fs::path& target) {
  return observed_int(
      {.kind = Operation::Kind::kRename, .path = path.c_str(), .target = target.c_str()},
      [&] { return ::rename(path.c_str(), target.c_str()); });
}

int exchange(const fs::path& path, const fs::path& target) {
  return observed_int(
      {.kind = Operation::Kind::kExchange, .path = path.c_str(), .target = target.c_str()}, [&] {
        return ::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE);
      });
}

}  // namespace calls

std::error_code error_of(long result) {
  return result < 0 ? std::error_code(errno, std::generic_category()) : std::error_code();
}

std::error_code make_path(const fs::path& path) {
  std::error_code unknown;
  const fs::file_status status = fs::status(path, unknown);
  if (fs::is_directory(status)) return {};
  if (fs::exists(status)) return std::make_error_code(std::errc::not_a_directory);
  const fs::path name = path.filename(), parent = path.parent_path();
  if (!parent.empty() && parent != path)
    if (const std::error_code error = make_path(parent)) return error;
  if (name.empty() || name == "." || name == "..") return {};
  const std::error_code error = error_of(calls::make_folder(path));
  // Another program may have created it first.
  return error && fs::is_directory(path, unknown) ? std::error_code() : error;
}

std::error_code remove_path(const fs::path& path) {
  if (remove_at(AT_FDCWD, path.c_str(), 0) == 0 || errno == ENOENT) return {};
  if (errno != EISDIR) return error_of(-1);
  return error_of(remove_at(AT_FDCWD, path.c_str(), AT_REMOVEDIR));
}

std::error_code remove_tree(const fs::path& path) {
  return error_of(remove_tree_at(AT_FDCWD, path.c_str()));
}

void copy_whole(File& from, File& to) {
  std::vector<std::byte> chunk(size_t{1} << 20);
  uint64_t size = 0, written = 0;
  while (const size_t got = from.read(chunk)) {
    const auto part = std::span(chunk).first(got);
    const bool zeros =
        std::ranges::all_of(part, [](std::byte byte) { return byte == std::byte(); });
    if (!zeros) {
      to.write_at(size, part);
      written = size + got;
    }
    size += got;
  }
  if (written < size) to.truncate(size);
}

void copy_tree(const fs::path& from, const fs::path& to) {
  make_folders(to);
  std::error_code error;
  for (fs::directory_iterator entry(from, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path name = to / entry->path().filename();
    const bool folder = entry->is_directory(error);
    if (error) break;
    folder ? copy_tree(entry->path(), name) : copy_one(entry->path(), name);
  }
  if (error) throw cannot("read", from, error.value());
}

}  // namespace flow
