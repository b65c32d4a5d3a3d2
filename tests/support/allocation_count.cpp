// malloc and its kin, interposed: they count, and leave the work to the C library.
#include "tests/support/allocation_count.h"

#include <link.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

#include "tests/support/sanitized.h"

#if defined(FLOW_SANITIZED) || !defined(__GLIBC__)
#define FLOW_UNCOUNTED
#endif

namespace {

thread_local int64_t allocations = 0;

}  // namespace

namespace flow {

int64_t allocations_of_this_thread() { return allocations; }

#ifdef FLOW_UNCOUNTED
bool allocations_are_counted() { return false; }
#else
bool allocations_are_counted() { return true; }
#endif

}  // namespace flow

#ifndef FLOW_UNCOUNTED

namespace {

struct Range {
  uintptr_t begin = 0, end = 0;
};

/// Where oneDNN's code lies; empty where it is not loaded.
Range range_of_onednn() {
  Range range;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        if (std::string_view(info->dlpi_name).find("libdnnl") == std::string_view::npos) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          if (part.p_type != PT_LOAD || !(part.p_flags & PF_X)) continue;
          const uintptr_t begin = info->dlpi_addr + part.p_vaddr;
          *static_cast<Range*>(found) = {begin, begin + part.p_memsz};
        }
        return 1;
      },
      &range);
  return range;
}

/// One more allocation, unless the code at `caller` is oneDNN's.
void note(const void* caller) {
  static const Range kOneDnn = range_of_onednn();
  const auto at = reinterpret_cast<uintptr_t>(caller);
  if (at < kOneDnn.begin || at >= kOneDnn.end) ++allocations;
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  note(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

}  // extern "C"

void* operator new(size_t bytes) {
  note(__builtin_return_address(0));
  if (void* memory = __libc_malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

void* operator new[](size_t bytes) {
  note(__builtin_return_address(0));
  if (void* memory = __libc_malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

#endif
