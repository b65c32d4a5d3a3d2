// libfault_injector.so, an LD_PRELOAD library for tests: it fails chosen calls of the C library and
// records calls in order. Environment variables:
//
//   FAULT_CALL=KIND     the kind of call that fails (the names in kKinds)
//   FAULT_AT=N          the N-th call of that kind fails, counted from 1; without it none does
//   FAULT_ALWAYS=1      so do all calls of that kind after it
//   FAULT_KILL=1        that call kills the process instead
//   FAULT_ERRNO=NUMBER  what errno says then; without it EIO, for memory, mmap and mprotect ENOMEM
//   FAULT_PATH=TEXT     only calls whose path contains TEXT count
//   FAULT_LOG=FILE      gets a line for each call that counts, before it is made, in the order of
//                       all threads: "KIND<TAB>PATH", and "<TAB>NEW PATH" for rename. Not for
//                       malloc, mmap, mprotect, spawn and thread, which have no path
//   FAULT_COUNTS=FILE   gets the calls so far of each kind, in the order of kKinds: a uint64 each,
//                       current at any moment
//
// Paths are absolute. A call that fails does nothing, except close, which closes as the system
// does. Standard error never fails and is not counted. Child processes run without the library.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>

namespace {

enum Kind {
  kWrite,
  kPwrite,
  kFsync,
  kSyncfs,
  kRename,
  kOpen,
  kMkdir,
  kUnlink,
  kTruncate,
  kMmap,
  kMprotect,
  kMalloc,
  kClose,
  kSpawn,
  kThread,
  kKindCount
};
constexpr const char* kKinds[] = {"write",    "pwrite", "fsync",  "syncfs",   "rename",
                                  "open",     "mkdir",  "unlink", "truncate", "mmap",
                                  "mprotect", "malloc", "close",  "spawn",    "thread"};
static_assert(std::size(kKinds) == kKindCount);

using Count = std::atomic<uint64_t>;
Count own_counts[kKindCount];
Count* counts = own_counts;  // or the mapped file

struct Settings {
  int kind = kKindCount;  // that fails
  uint64_t at = 0;
  bool always = false, kill = false;
  int code = 0;  // errno; 0: the kind's own
  const char* path = nullptr;
  int log = -1;
} settings;

int open_file(const char* path, int flags) {
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0666));
}

__attribute__((constructor)) void begin() {
  const char* const call = getenv("FAULT_CALL");
  for (int kind = 0; call && kind < kKindCount; ++kind)
    if (strcmp(call, kKinds[kind]) == 0) settings.kind = kind;
  if (const char* text = getenv("FAULT_AT")) settings.at = strtoull(text, nullptr, 10);
  settings.always = getenv("FAULT_ALWAYS") != nullptr;
  settings.kill = getenv("FAULT_KILL") != nullptr;
  if (const char* text = getenv("FAULT_ERRNO")) settings.code = atoi(text);
  settings.path = getenv("FAULT_PATH");
  if (const char* path = getenv("FAULT_LOG"))
    settings.log = open_file(path, O_WRONLY | O_CREAT | O_APPEND);
  if (const char* path = getenv("FAULT_COUNTS")) {
    const int file = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
    if (ftruncate64(file, sizeof own_counts) == 0) {
      const long map = syscall(SYS_mmap, nullptr, sizeof own_counts, PROT_READ | PROT_WRITE,
                               MAP_SHARED, file, 0L);
      counts = reinterpret_cast<Count*>(map);
    }
    syscall(SYS_close, file);
  }
  unsetenv("LD_PRELOAD");
}

/// What a call works on: its paths, made absolute.
class Target {
 public:
  Target() = default;
  explicit Target(int descriptor) {
    if (is_asked()) follow(descriptor);
  }
  explicit Target(const char* path) : Target(AT_FDCWD, path) {}
  Target(int folder, const char* path) {
    if (!is_asked()) return;
    if (path[0] != '/') {
      folder == AT_FDCWD ? follow("/proc/self/cwd") : follow(folder);
      append("/");
    }
    append(path);
  }
  const char* path() const { return path_; }

 private:
  static bool is_asked() { return settings.path || settings.log >= 0; }
  void append(const char* text) { strncat(path_, text, sizeof path_ - strlen(path_) - 1); }
  void follow(int descriptor) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    follow(link);
  }
  void follow(const char* link) {
    const ssize_t size = readlink(link, path_, sizeof path_ - 1);
    path_[size < 0 ? 0 : size] = '\0';
  }

  char path_[PATH_MAX] = "";
};

/// Counts a call. Is it to fail? errno says why then.
bool fails(Kind kind, const char* path = nullptr, const char* new_path = "") {
  if (settings.path &&
      (!path || (!strstr(path, settings.path) && !strstr(new_path, settings.path))))
    return false;
  const uint64_t number = ++counts[kind];
  if (settings.log >= 0 && path) {
    char line[2 * PATH_MAX + 20];
    const int size = snprintf(line, sizeof line, *new_path ? "%s\t%s\t%s\n" : "%s\t%s\n",
                              kKinds[kind], path, new_path);
    syscall(SYS_write, settings.log, line, size);
  }
  if (kind != settings.kind || settings.at == 0) return false;
  if (number != settings.at && !(settings.always && number > settings.at)) return false;
  if (settings.kill) raise(SIGKILL);
  const bool memory = kind == kMalloc || kind == kMmap || kind == kMprotect;
  errno = settings.code != 0 ? settings.code : memory ? ENOMEM : EIO;
  return true;
}

