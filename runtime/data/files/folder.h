// Files of folders: the images of a dataset, and the files that globs match.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"

namespace flow::data {

/// The name, size and time of a file, which change if its contents do.
struct FileState {
  std::string name;   // path as the job file or a folder gives it
  uint64_t size = 0;  // bytes
  int64_t time = 0;   // last modification in nanoseconds since 1970
  friend bool operator==(const FileState&, const FileState&) = default;
};

/// Returns the state of the regular file `name`, which is relative to `root`. Throws RunError if it
/// is missing or not a regular file. The file is not opened.
FileState file_state(const fs::path& root, const std::string& name);

/// Something below a folder. Symbolic links are followed.
struct FolderEntry {
  enum class Kind { kFile, kFolder, kOther, kUnreadable };  // kOther is a pipe or a device
  Kind kind = Kind::kOther;
  FileState state;  // its name is relative to the folder that is walked
  int error = 0;    // errno of kUnreadable, such as that of a broken link
};

/// Calls `visit` once for everything below a folder, in no particular order. `leave_out` is asked
/// first and returns true for relative paths that are not looked at. A folder is entered if `visit`
/// returns true. Throws RunError if a folder cannot be read, is inside itself, or if there are more
/// than a million folders.
void walk_folder(const fs::path& folder, const std::function<bool(std::string_view)>& leave_out,
                 const std::function<bool(const FolderEntry&)>& visit);

/// The images below a folder.
struct ImageFolder {
  std::vector<FileState> images;     // sorted by the bytes of their names
  std::vector<std::string> classes;  // the folders directly in the folder, sorted by bytes
  uint64_t others = 0;               // files that are not images
};

/// Lists the regular files that are named .png, .jpg or .jpeg in any case, at any depth. Names that
/// begin with a dot are left out. Throws the errors of walk_folder(), and RunError if there is no
/// image, or a broken link is named like one.
ImageFolder list_images(const fs::path& folder);

/// Returns the first folder of the name of an image, or an empty text if it has none.
std::string_view class_of(std::string_view image);

/// Replaces each path that contains `*` by the files that it matches as a glob, sorted by bytes.
/// Other paths stay, and so does the order of the list. Paths are relative to `root`. Throws the
/// errors of walk_folder(), and RunError if a glob matches no file.
std::vector<std::string> expand_paths(std::span<const std::string> paths, const fs::path& root);

}  // namespace flow::data
