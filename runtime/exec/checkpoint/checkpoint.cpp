// Writing and reading checkpoints.
#include "runtime/exec/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/base/folder.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

constexpr const char* kSuffix = ".npy";
constexpr const char* kFilesRecord = "files.json";
constexpr const char* kTakeAnother =
    "use another checkpoint; to resume from the one before, remove the directory of this one";

/// Puts `fresh` at `path` in one step; what was there is at `fresh` afterwards.
void exchange(const fs::path& fresh, const fs::path& path) {
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return;
  // Not every file system can; the old one then steps aside for a moment.
  fs::path aside = fresh;
  aside += ".old";
  std::error_code error;
  fs::rename(path, aside, error);
  if (error) throw cannot("replace", path, error.value());
  fs::rename(fresh, path, error);
  if (error) {
    std::error_code ignored;
    fs::rename(aside, path, ignored);
    throw cannot("replace", path, error.value());
  }
  fs::rename(aside, fresh, error);
  if (error) throw cannot("replace", path, error.value());
}

void move_into_place(const fs::path& fresh, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    fs::rename(fresh, path, error);
    if (error) throw cannot("write", path, error.value());
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
  if (files) write_whole(folder / kFilesRecord, plan::to_json(*files));
  write_whole(folder / io::kCheckpointRecord, plan::to_json(record));
}

}  // namespace

void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record,
                      const std::optional<plan::FilesRecord>& files) {
  const fs::path parent = path.parent_path();
  make_folders(parent);
  const fs::path fresh = temporary_beside(path);
  if (::mkdir(fresh.c_str(), 0777) != 0) throw cannot("make", fresh, errno);
  std::error_code ignored;
  try {
    const Folder folder(fresh);
    write_files(fresh, state, record, files);
    folder.sync_file_system();
    move_into_place(fresh, path);
  } catch (...) {
    fs::remove_all(fresh, ignored);
    throw;
  }
  Folder(parent).sync();
  // An older checkpoint is here now. It goes once the new one has its name for good: before, a
  // power cut could give the name back to a folder without files.
  fs::remove_all(fresh, ignored);
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  const fs::path record = path / io::kCheckpointRecord;
  if (!io::is_checkpoint(path))
    throw RequestError(
        fmt::format("{} is not a checkpoint: {} is missing", path.string(), record.string()));
  text_ = read_text(record);
  try {
    record_ = plan::checkpoint_from_json(text_, record.string());
  } catch (const RequestError& error) {
    throw RequestError(error.what(), kTakeAnother);
  }
}

std::optional<plan::FilesRecord> Checkpoint::files() const {
  const fs::path path = path_ / kFilesRecord;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  try {
    return plan::files_from_json(read_text(path), path.string());
  } catch (const RequestError& error) {
    throw RequestError(error.what(), kTakeAnother);
  }
}

bool Checkpoint::is_replaced() const {
  std::ifstream record(path_ / io::kCheckpointRecord);  // one that is gone reads as empty
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
                   kTakeAnother);
  return io::parse_npy(file.bytes(), path.string());
}

}  // namespace flow::exec
