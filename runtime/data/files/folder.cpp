// Walks folders without recursion, and remembers the folders above each one to find loops of links.
#include "runtime/data/files/folder.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/data/files/unpack.h"

namespace flow::data {

namespace {

/// File times are untrusted: a time whose nanoseconds do not fit in 64 bits wraps around.
int64_t nanoseconds(const timespec& time) {
  constexpr uint64_t kSecond = 1'000'000'000;
  return static_cast<int64_t>(static_cast<uint64_t>(time.tv_sec) * kSecond +
                              static_cast<uint64_t>(time.tv_nsec));
}

FileState state_of(std::string name, const struct stat& status) {
  return {std::move(name), static_cast<uint64_t>(status.st_size), nanoseconds(status.st_mtim)};
}

class FolderWalk {
 public:
  FolderWalk(const fs::path& top, const std::function<bool(std::string_view)>& leave_out,
             const std::function<bool(const FolderEntry&)>& visit)
      : top_(top), leave_out_(leave_out), visit_(visit) {}

  void run() {
    struct stat status {};
    if (::stat(top_.c_str(), &status) != 0) throw cannot("read", top_, errno);
    folders_.push_back({"", status.st_dev, status.st_ino, kNone});
    for (size_t i = 0; i < folders_.size(); ++i) list(i);
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1), kMostFolders = 1'000'000;

  struct Folder {
    std::string name;  // relative to the top
    dev_t device;
    ino_t inode;
    size_t parent;  // index of the folder that contains it
  };

  fs::path path_of(const std::string& name) const { return name.empty() ? top_ : top_ / name; }

  void list(size_t parent) {
    const std::string prefix = folders_[parent].name.empty() ? "" : folders_[parent].name + "/";
    const fs::path path = path_of(folders_[parent].name);
    std::error_code error;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      std::string name = prefix + at->path().filename().string();
      if (!leave_out_(name)) look_at(std::move(name), parent);
    }
    if (error) throw cannot("read", path, error.value());
  }

  void look_at(std::string name, size_t parent) {
    using Kind = FolderEntry::Kind;
    struct stat status {};
    FolderEntry entry;
    if (::stat(path_of(name).c_str(), &status) != 0) {
      entry = {Kind::kUnreadable, {std::move(name)}, errno};
    } else {
      entry.state = state_of(std::move(name), status);
      if (S_ISREG(status.st_mode)) entry.kind = Kind::kFile;
      if (S_ISDIR(status.st_mode)) entry.kind = Kind::kFolder;
    }
    const bool entered = visit_(entry);
    if (entered && entry.kind == Kind::kFolder)
      enter({std::move(entry.state.name), status.st_dev, status.st_ino, parent});
  }

  void enter(Folder folder) {
    for (size_t above = folder.parent; above != kNone; above = folders_[above].parent)
      if (folders_[above].device == folder.device && folders_[above].inode == folder.inode)
        throw RunError(fmt::format("{} is a folder inside itself", path_of(folder.name).string()),
                       "remove the symbolic link");
    if (folders_.size() == kMostFolders)
      throw RunError(fmt::format("{} contains more than {} folders", top_.string(),
                                 grouped_digits(kMostFolders)),
                     "check its symbolic links");
    folders_.push_back(std::move(folder));
  }

  const fs::path& top_;
  const std::function<bool(std::string_view)>& leave_out_;
  const std::function<bool(const FolderEntry&)>& visit_;
  std::vector<Folder> folders_;  // those that were entered
};

std::string_view base_name(std::string_view name) {
  return name.substr(name.rfind('/') + 1);  // npos + 1 is 0
}

bool is_image_name(std::string_view name) {
  constexpr std::array<std::string_view, 3> kEndings = {".png", ".jpg", ".jpeg"};
  return std::ranges::any_of(kEndings, [&](std::string_view ending) {
    return name.size() >= ending.size() &&
           same_but_for_case(name.substr(name.size() - ending.size()), ending);
  });
}

}  // namespace

FileState file_state(const fs::path& root, const std::string& name) {
  const fs::path path = root / name;
  require_regular_file(path);
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw cannot("read", path, errno);
  return state_of(name, status);
}

