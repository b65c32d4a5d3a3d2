// Comparing files, folders of .npy and run directories by the names of their arrays.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <new>

#include "runtime/base/text.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/io/compare.h"
#include "runtime/io/npy.h"

namespace flow::io {

namespace {

using Arrays = std::map<std::string, fs::path>;  // by name

/// Does a link lead to a folder that it lies in?
bool leads_upwards(const fs::directory_entry& entry) {
  std::error_code error;
  if (!entry.is_symlink(error) || !entry.is_directory(error)) return false;
  const fs::path target = fs::canonical(entry.path(), error);
  const fs::path folder = fs::canonical(entry.path().parent_path(), error);
  return std::ranges::mismatch(target, folder).in1 == target.end();
}

void collect(const fs::path& folder, const std::string& prefix, Arrays& arrays) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;
  fs::path path = folder;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error),
      end;
  for (; !error && entry != end; entry.increment(error)) {
    path = entry->path();
    if (leads_upwards(*entry)) throw cannot("read", path, ELOOP);
    std::error_code unreachable;  // its verdict is to come
    if (path.extension() != ".npy" || entry->is_directory(unreachable)) continue;
    fs::path name = path.lexically_relative(folder);
    name.replace_extension();
    arrays.emplace(prefix + name.generic_string(), path);
  }
  if (error) throw cannot("read", path, error.value());
}

enum class Kind { kFile, kFolder, kRun };

const char* words_for(Kind kind) {
  switch (kind) {
    case Kind::kFile:
      return "a file";
    case Kind::kFolder:
      return "a directory";
    case Kind::kRun:
      break;
  }
  return "a run directory";
}

Kind kind_of(const fs::path& path) {
  if (!fs::exists(path))
    throw RequestError(fmt::format("no such file or directory: {}", path.string()),
                       "name two .npy files, two directories of them, or two runs");
  if (!fs::is_directory(path)) return Kind::kFile;
  return fs::exists(path / "plan.json") ? Kind::kRun : Kind::kFolder;
}

/// `checkpoint`: gets the name of a run's newest one.
Arrays arrays_of(const fs::path& path, Kind kind, std::string& checkpoint) {
  Arrays arrays;
  if (kind == Kind::kFolder) collect(path, "", arrays);
  if (kind != Kind::kRun) return arrays;
  for (const std::string part : {"returns", "watch", "also"})
    collect(path / part, part + "/", arrays);
  if (const auto newest = CheckpointFolder(path).newest()) {
    collect(*newest, "checkpoint/", arrays);
    checkpoint = newest->filename().string();
  }
  return arrays;
}

/// An array that only one side has.
ArrayDifference lone(const std::string& name, ArrayDifference::Verdict verdict,
                     const fs::path& path) {
  ArrayDifference difference;
  difference.name = name;
  difference.verdict = verdict;
  try {
    const MappedFile file(path);
    const NpyHeader header = parse_npy_header(file.bytes(), path.string());
    difference.dtype = header.dtype;
    difference.shape = header.shape;
  } catch (const RunError& error) {
    difference.verdict = ArrayDifference::Verdict::kUnreadable;
    difference.detail = error.what();
  }
  return difference;
}

ArrayDifference compare_files(const std::string& name, const fs::path& golden, const fs::path& out,
                              const ToleranceRules& rules) {
  ArrayDifference unreadable;
  unreadable.name = name;
  unreadable.verdict = ArrayDifference::Verdict::kUnreadable;
  try {
    const MappedNpy a(golden), b(out);
    ArrayDifference difference;
    a.recovering(
        [&] { b.recovering([&] { difference = compare(name, a.view(), b.view(), rules); }); });
    return difference;
  } catch (const RunError& error) {
    unreadable.detail = error.what();
  } catch (const std::bad_alloc&) {
    unreadable.detail = "not enough memory for both arrays";
  }
  return unreadable;
}

}  // namespace

int64_t Comparison::failed() const {
  return std::ranges::count_if(arrays, &ArrayDifference::failed);
}

int64_t Comparison::unreadable() const {
  return std::ranges::count(arrays, ArrayDifference::Verdict::kUnreadable,
                            &ArrayDifference::verdict);
}

int64_t Comparison::pairs() const {
  return std::ranges::count_if(arrays, [](const ArrayDifference& array) {
    return array.verdict != ArrayDifference::Verdict::kMissing &&
           array.verdict != ArrayDifference::Verdict::kExtra;
  });
}

Comparison compare_paths(const fs::path& golden, const fs::path& out, const ToleranceRules& rules,
                         const std::vector<std::string>& ignore) {
  const Kind kind = kind_of(golden), out_kind = kind_of(out);
  if (kind != out_kind)
    throw RequestError(fmt::format("`{}` is {}, but `{}` is {}", golden.string(), words_for(kind),
                                   out.string(), words_for(out_kind)),
                       "compare the same kind, for example RUN/returns with a directory");
  Comparison comparison;
  const auto is_ignored = [&](const std::string& name) {
    const auto matches = [&](const std::string& glob) { return glob_match(glob, name); };
    if (!std::ranges::any_of(ignore, matches)) return false;
    comparison.ignored.push_back(name);
    return true;
  };
  if (kind == Kind::kFile) {
    const std::string name = golden.stem().string();
    if (!is_ignored(name)) comparison.arrays.push_back(compare_files(name, golden, out, rules));
    return comparison;
  }
  const Arrays ours = arrays_of(out, kind, comparison.out_checkpoint);
  Arrays all = arrays_of(golden, kind, comparison.golden_checkpoint);
  const Arrays theirs = all;
  all.insert(ours.begin(), ours.end());
  for (const auto& [name, path] : all) {
    using Verdict = ArrayDifference::Verdict;
    if (is_ignored(name)) continue;
    if (!ours.contains(name)) {
      comparison.arrays.push_back(lone(name, Verdict::kMissing, path));
    } else if (!theirs.contains(name)) {
      comparison.arrays.push_back(lone(name, Verdict::kExtra, path));
    } else {
      comparison.arrays.push_back(compare_files(name, path, ours.at(name), rules));
    }
  }
  return comparison;
}

}  // namespace flow::io
