// The checkpoints that a run writes to its directory.
#include "runtime/io/checkpoint_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"

namespace flow::io {

namespace {

/// Returns the step that is the name of a directory, or nothing if the name is not a step.
std::optional<int64_t> step_of(const std::string& name) {
  const auto step = whole_number(name);
  return step && *step >= 0 ? step : std::nullopt;
}

std::string name_of_step(int64_t step) { return fmt::format("{:06}", step); }

void remove_whole(const fs::path& path) {
  if (const std::error_code error = remove_tree(path)) throw cannot("remove", path, error.value());
}

}  // namespace

bool is_checkpoint(const fs::path& path) {
  const fs::path record = path / kCheckpointRecord;
  std::error_code error;
  const fs::file_status status = fs::status(record, error);
  if (status.type() == fs::file_type::none) throw cannot("read", record, error.value());
  return fs::is_regular_file(status);
}

plan::CheckpointRecord read_checkpoint_record(const fs::path& path, std::string& text) {
  const fs::path file = path / kCheckpointRecord;
  if (!is_checkpoint(path))
    throw RequestError(
        fmt::format("{} has no {}", path.string(), kCheckpointRecord),
        "restore that file, or remove the directory to use the checkpoint before it");
  text = read_text(file);
  try {
    return plan::checkpoint_from_json(text, file.string());
  } catch (const RequestError& error) {
    throw RequestError(error.what(), kTakeAnother);
  }
}

void require_named_by_step(const fs::path& path, int64_t step) {
  if (path.filename() != name_of_step(step))
    throw RequestError(fmt::format("{} is the checkpoint of step {}; expected the name {}",
                                   path.string(), step, name_of_step(step)),
                       "rename it, or remove it");
}

fs::path CheckpointFolder::at(int64_t step) const { return path_ / name_of_step(step); }

/// Returns the entries whose names are steps as a run writes them, in ascending order of steps. An
/// entry with any other name belongs to the user.
std::vector<CheckpointFolder::Named> CheckpointFolder::named() const {
  std::vector<Named> all;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, error))
    if (const auto step = step_of(entry.path().filename().string());
        step && entry.path() == at(*step))
      all.push_back({*step, entry.path()});
  const bool missing =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !missing) throw cannot("read", path_, error.value());
  std::ranges::sort(all, {}, &Named::step);
  return all;
}

std::vector<int64_t> CheckpointFolder::steps() const {
  std::vector<int64_t> steps;
  for (const auto& [step, path] : named())
    if (is_checkpoint(path)) steps.push_back(step);
  return steps;
}

std::optional<fs::path> CheckpointFolder::newest() const {
  std::vector<Named> all = named();
  while (!all.empty()) {
    const Named last = all.back();
    try {
      std::string text;
      require_named_by_step(last.path, read_checkpoint_record(last.path, text).step);
      return last.path;
    } catch (const RunError&) {
      // The run that writes to this folder may have removed the checkpoint in the meantime.
      all = named();
      if (!all.empty() && all.back() == last) throw;
    }
  }
  return std::nullopt;
}

void CheckpointFolder::prune(int64_t keep) const {
  const std::vector<int64_t> all = steps();
  const auto kept = static_cast<size_t>(std::max<int64_t>(keep, 1));
  std::vector<fs::path> old;
  for (size_t i = 0; i + kept < all.size(); ++i) old.push_back(at(all[i]));
  remove(old);
}

void CheckpointFolder::keep_only(std::optional<int64_t> step) const {
  std::vector<fs::path> others;
  for (const auto& [other, path] : named())
    if (other != step) others.push_back(path);
  remove(others);
}

/// Renames all checkpoints and syncs the folder before it deletes them: after a kill or a power
/// cut, each is either whole or no longer has its name.
void CheckpointFolder::remove(const std::vector<fs::path>& checkpoints) const {
  std::vector<fs::path> aside;
  for (const fs::path& path : checkpoints) {
    fs::path fresh = temporary_beside(path);
    if (calls::rename(path, fresh) == 0)
      aside.push_back(std::move(fresh));
    else if (errno != ENOENT)
      throw cannot("remove", path, errno);
  }
  if (aside.empty()) return;
  Folder(path_).sync();
  for (const fs::path& path : aside) remove_whole(path);
}

void CheckpointFolder::remove_leftovers() const {
  const std::vector<int64_t> whole = steps();
  std::error_code missing;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, missing)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') && name.find(kTemporarySuffix) != std::string::npos)
      leftovers.push_back(entry.path());
  }
  for (const auto& [step, path] : named())
    if (!whole.empty() && step < whole.back() && !is_checkpoint(path)) leftovers.push_back(path);
  for (const fs::path& path : leftovers) remove_whole(path);
}

}  // namespace flow::io
