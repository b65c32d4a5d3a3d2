// Files: owned descriptors, whole reads, atomic writes, read-only maps, syncing of folders, and
// files that a program opens by a fixed name inside a directory. Such a name may be a link to
// anything: a pipe, a file outside the directory, or a file that is too large.
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

/// Returns the error "cannot read FILE: Is a directory" for an action and an errno.
RunError cannot(std::string_view action, const fs::path& path, int code);

/// An owned file descriptor, which may be closed.
class Descriptor {
 public:
  Descriptor() = default;
  /// A negative descriptor means that there is none.
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  /// Closes the descriptor. Returns 0, or the errno if earlier writes were lost.
  int close();
  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_ = -1;
};

/// A file that is opened close-on-exec. Errors are RunErrors that state the path and the errno.
class File {
 public:
  File() = default;
  static File open_read(const fs::path& path);
  /// Creates the file, or truncates an existing one.
  static File create(const fs::path& path);
  /// Creates a new file. Fails if `path` exists, even as a link. Messages use the name
  /// `shown_path`.
  static File create_new(const fs::path& path, const fs::path& shown_path);
  /// Opens a file for reading and writing and keeps its contents. Creates a missing file.
  static File open_update(const fs::path& path);

  const fs::path& path() const { return path_; }
  uint64_t size() const;
  /// Reads until `into` is full or the file ends. Returns the number of bytes read.
  size_t read(std::span<std::byte> into);
  /// Reads in the same way, starting at `offset`.
  size_t read_at(uint64_t offset, std::span<std::byte> into) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void truncate(uint64_t size);
  void sync();
  /// Closes the file. Throws RunError if the system lost writes. Without close(), these losses go
  /// unnoticed.
  void close();

 private:
  File(Descriptor descriptor, fs::path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Descriptor descriptor_;
  fs::path path_;
};

/// Creates a directory and its missing parents. Throws RunError with the reason if it cannot. The
/// empty path is the working directory.
void make_folders(const fs::path& path);

/// Returns the whole file as text. Throws RunError if it cannot be read.
std::string read_text(const fs::path& path);

/// Returns true if the path names an open file of this process: /dev/stdin, or a shell's
/// `<(command)`.
bool is_descriptor(const fs::path& path);

/// Follows the links at the end of `path` and returns the target, even if the target does not exist
/// yet.
fs::path followed(fs::path path);

/// The suffix of the names of temporary files and directories.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// Returns an unpredictable name for a temporary file or directory next to `path`:
/// ".NAME.0123456789abcdef.tmp".
fs::path temporary_beside(const fs::path& path);

/// A new file with a temporary name, which `commit` moves to `path`. Readers see either the old
/// file or the complete new one. The destructor removes an uncommitted file.
class Replacement {
 public:
  explicit Replacement(const fs::path& path);
  ~Replacement();
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  File& file() { return file_; }
  /// Closes the file and renames it to `path`.
  void commit();

 private:
  const fs::path path_;
  fs::path temporary_;  // empty after commit()
  File file_;
};

/// Replaces the file at `path`, and returns when the new file is on the disk. Follows links. Writes
/// directly to a pipe or a device, such as /dev/stdout.
void write_text_atomically(const fs::path& path, std::string_view text);

struct MapRecord;

/// A file that is mapped read-only into memory. If the file shrinks, a read past its end stops the
/// program with a message and exit status 3, unless the read happens inside `recovering`.
class MappedFile {
 public:
  /// Throws RunError if the file cannot be mapped, such as a pipe.
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Calls `read`. Throws RunError if the file shrank in the meantime, because `read` then saw
  /// missing data. Used by one thread at a time.
  template <typename Read>
  void recovering(Read read) const {
    begin_recovering();
    try {
      read();
    } catch (...) {
      end_recovering();  // The lost data is the reason for the error.
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

/// An open folder. If the file system cannot sync (EINVAL, EROFS), syncing does nothing.
class Folder {
 public:
  /// Throws RunError if the folder does not exist. An empty path is the working directory.
  explicit Folder(fs::path path);
  /// Returns when the names in the folder are on the disk, including those of files and folders
  /// that were created, renamed or removed. Throws RunError if that fails.
  void sync() const;
  /// Returns when the whole file system of the folder is on the disk, including all files and
  /// folders below it. This takes one commit of the journal, while syncing every file takes one
  /// commit each. Throws RunError if anything could not be written since this folder was opened.
  void sync_file_system() const;

 private:
  void require(int result) const;

  fs::path path_;
  Descriptor descriptor_;  // closed if the folder may be written but not read
};

/// Returns "a broken link" or "a link to TARGET, outside the directory", or an empty string if the
/// target of `link` is inside `directory`. Links in the folders of the path are followed, too.
std::string link_problem(const fs::path& link, const fs::path& directory);

/// The hint for a link that link_problem() reports.
inline constexpr const char* kReplaceLink = "remove the link or replace it with its target";

/// Throws RequestError if link_problem() finds a problem.
void require_link_inside(const fs::path& directory, const fs::path& link);

/// Throws RequestError unless `path` is a regular file inside `directory` after its links are
/// followed. Throws RunError if the file does not exist. `directory` itself may be a link.
void require_inside(const fs::path& directory, const fs::path& path);

/// The largest accepted sizes of the records of runs and golden directories, and of the plans of
/// runs.
inline constexpr uint64_t kLargestRecord = uint64_t{64} << 20, kLargestPlan = uint64_t{256} << 20;

/// Returns the text of a file inside `directory`, of at most `most` bytes, without waiting for a
/// writer. Throws the errors of require_inside(), and RequestError if the file is larger.
std::string read_inside(const fs::path& directory, const fs::path& path, uint64_t most);
/// Returns the text of the file `name` in `directory` in the same way, or nothing if it does not
/// exist.
std::optional<std::string> read_if_there(const fs::path& directory, const char* name,
                                         uint64_t most);

/// Returns a hint if `bytes`, the start of a file, are a pointer of Git LFS or the web page of a
/// failed download. Returns an empty string for anything else.
std::string hint_for_text(std::span<const std::byte> bytes);

}  // namespace flow
