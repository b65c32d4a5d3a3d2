// Merging a golden folder and a new one, file by file.
#include "runtime/compare/golden_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/base/error.h"
#include "runtime/base/inner_file.h"
#include "runtime/compare/golden_record.h"
#include "runtime/exec/core/run_files.h"

namespace flow::compare {
namespace {

constexpr std::string_view kCheckpoint = "checkpoint/";
constexpr const char* kCheckpoints = "checkpoints";

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

  /// Where an array of golden will be.
  fs::path place_of(const std::string& name, const fs::path& path) const {
    const bool moves =
        golden_->kind == Kind::kRun && name.starts_with(kCheckpoint) && !out_.checkpoint.empty();
    if (!moves) return path.lexically_relative(golden_->path);
    return kCheckpoints / out_.checkpoint.filename() / path.lexically_relative(golden_->checkpoint);
  }

  /// Takes away what comes from `out`, and sorts out arrays that it lacks.
  void drop_replaced(bool prune) {
    const bool drops = prune || !out_.checkpoint.empty();
    if (golden_->kind == Kind::kRun && drops) drop_below(kCheckpoints);
    std::set<fs::path> replaced;  // files that come from `out`
    for (const auto& [name, path] : out_.arrays)
      replaced.insert(file_of(path).lexically_relative(out_.path));
    for (const auto& [name, array] : golden_->arrays) {
      const fs::path path = file_of(array), below = path.lexically_relative(golden_->path);
      tree_.links.erase(below);  // to an array
      tree_.files.erase(below);
      if (out_.has(name)) continue;
      // An archive is replaced whole.
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
    read_header(array);  // and it is one
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

  /// The link that stays and leads to the folder of a file; empty where there is none.
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

  /// A file below a link would be written to its target, which is not part of the golden folder.
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

}  // namespace

GoldenTree plan_golden_tree(const Side* golden, const Side& out, bool prune, UpdateReport& report) {
  return Planner(golden, out, report).plan(prune);
}

}  // namespace flow::compare
