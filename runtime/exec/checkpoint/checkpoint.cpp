// Writes and reads checkpoints.
#include "runtime/exec/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

constexpr const char* kSuffix = ".npy";
constexpr const char* kFilesRecord = "files.json";

/// Returns true if `path` is in a folder where a run names its checkpoints. Anywhere else, and if
/// `path` is a link, the user chose the name.
bool is_named_by_run(const fs::path& path) {
  const fs::path folder = fs::absolute(path).lexically_normal().parent_path();
  std::error_code ignored;
  return (folder.filename() == io::kCheckpointsFolder || folder.filename() == kBestFolder) &&
         fs::exists(folder.parent_path() / kPlanFile, ignored) && !fs::is_symlink(path, ignored);
}

/// Moves `fresh` to `path` in one step; the old folder is at `fresh` afterwards.
void exchange(const fs::path& fresh, const fs::path& path) {
  if (calls::exchange(fresh, path) == 0) return;
  // Not every file system supports this. The old folder is then moved away first.
  fs::path aside = fresh;
  aside += ".old";
  const auto move = [&](const fs::path& from, const fs::path& to) {
    if (calls::rename(from, to) != 0) throw cannot("replace", path, errno);
  };
  move(path, aside);
  try {
    move(fresh, path);
  } catch (const RunError&) {
    calls::rename(aside, path);
    throw;
  }
  move(aside, fresh);
}

void move_into_place(const fs::path& fresh, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    if (calls::rename(fresh, path) != 0) throw cannot("write", path, errno);
  } else if (io::is_checkpoint(path)) {
    exchange(fresh, path);
  } else {
    throw RunError(fmt::format("{} exists and is not a checkpoint", path.string()),
                   "save to another path");
  }
}

void write_whole(const fs::path& path, const std::string& text) {
  File file = File::create(path);
  file.write(text);
  file.close();
}

void write_files(const fs::path& folder, const State& state, plan::CheckpointRecord& record,
                 const std::optional<plan::FilesRecord>& files) {
  for (const State::Entry& entry : state.entries()) {
    const std::string name = entry.tensor->name + kSuffix;
    const ArrayView value = entry.value.view();
    make_folders((folder / name).parent_path());
    io::write_npy(folder / name, value);
    record.checksums[name] = digest({reinterpret_cast<const char*>(value.data), value.bytes()},
                                    fnv1a64(io::npy_header(value.dtype, value.shape)));
  }
  if (!state.learned().empty()) {
    const std::string learned = data::learned_text(state.learned());
    write_whole(folder / data::kLearnedFile, learned);
    record.learned = digest(learned);
  }
  if (files) write_whole(folder / kFilesRecord, plan::to_json(*files));
  write_whole(folder / io::kCheckpointRecord, plan::to_json(record));
}

}  // namespace

void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record,
                      const std::optional<plan::FilesRecord>& files) {
  const fs::path parent = path.parent_path();
  make_folders(parent);
  const fs::path fresh = temporary_beside(path);
  if (calls::make_folder(fresh) != 0) throw cannot("make", fresh, errno);
  try {
    const Folder folder(fresh);
    write_files(fresh, state, record, files);
    folder.sync_file_system();
    move_into_place(fresh, path);
  } catch (...) {
    remove_tree(fresh);
    throw;
  }
  Folder(parent).sync();
  // `fresh` is now the older checkpoint. It is removed after the new name is on the disk: before
  // that, a power failure could restore the name of a folder without files.
  remove_tree(fresh);
}

Checkpoint::Checkpoint(const fs::path& path)
    : path_(path), record_(io::read_checkpoint_record(path, text_)) {
  const fs::path named = (path / "").parent_path();  // the path without a slash at its end
  if (is_named_by_run(named)) io::require_named_by_step(named, record_.step);
}

std::optional<plan::FilesRecord> Checkpoint::files() const {
  const fs::path path = path_ / kFilesRecord;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  try {
    return plan::files_from_json(read_text(path), path.string());
  } catch (const RequestError& error) {
    throw RequestError(error.what(), io::kTakeAnother);
  }
}

data::Learned Checkpoint::learned() const {
  if (!record_.learned) return {};
  const fs::path path = path_ / data::kLearnedFile;
  const std::string text = read_text(path);
  if (digest(text) != *record_.learned)
    throw RequestError(path.string() + " is damaged: its checksum does not match",
                       io::kTakeAnother);
  return data::parse_learned(text, path.string());
}

bool Checkpoint::is_replaced() const {
  std::ifstream record(path_ / io::kCheckpointRecord);  // a missing file reads as empty
  return std::string(std::istreambuf_iterator<char>(record), {}) != text_;
}

std::vector<Checkpoint::Item> Checkpoint::items() const {
  std::vector<Item> items;
  for (const auto& [file, sum] : record_.checksums) {
    if (!file.ends_with(kSuffix))
      throw RequestError(fmt::format("{}: invalid variable file name `{}`", path_.string(), file));
    const fs::path path = path_ / file;
    const io::NpyHeader header = io::parse_npy_header(MappedFile(path).bytes(), path.string());
    items.push_back({file.substr(0, file.size() - std::string_view(kSuffix).size()), header.dtype,
                     header.shape});
  }
  return items;
}

Array Checkpoint::read(const std::string& name) const {
  const fs::path path = path_ / (name + kSuffix);
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  if (digest(text) != record_.checksums.at(name + kSuffix))
    throw RunError(fmt::format("{} is damaged: its checksum is {}; expected {}", path.string(),
                               digest(text), record_.checksums.at(name + kSuffix)),
                   io::kTakeAnother);
  return io::parse_npy(file.bytes(), path.string());
}

}  // namespace flow::exec
