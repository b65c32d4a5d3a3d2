// Builds a new golden folder next to the old one and exchanges the two.
#include "runtime/compare/golden.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/exec/core/run_files.h"

namespace flow::compare {
namespace {

/// The files of the new golden folder, and where each comes from.
struct GoldenTree {
  std::map<fs::path, fs::path> files;      // sources, by path below the new folder
  std::map<fs::path, fs::path> links;      // targets of the links that are kept, by path
  std::set<fs::path> folders;              // folders that are kept, even if they contain no files
  std::map<std::string, fs::path> arrays;  // paths below the new folder, by name
};

constexpr std::string_view kCheckpoint = "checkpoint/";
constexpr const char* kCheckpoints = "checkpoints";

/// Merges a golden folder and a new one, file by file.
class Planner {
 public:
  Planner(const Side* golden, const Side& out, UpdateReport& report)
      : golden_(golden), out_(out), report_(report) {}

  GoldenTree plan(bool prune) {
    if (golden_) list(golden_->path);
    tree_.files.erase(kGoldenRecord);
    tree_.links.erase(kGoldenRecord);
    if (golden_) drop_replaced(prune);
    if (out_.kind == Kind::kRun) take_run();
    for (const auto& [name, path] : out_.arrays) take_array(name, path);
    require_no_links();
    return std::move(tree_);
  }

 private:
  void list(const fs::path& root) {
    std::error_code error;
    fs::path at = root;
    fs::recursive_directory_iterator entry(root, error), end;
    for (; !error && entry != end; entry.increment(error)) {
      at = entry->path();
      const fs::path below = at.lexically_relative(root);
      const fs::file_status status = entry->symlink_status();
      if (fs::is_symlink(status))
        tree_.links.emplace(below, fs::read_symlink(at));
      else if (fs::is_directory(status))
        tree_.folders.insert(below);
      else if (fs::is_regular_file(status))
        tree_.files.emplace(below, at);
      else
        throw RequestError(
            fmt::format("{} is neither a file nor a directory nor a link", at.string()),
            "remove it from the golden directory");
    }
    if (error) throw cannot("read", at, error.value());
  }

  /// Returns the path of a golden array in the new folder.
  fs::path place_of(const std::string& name, const fs::path& path) const {
    const bool moves =
        golden_->kind == Kind::kRun && name.starts_with(kCheckpoint) && !out_.checkpoint.empty();
    if (!moves) return path.lexically_relative(golden_->path);
    return kCheckpoints / out_.checkpoint.filename() / path.lexically_relative(golden_->checkpoint);
  }

  /// Drops the files that `out` replaces, and sorts the arrays that `out` does not have into kept
  /// and removed ones.
  void drop_replaced(bool prune) {
    const bool drops = prune || !out_.checkpoint.empty();
    if (golden_->kind == Kind::kRun && drops) drop_below(kCheckpoints);
    std::set<fs::path> replaced;  // the files of the arrays in `out`
    for (const auto& [name, path] : out_.arrays)
      replaced.insert(file_of(path).lexically_relative(out_.path));
    for (const auto& [name, array] : golden_->arrays) {
      const fs::path path = file_of(array), below = path.lexically_relative(golden_->path);
      tree_.links.erase(below);  // the link may lead to an array
      tree_.files.erase(below);
      if (out_.has(name)) continue;
      // An archive is always replaced as a whole.
      const bool removed = prune || replaced.contains(below);
      (removed ? report_.removed : report_.kept).push_back(name);
      if (removed && !prune) continue;
      const fs::path link = link_above(below);
      if (prune && !link.empty()) refuse_link(link, below);
      if (prune) continue;
      const fs::path place = place_of(name, path);
      if (link.empty()) tree_.files[place] = path;
      tree_.arrays[name] = place;
    }
  }

  void drop_below(const fs::path& folder) {
    const auto is_below = [&](const auto& path) { return *path.begin() == folder; };
    std::erase_if(tree_.files, [&](const auto& entry) { return is_below(entry.first); });
    std::erase_if(tree_.links, [&](const auto& entry) { return is_below(entry.first); });
    std::erase_if(tree_.folders, is_below);
  }

  void take_run() {
    for (const char* name : {exec::kPlanFile, exec::kRunRecord, exec::kMetricsFile}) {
      std::error_code unknown;
      tree_.files.erase(name);
      tree_.links.erase(name);
      if (!fs::exists(fs::symlink_status(out_.path / name, unknown))) continue;
      require_inside(out_.path, out_.path / name);
      tree_.files[name] = out_.path / name;
    }
    if (out_.checkpoint.empty()) return;
    for (const auto& entry : fs::directory_iterator(out_.checkpoint))
      if (entry.path().extension() == ".json" && entry.is_regular_file())
        tree_.files[kCheckpoints / out_.checkpoint.filename() / entry.path().filename()] =
            entry.path();
  }

