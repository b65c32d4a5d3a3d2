// Files: owned descriptors, whole reads, atomic writes, read-only maps, syncing of folders, and
// files that a program opens by a fixed name inside a directory. Such a name may lead anywhere: to
// a pipe, to a file outside the directory, to one that is too large.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace flow {

namespace fs = std::filesystem;

/// "cannot read FILE: Is a directory", from an errno.
RunError cannot(std::string_view action, const fs::path& path, int code);

/// An owned file descriptor, or none.
class Descriptor {
 public:
  Descriptor() = default;
  /// Negative: none.
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  /// Closes it and returns 0, or the errno if earlier writes were lost.
  int close();
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// A file, opened close-on-exec. Errors are RunErrors that name the path and errno.
class File {
 public:
  File() = default;
  static File open_read(const fs::path& path);
  /// Creates or truncates.
  static File create(const fs::path& path);
  /// Creates a new file; fails if `path` exists, even as a link. Messages name it `shown_path`.
  static File create_new(const fs::path& path, const fs::path& shown_path);
  /// Opens for reading and writing and keeps the contents; creates a missing file.
  static File open_update(const fs::path& path);

  const fs::path& path() const { return path_; }
  uint64_t size() const;
  /// Reads until `into` is full or the file ends; returns the number of bytes read.
  size_t read(std::span<std::byte> into);
  /// The same, from `offset`.
  size_t read_at(uint64_t offset, std::span<std::byte> into) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void truncate(uint64_t size);
  void sync();
  /// RunError if the system lost writes. Without close(), such losses go unnoticed.
  void close();

 private:
  File(Descriptor descriptor, fs::path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Descriptor descriptor_;
  fs::path path_;
};

/// Creates a directory and its missing parents. RunError with the reason if it cannot. The empty
/// path is the working directory.
void make_folders(const fs::path& path);

/// The whole file as text. RunError if it cannot be read.
std::string read_text(const fs::path& path);

/// Does the path name an open file of this process: /dev/stdin, or a shell's `<(command)`?
bool is_descriptor(const fs::path& path);

/// The target of a link at the end of `path`, even if it does not exist yet.
fs::path followed(fs::path path);

/// The end of the names of temporary files and directories.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// A name that nobody can guess, for a temporary file or directory next to `path`:
/// ".NAME.0123456789abcdef.tmp".
fs::path temporary_beside(const fs::path& path);

/// A new file under a temporary name, which `commit` moves to `path`. Readers see the old file or
/// the new one, never a part. The destructor removes an uncommitted file.
class Replacement {
 public:
  explicit Replacement(const fs::path& path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  File& file() { return file_; }
  /// Closes the file and renames it over `path`.
  void commit();

 private:
  const fs::path path_;
  fs::path temporary_;  // empty once committed
  File file_;
};

/// Replaces the file at `path`, and returns when the new one is on the disk. Follows links. Writes
/// directly to a pipe or a device, such as /dev/stdout.
void write_text_atomically(const fs::path& path, std::string_view text);

struct MapRecord;

/// A file mapped read-only into memory. If the file shrinks, a read past its end stops the program
/// with a message and exit status 3, unless it happens inside `recovering`.
class MappedFile {
 public:
  /// RunError if the file cannot be mapped, such as a pipe.
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Calls `read`. RunError if the file shrank meanwhile, so that `read` saw missing data. One
  /// thread at a time.
  template <typename Read>
  void recovering(Read read) const {
    begin_recovering();
    try {
      read();
    } catch (...) {
      end_recovering();  // the loss is the reason
      throw;
    }
    end_recovering();
  }

 private:
  void begin_recovering() const;
  void end_recovering() const;

  std::span<const std::byte> bytes_;
  std::unique_ptr<MapRecord> record_;
};

/// An open folder. On file systems that cannot sync (EINVAL, EROFS), syncing does nothing.
class Folder {
 public:
  /// RunError where there is none. An empty path: the current one.
  explicit Folder(fs::path path);
  /// Returns when the names in it are on the disk: files and folders that were made, renamed or
  /// removed there. RunError when that fails.
  void sync() const;
  /// Returns when its whole file system is on the disk, and with it all files and folders below:
  /// one commit of the journal, where a sync of each file takes one each. RunError where anything
  /// could not be written since this folder was opened.
  void sync_file_system() const;

 private:
  void require(int result) const;

  fs::path path_;
  Descriptor descriptor_;  // none where the folder may be written but not read
};

/// "a broken link", "a link to TARGET, outside the directory"; empty where the target of `link` is
/// inside `directory`. Follows links above the name, too.
std::string link_problem(const fs::path& link, const fs::path& directory);

/// What to do about such a link.
inline constexpr const char* kReplaceLink = "remove the link or replace it with its target";

/// RequestError where link_problem finds one.
void require_link_inside(const fs::path& directory, const fs::path& link);

/// RequestError unless `path` is a regular file inside `directory`, after its links. RunError where
/// there is none. `directory` itself may be a link.
void require_inside(const fs::path& directory, const fs::path& path);

/// Records of runs and of golden directories, and plans of runs, are not larger.
inline constexpr uint64_t kLargestRecord = uint64_t{64} << 20, kLargestPlan = uint64_t{256} << 20;

/// The text of such a file, of at most `most` bytes, read without waiting for a writer. Errors as
/// those of require_inside; RequestError for a larger one.
std::string read_inside(const fs::path& directory, const fs::path& path, uint64_t most);
/// The same of the file of that name in `directory`; nothing where there is none.
std::optional<std::string> read_if_there(const fs::path& directory, const char* name,
                                         uint64_t most);

/// A hint where `bytes`, the first of a file, are a pointer of Git LFS or the web page of a
/// download that failed. Empty for anything else.
std::string hint_for_text(std::span<const std::byte> bytes);

}  // namespace flow