void walk_folder(const fs::path& folder, const std::function<bool(std::string_view)>& leave_out,
                 const std::function<bool(const FolderEntry&)>& visit) {
  FolderWalk(folder, leave_out, visit).run();
}

ImageFolder list_images(const fs::path& folder) {
  using Kind = FolderEntry::Kind;
  ImageFolder found;
  const auto is_hidden = [](std::string_view name) { return base_name(name).starts_with('.'); };
  walk_folder(folder, is_hidden, [&](const FolderEntry& entry) {
    const std::string& name = entry.state.name;
    const bool image = is_image_name(name);
    if (entry.kind == Kind::kUnreadable && image)
      throw cannot("read", folder / name, entry.error)
          .hinting("remove the link or restore its target");
    if (entry.kind == Kind::kFile && image) found.images.push_back(entry.state);
    if (entry.kind == Kind::kFolder && name.find('/') == name.npos) found.classes.push_back(name);
    found.others += entry.kind != Kind::kFolder && !(entry.kind == Kind::kFile && image);
    return true;
  });
  if (found.images.empty())
    throw RunError(
        fmt::format("{} has no images; expected files named .png, .jpg or .jpeg", folder.string()));
  std::ranges::sort(found.images, {}, &FileState::name);
  std::ranges::sort(found.classes);
  return found;
}

std::string_view class_of(std::string_view image) {
  const size_t slash = image.find('/');
  return slash == image.npos ? std::string_view() : image.substr(0, slash);
}

namespace {

/// A glob of paths: the folder in which all its matches are, and the glob below that folder.
class PathGlob {
 public:
  explicit PathGlob(std::string_view text) {
    const size_t slash = text.rfind('/', text.find_first_of("*{}"));
    folder_ = text.substr(0, slash == text.npos ? 0 : slash + 1);
    rest_ = text.substr(folder_.size());
    if (rest_.find("**") == rest_.npos && rest_.find('{') == rest_.npos)
      levels_ = static_cast<size_t>(std::ranges::count(rest_, '/'));
  }

  const std::string& folder() const { return folder_; }
  bool matches(std::string_view name) const { return glob_match(rest_, name); }

  /// Returns true if a folder may contain matches.
  bool may_be_in(std::string_view name) const {
    if (!levels_) return true;
    const auto level = static_cast<size_t>(std::ranges::count(name, '/'));
    return level < *levels_ && glob_match(first_components(level + 1), name);
  }

 private:
  /// Returns the first components of the glob. REQUIRES: it has more than `count`.
  std::string_view first_components(size_t count) const {
    size_t end = 0;
    for (size_t i = 0; i < count; ++i) end = rest_.find('/', i == 0 ? 0 : end + 1);
    return std::string_view(rest_).substr(0, end);
  }

  std::string folder_, rest_;
  std::optional<size_t> levels_;  // folders between folder_ and a match; nothing if any number
};

std::vector<std::string> matches_of(const std::string& text, const fs::path& root) {
  const PathGlob glob(text);
  const fs::path folder = glob.folder().empty() ? root : root / glob.folder();
  std::vector<std::string> found;
  const auto nothing = [](std::string_view) { return false; };
  std::error_code missing;
  if (fs::is_directory(folder.empty() ? "." : folder, missing))
    walk_folder(folder.empty() ? "." : folder, nothing, [&](const FolderEntry& entry) {
      const std::string& name = entry.state.name;
      if (entry.kind == FolderEntry::Kind::kFolder) return glob.may_be_in(name);
      if (glob.matches(name)) found.push_back(glob.folder() + name);
      return false;
    });
  if (found.empty())
    throw RunError(no_match("file", text), "check the path; it is relative to the job file");
  std::ranges::sort(found);
  return found;
}

}  // namespace

std::vector<std::string> expand_paths(std::span<const std::string> paths, const fs::path& root) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    if (path.find('*') == path.npos) {
      expanded.push_back(path);
      continue;
    }
    const std::vector<std::string> found = matches_of(path, root);
    expanded.insert(expanded.end(), found.begin(), found.end());
  }
  return expanded;
}

}  // namespace flow::data
