// Hashes data files.
#include "runtime/exec/input/input_pipeline.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <variant>

#include "runtime/base/display.h"
#include "runtime/base/philox.h"
#include "runtime/base/process.h"
#include "runtime/base/text.h"
#include "runtime/data/files/digest.h"
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
    if (const auto* npy = std::get_if<plan::FromNpy>(&source))
      paths[name] = {{root / npy->path}, root};
  };
  for (const plan::Job* job : jobs_of(request)) {
    const std::string prefix = job == &request.job ? "" : job->name + ":";
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns) {
        DataPath& files = paths[prefix + dataset.name + "." + column.name];
        files = {data::files_of(column, request.root), request.root,
                 column.source == plan::SourceKind::kImages};
        for (fs::path& helper : data::helper_files_of(column, request.root))
          files.paths.push_back(std::move(helper));
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

/// Returns the name of a file in the digest of several files. It does not depend on the folder of
/// the job file.
std::string name_of(const fs::path& path, const DataPath& source) {
  const fs::path relative = path.lexically_relative(source.root);
  return relative.empty() ? path.string() : relative.string();
}

data::FileRecord record_of(const fs::path& path, const std::string& name, bool size_only) {
  data::FileRecord record{data::file_state({}, path.string()), {}};
  if (!size_only) {
    record.digest = data::digest_of_samples(path);
    data::require_unchanged({}, record.state);
  }
  record.state.name = name;
  return record;
}

}  // namespace

std::string DataPath::text() const {
  const std::string first = paths.front().string();
  if (paths.size() == 1) return first;
  return fmt::format("{} and {} more", first, counted(paths.size() - 1, "file"));
}

DataPaths data_paths(const RunRequest& request) {
  DataPaths paths = all_paths(request);
  std::error_code ignored;
  std::erase_if(paths, [&](const auto& named) {
    return std::ranges::none_of(named.second.paths, [&](const fs::path& path) {
      return fs::is_regular_file(path, ignored);
    });
  });
  return paths;
}

DataFile hash_files(const DataPath& source) {
  DataFile hashed{.source = source, .digest = {}, .stamp = {}};
  std::vector<data::FileRecord> records;
  for (const fs::path& path : source.paths) {
    const std::string name = name_of(path, source);
    records.push_back(record_of(path, name, source.sizes_only));
    hashed.bytes += records.back().state.size;
    if (source.paths.size() > 1)
      hashed.files.push_back({escaped(name), records.back().state.size, records.back().digest});
  }
  hashed.digest = records.size() == 1 && !source.sizes_only ? records[0].digest
                                                            : data::digest_of_files(records);
  return hashed;
}

std::vector<data::FileState> states_of_data(const RunRequest& request) {
  std::set<fs::path> paths;
  std::vector<data::FileState> states;
  for (const plan::Job* job : jobs_of(request))
    for (const plan::Dataset& dataset : job->datasets)
      for (const plan::Column& column : dataset.columns) try {
          for (const fs::path& path : data::files_of(column, request.root))
            if (paths.insert(path).second) states.push_back(data::file_state({}, path.string()));
        } catch (const RunError&) {
          // It is reported when the column is opened.
        }
  return states;
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
  std::map<DataPath, DataFile> done;  // several columns may be in the same files
  for (const auto& [name, source] : data_paths(request)) {
    const auto [at, fresh] = done.try_emplace(source);
    DataFile& file = at->second;
    if (fresh) {
      const auto stamp = stamp_of(source.paths);  // taken before reading, to detect later changes
      const auto before = known.find(name);
      const bool unchanged = before != known.end() && stamp && stamp == before->second.stamp;
      file = unchanged ? before->second : hash_files(source);
      file.source = source;
      file.stamp = stamp;
      if (unchanged) file.bytes = stamp->size;
    }
    files[name] = file;
  }
  return files;
}

std::string first_difference(const DataFile& before, const DataFile& now) {
  const auto [old, current] = std::ranges::mismatch(before.files, now.files);
  const bool no_more = old == before.files.end(), ended = current == now.files.end();
  if (before.files.empty() || now.files.empty() || (no_more && ended)) return {};
  if (no_more) return fmt::format("{} is new", current->name);
  if (ended) return fmt::format("{} is missing", old->name);
  if (old->name != current->name)
    return fmt::format("{} is at the place of {}", current->name, old->name);
  if (old->size != current->size)
    return fmt::format("{} has {} bytes; expected {}", old->name, current->size, old->size);
  return fmt::format("{} has digest {}; expected {}", old->name, current->digest, old->digest);
}

}  // namespace flow::exec
