// Writing and reading checkpoints.
#include "runtime/exec/checkpoint.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/io/npy.h"

namespace flow::exec {

namespace {

constexpr const char* kSuffix = ".npy";
constexpr const char* kTakeAnother =
    "the checkpoint is damaged: take another; `--resume` takes the one before once its folder is "
    "removed";

/// Opens a directory to sync it, or all of the file system that it is in.
template <typename Sync>
void sync_through(const fs::path& directory, Sync sync) {
  const Descriptor descriptor(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // What a file system cannot sync needs none.
  if (!descriptor.is_open() || (sync(descriptor.get()) != 0 && errno != EINVAL && errno != EROFS))
    throw cannot("sync", directory, errno);
}

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
    fs::remove_all(fresh, error);
  } else {
    throw RunError(fmt::format("{} is there, and is no checkpoint", path.string()),
                   "save to another path");
  }
  sync_through(path.parent_path().empty() ? "." : path.parent_path(), ::fsync);
}

void write_files(const fs::path& folder, const State& state, plan::CheckpointRecord& record) {
  for (const State::Entry& entry : state.entries()) {
    const std::string name = entry.tensor->name + kSuffix;
    const ArrayView value = entry.value.view();
    make_folders((folder / name).parent_path());
    io::write_npy(folder / name, value);
    record.checksums[name] = digest({reinterpret_cast<const char*>(value.data), value.bytes()},
                                    fnv1a64(io::npy_header(value.dtype, value.shape)));
  }
  File::create(folder / io::kCheckpointRecord).write(plan::to_json(record));
  // Once for all files and folders; one by one each would cost a commit of the journal.
  sync_through(folder, ::syncfs);
}

}  // namespace

void write_checkpoint(const fs::path& path, const State& state, plan::CheckpointRecord record) {
  const fs::path parent = path.parent_path();
  make_folders(parent);
  // A name that is as long as names may be has no room for more.
  const std::string name = path.filename().string().substr(0, 200);
  const fs::path fresh = parent / fmt::format(".{}.{}{}", name, ::getpid(), kTemporarySuffix);
  std::error_code ignored;
  fs::remove_all(fresh, ignored);
  try {
    make_folders(fresh);
    write_files(fresh, state, record);
    move_into_place(fresh, path);
  } catch (...) {
    fs::remove_all(fresh, ignored);
    throw;
  }
}

Checkpoint::Checkpoint(const fs::path& path) : path_(path) {
  const fs::path record = path / io::kCheckpointRecord;
  if (!io::is_checkpoint(path))
    throw RequestError(
        fmt::format("{} is no checkpoint: there is no {}", path.string(), record.string()));
  text_ = read_text(record);
  try {
    record_ = plan::checkpoint_from_json(text_, record.string());
  } catch (const RequestError& error) {
    throw RequestError(error.what(), kTakeAnother);
  }
}

bool Checkpoint::is_replaced() const {
  try {
    return read_text(path_ / io::kCheckpointRecord) != text_;
  } catch (const RunError&) {
    return true;
  }
}

std::vector<Checkpoint::Item> Checkpoint::items() const {
  std::vector<Item> items;
  for (const auto& [file, sum] : record_.checksums) {
    if (!file.ends_with(kSuffix))
      throw RequestError(
          fmt::format("{}: `{}` is no name of a variable's file", path_.string(), file));
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
    throw RunError(fmt::format("{} is damaged: its checksum is {}, not {}", path.string(),
                               digest(text), record_.checksums.at(name + kSuffix)),
                   kTakeAnother);
  return io::parse_npy(file.bytes(), path.string());
}

}  // namespace flow::exec
