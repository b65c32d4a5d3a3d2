// A new golden folder next to the old one, and the exchange of the two.
#include "runtime/compare/update.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/folder.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/compare/golden_record.h"
#include "runtime/compare/golden_tree.h"
#include "runtime/exec/core/run_files.h"

namespace flow::compare {
namespace {

/// A lock on a directory, held by one process at a time; of none where another one has it.
/// Everybody gets it on file systems that know no locks.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    if (!descriptor_.is_open()) error_ = errno;
    held_ = descriptor_.is_open() &&
            (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
  }
  bool is_held() const { return held_; }
  int error() const { return error_; }  // errno, where the directory cannot be opened
  /// Does the path still lead to this directory?
  bool is_of(const fs::path& folder) const {
    struct stat ours {
    }, theirs{};
    return ::fstat(descriptor_.get(), &ours) == 0 && ::stat(folder.c_str(), &theirs) == 0 &&
           ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
  }

 private:
  Descriptor descriptor_;
  bool held_ = false;
  int error_ = 0;
};

/// Is it the name of a copy of `golden` that an update was building?
bool is_copy_name(std::string_view name, const fs::path& golden) {
  const std::string begin = fmt::format(".{}.", golden.filename().string());
  if (!name.starts_with(begin) || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_prefix(begin.size());
  name.remove_suffix(std::string_view(kTemporarySuffix).size());
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

/// Removes copies whose update was killed: nobody holds their lock.
void remove_leftovers(const fs::path& golden) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(golden.parent_path(), ignored))
    if (is_copy_name(entry.path().filename().string(), golden)) found.push_back(entry.path());
  for (const fs::path& path : found)
    if (FolderLock(path).is_held()) remove_tree(path);
}

/// A complete new golden folder, under a temporary name until it is exchanged. The destructor
/// removes what has that name then: this copy, or the old golden folder.
class Copy {
 public:
  explicit Copy(const fs::path& golden) : golden_(golden), path_(temporary_beside(golden)) {
    if (calls::make_folder(path_) != 0) throw cannot("create the directory", path_, errno);
    lock_.emplace(path_);
    folder_.emplace(path_);
  }
  ~Copy() { remove_tree(path_); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  void fill(const GoldenTree& tree) {
    for (const fs::path& folder : tree.folders) make_folders(path_ / folder);
    for (const auto& [below, source] : tree.files) copy_file(source, below);
    // Links last: nothing can be written through them.
    for (const auto& [below, target] : tree.links)
      if (calls::make_link(target, path_ / below) != 0)
        throw cannot("write", golden_ / below, errno);
  }

  void write_record(GoldenRecord record, const GoldenTree& tree) {
    FileDigests digests;
    for (const auto& [name, below] : tree.arrays) record.arrays[name] = digests.of(path_ / below);
    const std::string text = to_json(record);
    File file = File::create_new(path_ / kGoldenRecord, golden_ / kGoldenRecord);
    file.write(text);
    file.close();
  }

  /// Makes it the golden folder, or leaves that as it is.
  void take_place(bool exists) {
    std::error_code ignored;
    if (exists)
      fs::permissions(path_, fs::status(golden_).permissions() | fs::perms::owner_all, ignored);
    folder_->sync_file_system();
    exists ? exchange() : put();
    Folder(golden_.parent_path()).sync();
  }

 private:
  /// With its permissions and times: build tools compare them.
  void copy_file(const fs::path& source, const fs::path& below) {
    make_folders((path_ / below).parent_path());
    File from = File::open_read(source);
    File to = File::create_new(path_ / below, golden_ / below);
    copy_whole(from, to);
    to.close();
    struct stat status {};
    if (::stat(source.c_str(), &status) != 0) throw cannot("read", source, errno);
    const timespec times[2] = {status.st_atim, status.st_mtim};
    ::chmod((path_ / below).c_str(), status.st_mode & 0777);
    ::utimensat(AT_FDCWD, (path_ / below).c_str(), times, 0);
  }

  void exchange() {
    if (calls::exchange(path_, golden_) == 0) return;
    if (errno != EINVAL && errno != ENOSYS) throw cannot("replace", golden_, errno);
    throw RequestError(
        fmt::format("cannot replace {} at once: its file system cannot exchange two directories",
                    golden_.string()),
        "keep it on another file system, such as ext4, XFS, Btrfs or tmpfs");
  }

  void put() {
    if (calls::rename(path_, golden_) != 0) throw cannot("write", golden_, errno);
  }

  const fs::path golden_, path_;
  std::optional<FolderLock> lock_;
  std::optional<Folder> folder_;
};

/// The folder itself, without links in its path.
fs::path real_path(const fs::path& path) {
  fs::path real = fs::weakly_canonical(fs::absolute(path));
  return real.has_filename() ? real : real.parent_path();
}

/// RequestError where one directory is in the other, or this process works in golden.
void require_apart(const fs::path& golden, const fs::path& out, const UpdateRequest& request) {
  if (exec::lies_in(out, golden) || exec::lies_in(golden, out))
    throw RequestError(fmt::format("{} and {} {}", request.golden.string(), request.out.string(),
                                   golden == out ? "are the same directory" : "contain each other"),
                       "name the directory of a new run as OUT");
  std::error_code ignored;
  if (exec::lies_in(fs::current_path(ignored), golden))
    throw RequestError(
        fmt::format("{} is the current directory, which is replaced", request.golden.string()),
        "run the command from another directory");
}

/// Golden as it is; nothing where it does not exist, or has no array and no plan.
std::optional<Side> list_golden(const fs::path& golden, const UpdateRequest& request) {
  std::error_code unknown;
  if (!fs::exists(fs::symlink_status(golden, unknown))) return {};
  if (!fs::is_directory(golden, unknown))
    throw RequestError(fmt::format("{} is a file, not a directory", request.golden.string()),
                       "update replaces directories; copy a single file instead");
  return list_side(golden);
}

GoldenRecord new_record(const UpdateRequest& request, const Side& out) {
  GoldenRecord record{
      .date = utc_time(), .reason = trimmed(request.reason), .flow = request.version, .arrays = {}};
  if (record.reason.empty())
    throw RequestError("--reason: empty", "say why the golden arrays change: --reason TEXT");
  if (out.kind == Kind::kRun) record.run = read_run(out.path);
  return record;
}

Side list_out(const UpdateRequest& request) {
  Side out = list_side(request.out);
  if (out.kind == Kind::kFile || out.kind == Kind::kArchive)
    throw RequestError(fmt::format("{} is a file, not a directory", request.out.string()),
                       "update replaces directories; copy a single file instead");
  if (out.arrays.empty())
    throw RequestError(fmt::format("{} has no array", request.out.string()),
                       "name a run, or a directory of .npy files");
  return out;
}

}  // namespace

UpdateReport update_golden(const UpdateRequest& request) {
  const Side out = list_out(request);
  const GoldenRecord record = new_record(request, out);
  const fs::path golden = real_path(request.golden);
  require_apart(golden, real_path(request.out), request);
  const FolderLock lock(golden);
  const std::optional<Side> old = list_golden(golden, request);
  if (old && lock.error() != 0) throw cannot("read", request.golden, lock.error());
  if (old && (!lock.is_held() || !lock.is_of(golden)))
    throw RequestError(fmt::format("another update of {} is running", request.golden.string()),
                       "wait until it ends");
  if (old && (old->kind == Kind::kRun || !old->arrays.empty())) require_same_kind(*old, out);
  remove_leftovers(golden);
  UpdateReport report;
  const GoldenTree tree = plan_golden_tree(old ? &*old : nullptr, out, request.prune, report);
  make_folders(golden.parent_path());
  Copy copy(golden);
  copy.fill(tree);
  copy.write_record(record, tree);
  copy.take_place(old.has_value());
  return report;
}

}  // namespace flow::compare
