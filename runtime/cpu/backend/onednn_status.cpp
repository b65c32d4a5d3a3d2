// The first failure of oneDNN that a call has met, and the memory that it generates code into.
#include "runtime/cpu/loops/onednn_status.h"

#include <dnnl_debug.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <atomic>

#include "runtime/base/memory.h"

namespace flow::cpu {
namespace {

std::atomic<dnnl_status_t> failure{dnnl_success};
std::atomic<int> denial{0};  // errno of the first executable memory that was denied

bool is_denied(int code) { return code == EACCES || code == EPERM; }

/// What errno says of memory that is made executable as oneDNN does it; 0 where that succeeds.
int try_executable_memory() {
  constexpr size_t kBytes = 4096;
  void* const memory =
      ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return errno;
  const int code = ::mprotect(memory, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0 ? 0 : errno;
  ::munmap(memory, kBytes);
  return code;
}

}  // namespace

void must_succeed(dnnl_status_t status) {
  if (status != dnnl_success) failure.store(status, std::memory_order_relaxed);
}

void must_succeed(dnnl_status_t status, int code) {
  if (is_denied(code)) return denial.store(code, std::memory_order_relaxed);
  must_succeed(code == ENOMEM ? dnnl_out_of_memory : status);
}

void throw_failure() {
  throw_if_denied(denial.exchange(0, std::memory_order_relaxed));
  if (failure.load(std::memory_order_relaxed) == dnnl_success) return;
  const dnnl_status_t status = failure.exchange(dnnl_success);
  throw RunError(fmt::format("oneDNN could not compute a step: {}", dnnl_status2str(status)),
                 status == dnnl_out_of_memory ? "use a smaller batch" : "");
}

void require_executable_memory() {
  static const int code = try_executable_memory();
  throw_if_denied(code);
}

void throw_if_denied(int code) {
  if (is_denied(code)) throw RunError(kExecutableMemoryDenied, kAllowExecutableMemory);
}

}  // namespace flow::cpu
