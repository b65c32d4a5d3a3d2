// Determines the capabilities of this CPU. Also records the first failure of oneDNN in a call, and
// checks the memory into which oneDNN generates code.
#include "runtime/cpu/loops/features.h"

#include <dnnl.h>
#include <dnnl_debug.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <set>
#include <thread>

#include "runtime/base/memory.h"
#include "runtime/cpu/loops/onednn_status.h"

namespace flow::cpu {

std::string instruction_set() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
      return "sse41";
    case dnnl_cpu_isa_avx:
      return "avx";
    case dnnl_cpu_isa_avx2:
      return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
      return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
      return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
      return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
      return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
      return "avx512_core_amx";
    default:
      return "x86-64";
  }
}

int vector_bits() {
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  // The bits of each instruction set include those of the sets that it extends.
  const auto includes = [isa](dnnl_cpu_isa_t other) { return (isa & other) == other; };
  return includes(dnnl_cpu_isa_avx512_core) ? 512 : includes(dnnl_cpu_isa_avx2) ? 256 : 128;
}

bool multiplies_low_precision(DType dtype) {
  if (dtype != DType::kBFloat16) return false;
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  // On Intel's CPUs without tiles, bfloat16 is slower than float32; on AMD's CPUs it is not.
  return isa == dnnl_cpu_isa_avx512_core_amx ||
         (isa == dnnl_cpu_isa_avx512_core_bf16 && __builtin_cpu_is("amd"));
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

int usable_cores() {
  cpu_set_t allowed;
  // The call fails if the machine has more CPUs than the set can represent.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::set<std::string> cores;  // identified by the list of their hyperthreads
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    std::string siblings;
    std::ifstream file(
        fmt::format("/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list", cpu));
    std::getline(file, siblings);
    cores.insert(siblings.empty() ? std::to_string(cpu) : siblings);
  }
  return std::max(1, static_cast<int>(cores.size()));
}

namespace {

std::atomic<dnnl_status_t> failure{dnnl_success};
std::atomic<int> denial{0};  // errno of the first executable memory that was denied

bool is_denied(int code) { return code == EACCES || code == EPERM; }

/// Makes memory executable in the way oneDNN does. Returns errno if that fails, or 0 if it
/// succeeds.
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
