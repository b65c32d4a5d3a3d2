// Folders, and what makes their content last through a power cut.
#pragma once

#include "runtime/base/file.h"

namespace flow {

/// An open folder. On file systems that cannot sync (EINVAL, EROFS), syncing does nothing.
class Folder {
 public:
  /// RunError where there is none. An empty path: the current one.
  explicit Folder(fs::path path);
  /// Returns when the names in it are on the disk: files and folders that were made, renamed or
  /// removed there. RunError when that fails.
  void sync() const;
  /// Returns when its whole file system is on the disk, and with it all files and folders below:
  /// one commit of the journal, where a sync of each file takes one each. RunError where anything
  /// could not be written since this folder was opened.
  void sync_file_system() const;

 private:
  void require(int result) const;

  fs::path path_;
  Descriptor descriptor_;  // none where the folder may be written but not read
};

}  // namespace flow
