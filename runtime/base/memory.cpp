// The memory that the system and its control groups report, and the actions of a program without
// memory.
#include "runtime/base/memory.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <typeinfo>

#include "runtime/base/error.h"

namespace flow {

namespace {

constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

/// The names of the files of a version of control groups.
struct Version {
  const char *limit, *usage, *droppable;
};
constexpr Version kFirst{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kSecond{"memory.max", "memory.current", "inactive_file"};

/// Returns the number in a file, or nothing if the file contains none, such as "max".
std::optional<size_t> number_in(const std::string& path) {
  std::ifstream file(path);
  size_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// Returns the number after a key in lines of the form "key number".
size_t number_of(const std::string& path, const std::string& wanted) {
  std::ifstream file(path);
  std::string key, rest;
  for (size_t number = 0; file >> key >> number; std::getline(file, rest))
    if (key == wanted) return number;
  return 0;
}

/// Returns the bytes left in `group`, a folder with a trailing slash.
size_t left_in(const std::string& group, const Version& version) {
  const std::optional<size_t> limit = number_in(group + version.limit);
  const std::optional<size_t> usage = number_in(group + version.usage);
  if (!limit || !usage) return kNoLimit;
  const size_t droppable = number_of(group + "memory.stat", version.droppable);
  const size_t held = *usage - std::min(*usage, droppable);
  return *limit - std::min(*limit, held);
}

}  // namespace

size_t left_in_groups(const fs::path& groups, const fs::path& mount) {
  size_t left = kNoLimit;
  std::ifstream list(groups);
  // A line is, for example, "4:memory:/job/step" or "0::/job/step".
  for (std::string line; std::getline(list, line);) {
    const size_t kinds = line.find(':') + 1, name = line.find(':', kinds) + 1;
    if (kinds == 0 || name == 0) continue;
    const std::string kind = line.substr(kinds, name - 1 - kinds);
    if (kind != "memory" && !kind.empty()) continue;
    const bool second = kind.empty();
    // Uses strings, because paths of libstdc++ 12 crash if they run out of memory.
    const std::string top = mount.string() + (second ? "" : "/memory");
    for (std::string group = line.substr(name);; group.resize(group.rfind('/'))) {
      left = std::min(left, left_in(top + group + '/', second ? kSecond : kFirst));
      if (group.find('/') == std::string::npos) break;
    }
  }
  return left;
}

size_t available_memory() {
  const size_t kibibytes = number_of("/proc/meminfo", "MemAvailable:");
  // The number is 0 if the system does not report it.
  const size_t system = kibibytes == 0 ? kNoLimit : kibibytes * 1024;
  return std::min(system, left_in_groups("/proc/self/cgroup", "/sys/fs/cgroup"));
}

namespace {

std::atomic<bool> as_object = false;
std::terminate_handler terminate_before = nullptr;
struct sigaction fault_before {};

/// Writes an error as a line or as a JSON object, without memory or locks.
void report(const char* problem, const char* hint) {
  const char* const line[] = {
      ::program_invocation_short_name, ": error: ", problem, "\n   hint: ", hint, "\n"};
  const char* const object[] = {"{\"event\":\"error\",\"text\":\"", problem, "\"}\n"};
  iovec parts[std::size(line)];
  int count = 0;
  for (const char* text : as_object ? std::span<const char* const>(object) : line)
    parts[count++] = {const_cast<char*>(text), std::strlen(text)};
  if (::writev(STDERR_FILENO, parts, count) < 0) {
    // Standard error has no reader.
  }
}

[[noreturn]] void leave() {
  report_out_of_memory();
  ::_exit(kRunFailed);
}

/// Returns true if the uncaught exception reports a lack of memory. If there was no memory for the
/// exception itself, no exception exists, and errno is ENOMEM.
bool is_out_of_memory() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  return type ? *type == typeid(std::bad_alloc) || *type == typeid(std::bad_array_new_length)
              : errno == ENOMEM;
}

void end_terminated() {
  if (is_out_of_memory()) leave();
  terminate_before();
}

void end_faulted(int signal, siginfo_t* info, void*) {
  constexpr uintptr_t kNearNull = 1 << 20;  // bytes; generated code is smaller than this
  const bool faulted = info->si_code > 0;   // and the signal was not sent by a process
  if (faulted && reinterpret_cast<uintptr_t>(info->si_addr) < kNearNull) {
    if (errno == ENOMEM) leave();
    if (errno == EACCES || errno == EPERM) {
      report(kExecutableMemoryDenied, kAllowExecutableMemory);
      ::_exit(kRunFailed);
    }
  }
  ::sigaction(signal, &fault_before, nullptr);  // The fault has another reason and occurs again.
  if (!faulted) ::raise(signal);
}

}  // namespace

void report_out_of_memory() noexcept {
  report("out of memory",
         "use a smaller batch, close other programs, or raise the limit with `ulimit -v`");
}

void report_out_of_memory_as_object() { as_object = true; }

void catch_last_bad_alloc() { terminate_before = std::set_terminate(end_terminated); }

void prepare_for_little_memory() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // The first call loads the unwinder.
  rlimit space{};
  if (::getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY)
    ::mallopt(M_ARENA_MAX, 1);
}

void catch_writes_without_memory() {
  static const bool caught = [] {
    struct sigaction action {};
    action.sa_sigaction = end_faulted;
    action.sa_flags = SA_SIGINFO;
    return ::sigaction(SIGSEGV, &action, &fault_before) == 0;
  }();
  static_cast<void>(caught);
}

}  // namespace flow
