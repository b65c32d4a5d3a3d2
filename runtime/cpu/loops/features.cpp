// What this CPU can do.
#include "runtime/cpu/loops/features.h"

#include <dnnl.h>
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

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
  // Each set includes those before it, whose bits it has.
  const auto includes = [isa](dnnl_cpu_isa_t other) { return (isa & other) == other; };
  return includes(dnnl_cpu_isa_avx512_core) ? 512 : includes(dnnl_cpu_isa_avx2) ? 256 : 128;
}

bool multiplies_low_precision(DType dtype) {
  if (dtype != DType::kBFloat16) return false;
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  // On Intel's CPUs without tiles bfloat16 is slower than float32, on AMD's it is not.
  return isa == dnnl_cpu_isa_avx512_core_amx ||
         (isa == dnnl_cpu_isa_avx512_core_bf16 && __builtin_cpu_is("amd"));
}

std::string onednn_version() {
  const dnnl_version_t& version = *dnnl_version();
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

int usable_cores() {
  cpu_set_t allowed;
  // There are more than the set has room for.
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
    return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::set<std::string> cores;  // by the list of their hyperthreads
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

}  // namespace flow::cpu
