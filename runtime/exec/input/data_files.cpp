// Hashes data files.
#include "runtime/exec/input/input_pipeline.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <variant>

#include "runtime/base/digest.h"
#include "runtime/base/philox.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/data/sources/column_files.h"

namespace flow::exec {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

/// Returns the paths of the jobs' data by name: files, streams and pipes.
DataPaths all_paths(const RunRequest& request) {
  DataPaths paths;
  const auto add = [&paths](const std::string& name, const plan::InputSource& source,
                            const fs::path& root) {
    paths.erase(name);
    if (const auto* npy = std::get_if<plan::FromNpy>(&source)) paths[name] = {root / npy->path};
  };
  for (const plan::Job* job : jobs_of(request)) {
    const std::string prefix = job == &request.job ? "" : job->name + ":";
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns) {
        std::vector<fs::path>& files = paths[prefix + dataset.name + "." + column.name];
        files = data::files_of(column, request.root);
        for (fs::path& helper : data::helper_files_of(column, request.root))
          files.push_back(std::move(helper));
      }
    for (const plan::Input& input : job->inputs)
      add(prefix + (*job)[input.tensor].name, input.source, request.root);
  }
  for (const auto& [name, text] : request.inputs) add(name, parse_input_source(name, text), {});
  return paths;
}

std::optional<plan::FileStamp> stamp_of_file(const fs::path& path) {
  constexpr int64_t kSettled = 2 * kSecond;  // the coarsest resolution of file times, doubled
  struct stat status {};
  timespec now{};
  if (::stat(path.c_str(), &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0) return {};
  const int64_t changed = nanoseconds(status.st_ctim);
  if (changed > nanoseconds(now) - kSettled) return {};
  return plan::FileStamp{static_cast<uint64_t>(status.st_size), status.st_ino,
                         nanoseconds(status.st_mtim), changed};
}

}  // namespace

std::string DataFile::path_text() const {
  const std::string first = paths.front().string();
  if (paths.size() == 1) return first;
  return fmt::format("{} and {} more", first, counted(paths.size() - 1, "file"));
}

DataPaths data_paths(const RunRequest& request) {
  DataPaths paths = all_paths(request);
  std::error_code ignored;
  std::erase_if(paths, [&](const auto& named) {
    return std::ranges::none_of(
        named.second, [&](const fs::path& path) { return fs::is_regular_file(path, ignored); });
  });
  return paths;
}

std::string digest_of_files(const std::vector<fs::path>& paths) {
  if (paths.size() == 1) return digest_of_file(paths.front());
  ContentDigest digest;
  for (const fs::path& path : paths) {
    const std::string one = digest_of_file(path);
    digest.add(std::as_bytes(std::span(one)));
  }
  return digest.text();
}

std::string file_identity(const fs::path& path) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat status {};
  if (boot.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return fmt::format("{} {} {} {} {} {} {}", host_name(), boot, status.st_dev, status.st_ino,
                     status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
}

std::optional<plan::FileStamp> stamp_of(const std::vector<fs::path>& paths) {
  if (paths.size() == 1) return stamp_of_file(paths.front());
  plan::FileStamp joined;
  for (const fs::path& path : paths) {
    const std::optional<plan::FileStamp> one = stamp_of_file(path);
    if (!one) return {};
    joined.size += one->size;
    joined.inode = splitmix64(joined.inode ^ one->inode);
    joined.modified = std::max(joined.modified, one->modified);
    joined.changed = std::max(joined.changed, one->changed);
  }
  return joined;
}

DataFiles hash_data(const RunRequest& request, const DataFiles& known) {
  DataFiles files;
  std::map<std::vector<fs::path>, DataFile> done;  // several columns may be in the same files
  for (const auto& [name, paths] : data_paths(request)) {
    const auto [at, fresh] = done.try_emplace(paths);
    DataFile& file = at->second;
    if (fresh) {
      file = {paths, {}, stamp_of(paths)};  // taken before reading, to detect later changes
      const auto before = known.find(name);
      const bool unchanged =
          before != known.end() && file.stamp && file.stamp == before->second.stamp;
      file.digest = unchanged ? before->second.digest : digest_of_files(paths);
    }
    files[name] = file;
  }
  return files;
}

}  // namespace flow::exec
