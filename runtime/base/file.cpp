// Files: descriptors that close themselves, whole reads, atomic writes, and files inside a
// directory.
#include "runtime/base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <system_error>

#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"

namespace flow {

namespace {

Descriptor open_or_fail(const fs::path& path, int flags, const char* action,
                        const fs::path& shown_path) {
  Descriptor descriptor(flags == O_RDONLY ? ::open(path.c_str(), flags | O_CLOEXEC)
                                          : calls::open(path, flags));
  if (!descriptor.is_open()) throw cannot(action, shown_path, errno);
  return descriptor;
}

/// Returns a hint for names that only shells and browsers understand, even if the folder of a job
/// file precedes them.
std::string remedy_for_missing(const fs::path& path) {
  for (const fs::path& part : path) {
    if (part == "~")
      return "write the home directory in full, or as `$env(HOME)` in a job file: only shells "
             "expand `~`";
    if (part.native().size() > 2 && part.native().ends_with(':'))
      return "download the file first, and name its local path";
  }
  return {};
}

/// Returns a hint for an error, or an empty string if the message needs none.
std::string remedy(const fs::path& path, int code) {
  if (code == ENOENT) return remedy_for_missing(path);
  if (code == ENOSPC || code == EDQUOT) return "free disk space, or write to another disk";
  if (code == EMFILE) return "raise the limit on open files: `ulimit -n NUMBER`";
  return {};
}

/// Calls `read` with the remaining span and the number of bytes read so far, until `into` is full
/// or `read` returns 0. `read` returns the number of bytes that it has read.
template <typename Read>
size_t read_until_full(const fs::path& path, std::span<std::byte> into, const Read& read) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = read(into.subspan(done), done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw cannot("read", path, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

/// Calls `write` with the remaining bytes and the number of bytes written so far, until all are
/// written. `write` returns the number of bytes that it has written.
template <typename Write>
void write_all(const fs::path& path, std::span<const std::byte> bytes, const Write& write) {
  for (size_t done = 0; done < bytes.size();) {
    const long written = write(bytes.subspan(done), done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw cannot("write", path, errno);
    done += static_cast<size_t>(written);
  }
}

}  // namespace

RunError cannot(std::string_view action, const fs::path& path, int code) {
  return RunError(
      fmt::format("cannot {} {}: {}", action, path.string(), std::generic_category().message(code)),
      remedy(path, code));
}

int Descriptor::close() {
  if (!is_open()) return 0;
  // The descriptor is closed even if a signal interrupts the call. A second attempt could close a
  // descriptor of another thread.
  return calls::close(std::exchange(descriptor_, -1)) == 0 || errno == EINTR ? 0 : errno;
}

File File::open_read(const fs::path& path) {
  File file(open_or_fail(path, O_RDONLY, "read", path), path);
  struct stat status {};
  if (::fstat(file.descriptor_.get(), &status) == 0 && S_ISDIR(status.st_mode))
    throw cannot("read", path, EISDIR);
  return file;
}

File File::create(const fs::path& path) {
  // The name is copied before the file is opened, so that a failed copy leaves no empty file.
  fs::path name = path;
  return {open_or_fail(path, O_WRONLY | O_CREAT | O_TRUNC, "write", path), std::move(name)};
}

File File::create_new(const fs::path& path, const fs::path& shown_path) {
  fs::path name = shown_path;
  const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;
  return {open_or_fail(path, flags, "write", shown_path), std::move(name)};
}

File File::open_update(const fs::path& path) {
  return {open_or_fail(path, O_RDWR | O_CREAT, "write", path), path};
}

uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_.get(), &status) != 0) throw cannot("read", path_, errno);
  return static_cast<uint64_t>(status.st_size);
}

size_t File::read(std::span<std::byte> into) {
  return read_until_full(path_, into, [&](std::span<std::byte> rest, size_t) {
    return ::read(descriptor_.get(), rest.data(), rest.size());
  });
}

size_t File::read_at(uint64_t offset, std::span<std::byte> into) const {
  return read_until_full(path_, into, [&](std::span<std::byte> rest, size_t done) {
    return ::pread(descriptor_.get(), rest.data(), rest.size(), static_cast<off_t>(offset + done));
  });
}

void File::write(std::span<const std::byte> bytes) {
  write_all(path_, bytes, [&](std::span<const std::byte> rest, size_t) {
    return calls::write(descriptor_.get(), rest);
  });
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void File::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  write_all(path_, bytes, [&](std::span<const std::byte> rest, size_t done) {
    return calls::write_at(descriptor_.get(), offset + done, rest);
  });
}

void File::truncate(uint64_t size) {
  if (calls::truncate(descriptor_.get(), size) != 0) throw cannot("write", path_, errno);
}

void File::sync() {
  // Pipes, /dev and some file systems cannot sync. This loses nothing that could be stored.
  if (calls::sync(descriptor_.get()) != 0 && errno != EINVAL && errno != EROFS)
    throw cannot("write", path_, errno);
}

void make_folders(const fs::path& path) {
  if (path.empty()) return;
  if (const std::error_code error = make_path(path))
    throw cannot("create the directory", path, error.value());
}

void File::close() {
  if (const int error = descriptor_.close(); error != 0) throw cannot("write", path_, error);
}

std::string read_text(const fs::path& path) {
  File file = File::open_read(path);
  std::string text;
  constexpr size_t kChunk = size_t{1} << 16;
  while (true) {  // Reads in chunks, because a pipe has no size.
    const size_t before = text.size();
    text.resize(before + kChunk);
    const size_t got = file.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
    if (got < kChunk) return text;
  }
}

bool is_descriptor(const fs::path& path) {
  const std::string text = path.string();
  return text == "/dev/stdin" || text.starts_with("/dev/fd/") || text.starts_with("/proc/self/fd/");
}

fs::path followed(fs::path path) {
  constexpr int kMostLinks = 40;  // the limit of the system
  std::error_code ignored;
  for (int i = 0; i < kMostLinks && fs::is_symlink(path, ignored); ++i)
    path = path.parent_path() / fs::read_symlink(path, ignored);
  return path;
}

fs::path temporary_beside(const fs::path& path) {
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) throw cannot("write", path, errno);
  // The name is cut, because the longest possible name leaves no room for the suffix.
  const std::string name = path.filename().string().substr(0, 200);
  return path.parent_path() / fmt::format(".{}.{:016x}{}", name, random, kTemporarySuffix);
}

