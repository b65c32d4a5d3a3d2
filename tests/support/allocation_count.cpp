// malloc and its kin, interposed: they count, and leave the work to the C library.
#include "tests/support/allocation_count.h"

#include <cerrno>
#include <cstddef>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define FLOW_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define FLOW_SANITIZED
#endif

namespace {

thread_local int64_t allocations = 0;

}  // namespace

namespace flow {

int64_t allocations_of_this_thread() { return allocations; }

#ifdef FLOW_SANITIZED
bool allocations_are_counted() { return false; }
#else
bool allocations_are_counted() { return true; }
#endif

}  // namespace flow

#ifndef FLOW_SANITIZED

extern "C" {

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++allocations;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : ENOMEM;
}

}  // extern "C"

#endif
