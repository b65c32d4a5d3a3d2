// The calls that change names and contents of files. All changes that flow makes pass through them,
// so that a test can record them, make them fail, or stop between two of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <system_error>

#include "runtime/base/file.h"

namespace flow {

/// A system call that changes files. Its paths are as the caller gave them; a relative path refers
/// to the directory that `folder` has open.
struct FileOperation {
  enum class Kind {
    kOpen,            // path, flags; returns the descriptor
    kWrite,           // descriptor, offset, bytes; returns the number of bytes written
    kTruncate,        // descriptor, offset, which is the new size
    kSync,            // descriptor of a file or a directory
    kSyncFileSystem,  // descriptor
    kClose,           // descriptor of any kind
    kMakeFolder,      // path
    kLink,            // path, which becomes a symbolic link to target
    kRename,          // path, which is renamed to target
    kExchange,        // path and target, which are exchanged
    kRemove,          // path of a file or a link
    kRemoveFolder,    // path of an empty directory
  };
  Kind kind;
  int descriptor = -1;
  const char* path = nullptr;
  const char* target = nullptr;
  int folder = -1;  // directory of a relative path; the working directory if negative
  int flags = 0;
  std::optional<uint64_t> offset = {};  // for kWrite; empty: the descriptor's current position
  std::span<const std::byte> bytes = {};
};

/// An object through which a test intercepts the calls of all threads.
class FileObserver {
 public:
  virtual ~FileObserver() = default;
  /// Calls `call`, which makes the system call, and returns its result; or sets errno and returns
  /// -1 instead.
  virtual long make(const FileOperation& operation, const std::function<long()>& call) = 0;
};

/// Sets the observer of the calls, which may be null, and returns the previous one. Only tests call
/// it; programs have no observer.
FileObserver* observe_files(FileObserver* observer);

/// Each function makes one system call and returns -1 with errno if it fails. A new file is
/// close-on-exec.
namespace calls {

int open(const fs::path& path, int flags);
/// Writes at the current position of the descriptor.
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

/// Returns the error of a call, or no error if it succeeded: `error_of(calls::rename(from, to))`.
std::error_code error_of(long result);

/// Creates a directory and its missing parents.
std::error_code make_path(const fs::path& path);
/// Removes a file, a link or an empty directory if it exists.
std::error_code remove_path(const fs::path& path);
/// Removes a file, or a directory with everything in it. Does not follow links.
std::error_code remove_tree(const fs::path& path);
/// Copies a file. Blocks of zeros become holes, so a sparse file needs no more space than before.
/// REQUIRES: both files are at their beginnings, and `to` is empty.
void copy_whole(File& from, File& to);
/// Copies a directory of files and directories to `to`. Throws RunError if that fails.
void copy_tree(const fs::path& from, const fs::path& to);

}  // namespace flow
