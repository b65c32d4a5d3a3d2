// The checkpoints that a run leaves in its directory.
#include "runtime/io/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"

namespace flow::io {

namespace {

/// The step that a directory is named by; nothing for any other name.
std::optional<int64_t> step_of(const std::string& name) {
  const auto step = whole_number(name);
  return step && *step >= 0 ? step : std::nullopt;
}

void remove_whole(const fs::path& path) {
  if (const std::error_code error = remove_tree(path)) throw cannot("remove", path, error.value());
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / kCheckpointRecord, ignored);
}

fs::path CheckpointFolder::at(int64_t step) const { return path_ / fmt::format("{:06}", step); }

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error)) {
    const std::optional<int64_t> step = step_of(entry.path().filename().string());
    if (step && entry.path() == at(*step) && is_checkpoint(entry.path())) steps.push_back(*step);
  }
  const bool missing =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !missing) throw cannot("read", path_, error.value());
  std::ranges::sort(steps);
  return steps;
}

std::optional<fs::path> CheckpointFolder::find_damaged() const {
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, missing))
    if (step_of(entry.path().filename().string()) && !is_checkpoint(entry.path()))
      return entry.path();
  return std::nullopt;
}

std::optional<fs::path> CheckpointFolder::newest() const {
  const std::vector<int64_t> all = steps();
  if (all.empty()) return std::nullopt;
  return at(all.back());
}

void CheckpointFolder::clear(int64_t step) const {
  if (!is_checkpoint(at(step))) remove_whole(at(step));
}

void CheckpointFolder::prune(int64_t keep) const {
  const std::vector<int64_t> all = steps();
  const auto kept = static_cast<size_t>(std::max<int64_t>(keep, 1));
  for (size_t i = 0; i + kept < all.size(); ++i) remove(all[i]);
}

void CheckpointFolder::keep_only(std::optional<int64_t> step) const {
  for (const int64_t one : steps())
    if (one != step) remove(one);
}

void CheckpointFolder::remove(int64_t step) const {
  remove_whole(at(step) / kCheckpointRecord);  // first: without it, the rest is not a checkpoint
  remove_whole(at(step));
}

void CheckpointFolder::remove_leftovers() const {
  const std::vector<int64_t> whole = steps();
  std::error_code missing;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, missing)) {
    const std::string name = entry.path().filename().string();
    const bool begun = name.starts_with('.') && name.find(kTemporarySuffix) != std::string::npos;
    const std::optional<int64_t> step = step_of(name);
    const bool half_removed = step && !whole.empty() && *step < whole.back() &&
                              entry.path() == at(*step) && !is_checkpoint(entry.path());
    if (begun || half_removed) leftovers.push_back(entry.path());
  }
  for (const fs::path& path : leftovers) remove_whole(path);
}

}  // namespace flow::io
