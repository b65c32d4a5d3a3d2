// What a program does when memory runs out where neither an exception nor a message can be made.
#include "runtime/base/out_of_memory.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <malloc.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <new>
#include <span>
#include <typeinfo>

#include "runtime/base/exit_code.h"

namespace flow {
namespace {

std::atomic<bool> as_object = false;
std::terminate_handler terminate_before = nullptr;
struct sigaction fault_before {};

/// Writes an error as a line or as an object, without memory or locks.
void report(const char* problem, const char* hint) {
  const char* const line[] = {
      ::program_invocation_short_name, ": error: ", problem, "\n   hint: ", hint, "\n"};
  const char* const object[] = {"{\"event\":\"error\",\"text\":\"", problem, "\"}\n"};
  iovec parts[std::size(line)];
  int count = 0;
  for (const char* text : as_object ? std::span<const char* const>(object) : line)
    parts[count++] = {const_cast<char*>(text), std::strlen(text)};
  if (::writev(STDERR_FILENO, parts, count) < 0) {
    // Nobody reads it.
  }
}

[[noreturn]] void leave() {
  report_out_of_memory();
  ::_exit(kRunFailed);
}

/// Is that what nobody catches? Where an exception got no memory, there is none.
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
  constexpr uintptr_t kNearNull = 1 << 20;  // the largest code is shorter
  const bool faulted = info->si_code > 0;   // and was not sent by a process
  if (faulted && reinterpret_cast<uintptr_t>(info->si_addr) < kNearNull) {
    if (errno == ENOMEM) leave();
    if (errno == EACCES || errno == EPERM) {
      report(kExecutableMemoryDenied, kAllowExecutableMemory);
      ::_exit(kRunFailed);
    }
  }
  ::sigaction(signal, &fault_before, nullptr);  // another reason: the fault comes again
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
  ::backtrace(&frame, 1);  // which loads it
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
