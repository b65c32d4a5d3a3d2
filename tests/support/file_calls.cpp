// The functions of the C library, interposed: the runtime library and libstdc++ find these first.
#include "tests/support/file_calls.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <regex>

namespace flow {

namespace {

std::atomic<FileCalls*> recording = nullptr;

}  // namespace

FileCalls::FileCalls(const fs::path& folder) : folder_(fs::canonical(folder)) { recording = this; }

FileCalls::~FileCalls() { recording = nullptr; }

std::vector<std::string> FileCalls::list() const {
  const std::scoped_lock lock(mutex_);
  return calls_;
}

void FileCalls::fail(const std::string& call, int error) {
  const std::scoped_lock lock(mutex_);
  failing_[call] = error;
}

int FileCalls::note(const char* name, const fs::path& path) {
  FileCalls* const calls = recording;
  return calls ? calls->take(name, path) : 0;
}

int FileCalls::note(const char* name, int descriptor) {
  if (!recording) return 0;
  std::error_code closed;
  return note(name, fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), closed));
}

int FileCalls::take(const std::string& name, const fs::path& path) {
  static const std::regex kRandom(R"(\.[0-9a-f]{16}\.tmp)");
  const std::string below = path.lexically_relative(folder_).string();
  if (below.empty() || below.starts_with("..")) return 0;
  const std::string call = name + ' ' + std::regex_replace(below, kRandom, ".tmp");
  const std::scoped_lock lock(mutex_);
  if (name != "close") calls_.push_back(call);
  const auto failing = failing_.extract(call);
  return failing ? failing.mapped() : 0;
}

namespace {

/// The path that `name` is in the folder of a descriptor.
fs::path path_at(int folder, const char* name) {
  std::error_code closed;
  if (folder == AT_FDCWD || *name == '/') return fs::absolute(name);
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", folder), closed) / name;
}

template <typename... Args>
int call_unless(int error, long number, Args... arguments) {
  if (error == 0) return static_cast<int>(::syscall(number, arguments...));
  errno = error;
  return -1;
}

}  // namespace

}  // namespace flow

extern "C" {

int fsync(int descriptor) {
  return flow::call_unless(flow::FileCalls::note("fsync", descriptor), SYS_fsync, descriptor);
}

int syncfs(int descriptor) noexcept {
  return flow::call_unless(flow::FileCalls::note("syncfs", descriptor), SYS_syncfs, descriptor);
}

int close(int descriptor) {
  const int error = flow::FileCalls::note("close", descriptor);
  const int result = flow::call_unless(0, SYS_close, descriptor);  // also where it fails
  return error == 0 ? result : flow::call_unless(error, SYS_close);
}

int rename(const char* from, const char* to) noexcept {
  return flow::call_unless(flow::FileCalls::note("rename", flow::path_at(AT_FDCWD, to)), SYS_rename,
                           from, to);
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned int flags) noexcept {
  return flow::call_unless(flow::FileCalls::note("exchange", flow::path_at(to_folder, to)),
                           SYS_renameat2, from_folder, from, to_folder, to, flags);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  return flow::call_unless(flow::FileCalls::note("remove", flow::path_at(folder, name)),
                           SYS_unlinkat, folder, name, flags);
}

int unlink(const char* path) noexcept { return unlinkat(AT_FDCWD, path, 0); }

int remove(const char* path) noexcept {
  if (unlinkat(AT_FDCWD, path, 0) == 0) return 0;
  return errno == EISDIR ? unlinkat(AT_FDCWD, path, AT_REMOVEDIR) : -1;
}

}  // extern "C"
