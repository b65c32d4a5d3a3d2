// The calls that change names and contents of files: all such changes that flow makes pass here,
// where a test can record them, fail them or stop between two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <system_error>

#include "runtime/base/file.h"

namespace flow {

/// One call. Paths are as given: relative ones to the directory that `folder` has open.
struct FileOperation {
  enum class Kind {
    kOpen,            // path, flags; returns the descriptor
    kWrite,           // descriptor, offset, bytes; returns how many were written
    kTruncate,        // descriptor, offset: the new size
    kSync,            // descriptor, of a file or a directory
    kSyncFileSystem,  // descriptor
    kClose,           // descriptor, of anything
    kMakeFolder,      // path
    kLink,            // path, a symbolic link to target
    kRename,          // path to target
    kExchange,        // path with target
    kRemove,          // path, of a file or a link
    kRemoveFolder,    // path, of an empty directory
  };
  Kind kind;
  int descriptor = -1;
  const char* path = nullptr;
  const char* target = nullptr;
  int folder = -1;  // of path; negative: the working directory
  int flags = 0;
  std::optional<uint64_t> offset = {};  // of kWrite, nothing: where the descriptor is
  std::span<const std::byte> bytes = {};
};

/// What a test puts before the calls, of all threads.
class FileObserver {
 public:
  virtual ~FileObserver() = default;
  /// Returns what `call` returns, which makes the system's call; or returns -1 with an errno
  /// instead.
  virtual long make(const FileOperation& operation, const std::function<long()>& call) = 0;
};

/// Puts an observer before the calls, or none; returns the one before. For tests: nothing else does
/// so, and a program has none.
FileObserver* observe_files(FileObserver* observer);

/// Each makes one call of the system: on failure -1 and errno. A new file is close-on-exec.
namespace calls {

int open(const fs::path& path, int flags);
/// Where the descriptor is.
long write(int descriptor, std::span<const std::byte> bytes);
long write_at(int descriptor, uint64_t offset, std::span<const std::byte> bytes);
int truncate(int descriptor, uint64_t size);
int sync(int descriptor);
int sync_file_system(int descriptor);
int close(int descriptor);
int make_folder(const fs::path& path);
int make_link(const fs::path& target, const fs::path& path);
int rename(const fs::path& path, const fs::path& target);
int exchange(const fs::path& path, const fs::path& target);

}  // namespace calls

/// No error where the call worked: `error_of(calls::rename(from, to))`.
std::error_code error_of(long result);

/// Makes a directory and its missing parents.
std::error_code make_path(const fs::path& path);
/// Removes a file, a link or an empty directory, if it exists.
std::error_code remove_path(const fs::path& path);
/// Removes all below it, too. Follows no link.
std::error_code remove_tree(const fs::path& path);
/// Both are at their beginnings, and `to` is empty. What is zero becomes a hole: a sparse file
/// takes no more space than before.
void copy_whole(File& from, File& to);
/// Copies a directory of files and directories to `to`. RunError where that fails.
void copy_tree(const fs::path& from, const fs::path& to);

}  // namespace flow