Replacement::Replacement(const fs::path& path)
    : path_(path), temporary_(temporary_beside(path)), file_(File::create_new(temporary_, path)) {}

Replacement::~Replacement() {
  if (!temporary_.empty()) remove_path(temporary_);
}

void Replacement::commit() {
  file_.close();
  if (calls::rename(temporary_, path_) != 0) throw cannot("write", path_, errno);
  temporary_.clear();
}

void write_text_atomically(const fs::path& path, std::string_view text) {
  std::error_code unknown;
  if (fs::exists(path, unknown) && !fs::is_regular_file(path, unknown)) {
    File file = File::create(path);
    file.write(text);
    return file.close();
  }
  const fs::path target = followed(path);
  Replacement fresh(target);
  fresh.file().write(text);
  fresh.file().sync();
  fresh.commit();
  Folder(target.parent_path()).sync();
}

Folder::Folder(fs::path path)
    : path_(path.empty() ? fs::path(".") : std::move(path)),
      descriptor_(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (!descriptor_.is_open() && errno != EACCES) throw cannot("sync", path_, errno);
}

void Folder::sync() const {
  if (descriptor_.is_open()) require(calls::sync(descriptor_.get()));
}

void Folder::sync_file_system() const {
  if (descriptor_.is_open()) require(calls::sync_file_system(descriptor_.get()));
}

void Folder::require(int result) const {
  if (result != 0 && errno != EINVAL && errno != EROFS) throw cannot("sync", path_, errno);
}

std::string link_problem(const fs::path& link, const fs::path& directory) {
  std::error_code broken;
  const fs::path target = fs::canonical(link, broken);
  if (broken) return "a broken link";
  const fs::path inside = fs::canonical(directory, broken);
  if (std::ranges::mismatch(target, inside).in2 == inside.end()) return {};
  return fmt::format("a link to {}, outside the directory", target.string());
}

void require_link_inside(const fs::path& directory, const fs::path& link) {
  if (const std::string problem = link_problem(link, directory); !problem.empty())
    throw RequestError(fmt::format("{} is {}", link.string(), problem), kReplaceLink);
}

void require_inside(const fs::path& directory, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) throw cannot("read", path, error ? error.value() : ENOENT);
  require_link_inside(directory, path);
  if (!fs::is_regular_file(path, error))
    throw RequestError(fmt::format("{} is not a file", path.string()), "remove or rename it");
}

std::string read_inside(const fs::path& directory, const fs::path& path, uint64_t most) {
  require_inside(directory, path);
  const auto require_small = [&](uint64_t size) {
    if (size > most)
      throw RequestError(fmt::format("{} has more than {} MiB", path.string(), most >> 20),
                         "restore the file that was there");
  };
  std::error_code gone;  // set if the file is gone, which MappedFile reports
  if (const uint64_t size = fs::file_size(path, gone); !gone) require_small(size);
  // MappedFile does not wait for a writer, and rejects anything but a regular file.
  const MappedFile file(path);
  require_small(file.bytes().size());
  std::string text;
  file.recovering([&] {
    text.assign(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  });
  return text;
}

std::optional<std::string> read_if_there(const fs::path& directory, const char* name,
                                         uint64_t most) {
  std::error_code unknown;
  const fs::path path = directory / name;
  if (!fs::exists(fs::symlink_status(path, unknown))) return {};
  return read_inside(directory, path, most);
}

std::string hint_for_text(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto begins_with = [&text](std::string_view mark) {
    return std::ranges::equal(text.substr(0, mark.size()), mark, {},
                              [](unsigned char c) { return std::tolower(c); });
  };
  if (begins_with("version https://git-lfs"))
    return "the file is a pointer of Git LFS; run `git lfs pull`";
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // UTF-8 byte order mark
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  constexpr std::array kPages = {"<!doctype", "<html", "<head", "<body", "<?xml", "<!--"};
  if (std::ranges::any_of(kPages, begins_with))
    return "the file is a web page: the download failed; download it again";
  return {};
}

}  // namespace flow
