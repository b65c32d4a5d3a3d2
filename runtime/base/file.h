// Files: descriptors that close themselves, whole reads, atomic writes, read-only maps.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/error.h"

namespace flow {

namespace fs = std::filesystem;

/// "cannot read FILE: Is a directory", of an errno.
RunError cannot(std::string_view action, const fs::path& path, int code);

/// An owned descriptor of the system, or none.
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
  /// Closes it; 0, or the errno of what was written before and could not be kept.
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
  /// Creates a file that is not there yet, nor a link in its place; messages call it `told_as`.
  static File create_new(const fs::path& path, const fs::path& told_as);
  /// Opens for reading and writing, keeping what is there; creates when missing.
  static File open_update(const fs::path& path);

  const fs::path& path() const { return path_; }
  uint64_t size() const;
  /// Reads until `into` is full or the file ends; returns the bytes read.
  size_t read(std::span<std::byte> into);
  /// The same from `offset` on.
  size_t read_at(uint64_t offset, std::span<std::byte> into) const;
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void write_at(uint64_t offset, std::span<const std::byte> bytes);
  void truncate(uint64_t size);
  void sync();
  /// RunError where the system could not keep what was written. Without it that goes unnoticed.
  void close();

 private:
  File(Descriptor descriptor, fs::path path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Descriptor descriptor_;
  fs::path path_;
};

/// Makes a folder and those above it where they are missing. RunError that says why it cannot. The
/// empty path is where the process is.
void make_folders(const fs::path& path);

/// The whole file as text. RunError when it cannot be read.
std::string read_text(const fs::path& path);

/// A path that names an open file of this process: /dev/stdin, or what `<(command)` is.
bool is_descriptor(const fs::path& path);

/// What a link at the end of `path` leads to, though that be missing yet.
fs::path followed(fs::path path);

/// Of temporary files and folders, whose names end so.
inline constexpr const char* kTemporarySuffix = ".tmp";

/// A name for a temporary file or folder beside `path` that nobody can guess:
/// ".NAME.0123456789abcdef.tmp".
fs::path temporary_beside(const fs::path& path);

/// A new file under a temporary name, which `commit` moves to `path`: readers see the old file or
/// the new one, never a part. Removed if it is never committed.
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
/// directly to what is no regular file (/dev/stdout, a pipe).
void write_text_atomically(const fs::path& path, std::string_view text);

struct MapRecord;

/// A file mapped read-only into memory. Where it becomes shorter meanwhile, the program that reads
/// what was there says so and ends with exit status 3, unless it reads under `recovering`.
class MappedFile {
 public:
  /// RunError where it is no file that can be mapped, a pipe say.
  explicit MappedFile(const fs::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Calls `read`. RunError where the file has become shorter by then: what was read was not all
  /// in it. One thread at a time.
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

}  // namespace flow
