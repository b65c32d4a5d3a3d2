// Hashes data files.
#include "runtime/exec/input/input_pipeline.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <variant>

#include "runtime/base/digest.h"
#include "runtime/base/process.h"

namespace flow::exec {

namespace {

constexpr int64_t kSecond = 1'000'000'000;

int64_t nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }

/// Returns the paths of the jobs' data by name: files, streams and pipes.
std::map<std::string, fs::path> all_paths(const RunRequest& request) {
  std::map<std::string, fs::path> paths;
  const auto add = [&paths](const std::string& name, const plan::InputSource& source,
                            const fs::path& root) {
    paths.erase(name);
    if (const auto* npy = std::get_if<plan::FromNpy>(&source)) paths[name] = root / npy->path;
  };
  for (const plan::Job* job : jobs_of(request)) {
    const std::string prefix = job == &request.job ? "" : job->name + ":";
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns)
        paths[prefix + dataset.name + "." + column.name] = request.root / column.path;
    for (const plan::Input& input : job->inputs)
      add(prefix + (*job)[input.tensor].name, input.source, request.root);
  }
  for (const auto& [name, text] : request.inputs) add(name, parse_input_source(name, text), {});
  return paths;
}

}  // namespace

std::map<std::string, fs::path> data_paths(const RunRequest& request) {
  std::map<std::string, fs::path> paths = all_paths(request);
  std::error_code ignored;
  std::erase_if(paths,
                [&](const auto& named) { return !fs::is_regular_file(named.second, ignored); });
  return paths;
}

std::string file_identity(const fs::path& path) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  struct stat status {};
  if (boot.empty() || ::stat(path.c_str(), &status) != 0) return {};
  return fmt::format("{} {} {} {} {} {} {}", host_name(), boot, status.st_dev, status.st_ino,
                     status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim));
}

std::optional<plan::FileStamp> stamp_of(const fs::path& path) {
  constexpr int64_t kSettled = 2 * kSecond;  // the coarsest resolution of file times, doubled
  struct stat status {};
  timespec now{};
  if (::stat(path.c_str(), &status) != 0 || ::clock_gettime(CLOCK_REALTIME, &now) != 0) return {};
  const int64_t changed = nanoseconds(status.st_ctim);
  if (changed > nanoseconds(now) - kSettled) return {};
  return plan::FileStamp{static_cast<uint64_t>(status.st_size), status.st_ino,
                         nanoseconds(status.st_mtim), changed};
}

DataFiles hash_data(const RunRequest& request, const DataFiles& known) {
  DataFiles files;
  std::map<fs::path, DataFile> done;  // several columns may be in the same file
  for (const auto& [name, path] : data_paths(request)) {
    const auto [at, fresh] = done.try_emplace(path);
    DataFile& file = at->second;
    if (fresh) {
      file = {path, {}, stamp_of(path)};  // taken before reading, to detect later changes
      const auto before = known.find(name);
      const bool unchanged =
          before != known.end() && file.stamp && file.stamp == before->second.stamp;
      file.digest = unchanged ? before->second.digest : digest_of_file(path);
    }
    files[name] = file;
  }
  return files;
}

}  // namespace flow::exec
