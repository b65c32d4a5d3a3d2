// Syncing folders and file systems.
#include "runtime/base/folder.h"

#include <fcntl.h>

#include <cerrno>

#include "runtime/base/file_operations.h"

namespace flow {

Folder::Folder(fs::path path)
    : path_(path.empty() ? fs::path(".") : std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!descriptor_.is_open() && errno != EACCES) throw cannot("sync", path_, errno);
}

void Folder::sync() const {
  if (descriptor_.is_open()) require(calls::sync(descriptor_.get()));
}

void Folder::sync_file_system() const {
  if (descriptor_.is_open()) require(calls::sync_file_system(descriptor_.get()));
}

void Folder::require(int result) const {
  if (result != 0 && errno != EINVAL && errno != EROFS) throw cannot("sync", path_, errno);
}

}  // namespace flow