  void take_array(const std::string& name, const fs::path& array) {
    read_header(array);  // checks that the file is an array
    const fs::path path = file_of(array), below = path.lexically_relative(out_.path);
    const bool known = golden_ && golden_->has(name);
    const fs::path before = known ? file_of(golden_->arrays.at(name)) : fs::path();
    const bool same = known && has_same_bytes(before, path);
    if (!known) report_.added.push_back(name);
    if (known && !same) report_.changed.push_back(name);
    report_.unchanged += same;
    tree_.files[below] = same ? before : path;
    tree_.arrays[name] = below;
  }

  bool has_same_bytes(const fs::path& golden, const fs::path& out) try {
    return fs::file_size(golden) == fs::file_size(out) && digests_.of(golden) == digests_.of(out);
  } catch (const RunError&) {
    return false;  // a golden array that cannot be read is replaced
  } catch (const fs::filesystem_error&) {
    return false;
  }

  /// Returns the link that is kept and leads to the folder of a file, or an empty path if there is
  /// none.
  fs::path link_above(const fs::path& file) const {
    for (fs::path folder = file.parent_path(); !folder.empty(); folder = folder.parent_path())
      if (tree_.links.contains(folder)) return folder;
    return {};
  }

  [[noreturn]] void refuse_link(const fs::path& link, const fs::path& file) const {
    throw RequestError(fmt::format("{} is a symbolic link, and `{}` is below it",
                                   (golden_->path / link).string(), file.string()),
                       "replace the link with its target");
  }

  /// A file below a link would be written to the target of the link, which is not part of the
  /// golden folder.
  void require_no_links() const {
    for (const auto& [file, source] : tree_.files)
      if (const fs::path link = link_above(file); !link.empty()) refuse_link(link, file);
  }

  const Side* golden_;
  const Side& out_;
  UpdateReport& report_;
  GoldenTree tree_;
  FileDigests digests_;
};

/// Returns the tree after an update of `golden`, and reports what it changes. `golden` is null if
/// it does not exist yet. A file whose content does not change is taken from `golden`. Throws
/// RequestError if the two cannot be merged into one tree.
GoldenTree plan_golden_tree(const Side* golden, const Side& out, bool prune, UpdateReport& report) {
  return Planner(golden, out, report).plan(prune);
}

/// A lock on a directory, which one process can have at a time. It is not acquired if another
/// process has it. On file systems without locks, every process acquires it.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) {
    if (!descriptor_.is_open()) error_ = errno;
    held_ = descriptor_.is_open() &&
            (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
  }
  bool is_held() const { return held_; }
  int error() const { return error_; }  // errno if the directory cannot be opened
  /// Returns true if the path still leads to this directory.
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

/// Returns true if the name is that of a copy of `golden` that an update was building.
bool is_copy_name(std::string_view name, const fs::path& golden) {
  const std::string begin = fmt::format(".{}.", golden.filename().string());
  if (!name.starts_with(begin) || !name.ends_with(kTemporarySuffix)) return false;
  name.remove_prefix(begin.size());
  name.remove_suffix(std::string_view(kTemporarySuffix).size());
  return name.size() == 16 && name.find_first_not_of("0123456789abcdef") == name.npos;
}

/// Removes the copies of updates that were killed. No process has a lock on them.
void remove_leftovers(const fs::path& golden) {
  std::error_code ignored;
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(golden.parent_path(), ignored))
    if (is_copy_name(entry.path().filename().string(), golden)) found.push_back(entry.path());
  for (const fs::path& path : found)
    if (FolderLock(path).is_held()) remove_tree(path);
}

/// A complete new golden folder, which has a temporary name until it is exchanged. The destructor
/// removes the folder that then has this name: the copy, or the old golden folder.
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
    // Links are made last, so that no file is written through them.
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

  /// Makes the copy the golden folder, or leaves the golden folder unchanged.
  void take_place(bool exists) {
    std::error_code ignored;
    if (exists)
      fs::permissions(path_, fs::status(golden_).permissions() | fs::perms::owner_all, ignored);
    folder_->sync_file_system();
    exists ? exchange() : put();
    Folder(golden_.parent_path()).sync();
  }

 private:
  /// Copies a file with its permissions and times, because build tools compare these.
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

/// Returns the path of the folder itself, without links in it.
fs::path real_path(const fs::path& path) {
  fs::path real = fs::weakly_canonical(fs::absolute(path));
  return real.has_filename() ? real : real.parent_path();
}

/// Throws RequestError if one directory is inside the other, or if this process works in golden.
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

/// Lists the existing golden folder. Returns nothing if it does not exist, or has neither an array
/// nor a plan.
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