template <typename Call>
Call next(const char* name, Call) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  if (fails(kOpen, Target(folder, path).path())) return -1;
  return static_cast<int>(syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_of(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

int rename_at(int folder, const char* path, int new_folder, const char* new_path, unsigned flags) {
  if (fails(kRename, Target(folder, path).path(), Target(new_folder, new_path).path())) return -1;
  return static_cast<int>(syscall(SYS_renameat2, folder, path, new_folder, new_path, flags));
}

int unlink_at(int folder, const char* path, int flags) {
  if (fails(kUnlink, Target(folder, path).path())) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}

int make_directory(int folder, const char* path, mode_t mode) {
  if (fails(kMkdir, Target(folder, path).path())) return -1;
  return static_cast<int>(syscall(SYS_mkdirat, folder, path, mode));
}

ssize_t write_at(int file, const void* data, size_t size, off64_t offset) {
  if (fails(kPwrite, Target(file).path())) return -1;
  return syscall(SYS_pwrite64, file, data, size, offset);
}

int truncate_to(int file, off64_t size) {
  if (fails(kTruncate, Target(file).path())) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, file, size));
}

int sync_by(long call, Kind kind, int file) {
  return fails(kind, Target(file).path()) ? -1 : static_cast<int>(syscall(call, file));
}

void* map_at(void* at, size_t size, int protection, int flags, int file, off64_t offset) {
  if (fails(kMmap)) return MAP_FAILED;
  return reinterpret_cast<void*>(syscall(SYS_mmap, at, size, protection, flags, file, offset));
}

}  // namespace

extern "C" {

ssize_t write(int file, const void* data, size_t size) {
  if (file != STDERR_FILENO && fails(kWrite, Target(file).path())) return -1;
  return syscall(SYS_write, file, data, size);
}
ssize_t pwrite(int file, const void* data, size_t size, off_t offset) {
  return write_at(file, data, size, offset);
}
ssize_t pwrite64(int file, const void* data, size_t size, off64_t offset) {
  return write_at(file, data, size, offset);
}
int ftruncate(int file, off_t size) noexcept { return truncate_to(file, size); }
int ftruncate64(int file, off64_t size) noexcept { return truncate_to(file, size); }

int fsync(int file) { return sync_by(SYS_fsync, kFsync, file); }
int fdatasync(int file) { return sync_by(SYS_fdatasync, kFsync, file); }
int syncfs(int file) noexcept { return sync_by(SYS_syncfs, kSyncfs, file); }

int close(int file) {
  const bool failed = file != STDERR_FILENO && fails(kClose, Target(file).path());
  const int code = errno;
  const auto result = static_cast<int>(syscall(SYS_close, file));
  if (!failed) return result;
  errno = code;
  return -1;
}

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at(AT_FDCWD, path, flags, mode);
}
int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = mode_of(flags, list);
  va_end(list);
  return open_at(folder, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));

FILE* fopen(const char* path, const char* mode) {
  static const auto real = next("fopen", &fopen);
  return fails(kOpen, Target(path).path()) ? nullptr : real(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  static const auto real = next("fopen64", &fopen64);
  return fails(kOpen, Target(path).path()) ? nullptr : real(path, mode);
}
DIR* opendir(const char* path) {
  static const auto real = next("opendir", &opendir);
  return fails(kOpen, Target(path).path()) ? nullptr : real(path);
}

int rename(const char* path, const char* new_path) noexcept {
  return rename_at(AT_FDCWD, path, AT_FDCWD, new_path, 0);
}
int renameat(int folder, const char* path, int new_folder, const char* new_path) noexcept {
  return rename_at(folder, path, new_folder, new_path, 0);
}
int renameat2(int folder, const char* path, int new_folder, const char* new_path,
              unsigned flags) noexcept {
  return rename_at(folder, path, new_folder, new_path, flags);
}

int mkdir(const char* path, mode_t mode) noexcept { return make_directory(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return make_directory(folder, path, mode);
}

int unlink(const char* path) noexcept { return unlink_at(AT_FDCWD, path, 0); }
int rmdir(const char* path) noexcept { return unlink_at(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  return unlink_at(folder, path, flags);
}
int remove(const char* path) noexcept {
  const int file = unlink_at(AT_FDCWD, path, 0);
  return file == 0 || errno != EISDIR ? file : unlink_at(AT_FDCWD, path, AT_REMOVEDIR);
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) noexcept {
  return map_at(at, size, protection, flags, file, offset);
}
void* mmap64(void* at, size_t size, int protection, int flags, int file, off64_t offset) noexcept {
  return map_at(at, size, protection, flags, file, offset);
}

int mprotect(void* at, size_t size, int protection) noexcept {
  return fails(kMprotect) ? -1 : static_cast<int>(syscall(SYS_mprotect, at, size, protection));
}

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) { return fails(kMalloc) ? nullptr : __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return fails(kMalloc) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  return size != 0 && fails(kMalloc) ? nullptr : __libc_realloc(memory, size);
}
void* memalign(size_t alignment, size_t size) {
  return fails(kMalloc) ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  void* const made = memalign(alignment, size);
  if (!made) return ENOMEM;
  *memory = made;
  return 0;
}

int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
  static const auto real = next("posix_spawn", &posix_spawn);
  return fails(kSpawn) ? errno : real(pid, path, actions, attributes, words, variables);
}
int posix_spawnp(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                 const posix_spawnattr_t* attributes, char* const* words, char* const* variables) {
  static const auto real = next("posix_spawnp", &posix_spawnp);
  return fails(kSpawn) ? errno : real(pid, path, actions, attributes, words, variables);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                   void* context) noexcept {
  static const auto real = next("pthread_create", &pthread_create);
  return fails(kThread) ? EAGAIN : real(thread, attributes, body, context);
}

}  // extern "C"
