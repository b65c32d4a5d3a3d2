// The calls that -fsanitize=thread of g++ and clang puts into code. Without a listener they do
// nothing. Copies of the C library are heard of through the linker's --wrap.
#include "tests/support/races/hooks.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>

namespace flow::test {
namespace {

class Nobody : public AccessListener {
  void access(const void*, size_t, Access, const void*) override {}
};
Nobody nobody;
thread_local AccessListener* listening = nullptr;

struct HostMemory {
  size_t bytes;
  AccessListener* listener;
};
std::shared_mutex host_mutex;
std::atomic<size_t> host_count = 0;  // of host_memory, which no static destructor may read
std::map<const std::byte*, HostMemory> host_memory;

void tell_host(const std::byte* at, size_t bytes, Access kind, const void* code) {
  const Listening once;  // the listener's own accesses are nobody's
  const std::shared_lock lock(host_mutex);
  const auto after = host_memory.upper_bound(at);
  if (after == host_memory.begin()) return;
  const auto& [first, memory] = *std::prev(after);
  const auto offset = static_cast<size_t>(at - first);
  if (offset < memory.bytes)
    memory.listener->access(at, std::min(bytes, memory.bytes - offset), kind, code);
}

[[maybe_unused]] void note(const volatile void* memory, size_t bytes, Access kind,
                           const void* code) {
  const void* const at = const_cast<const void*>(memory);
  if (listening)
    listening->access(at, bytes, kind, code);
  else if (host_count.load(std::memory_order_relaxed) > 0)
    tell_host(static_cast<const std::byte*>(at), bytes, kind, code);
}

}  // namespace

Listening::Listening(AccessListener* listener)
    : before_(std::exchange(listening, listener ? listener : &nobody)) {}
Listening::~Listening() { listening = before_; }

void watch_host_memory(const std::byte* first, size_t bytes, AccessListener& listener) {
  const std::lock_guard lock(host_mutex);
  host_memory[first] = {bytes, &listener};
  host_count = host_memory.size();
}

void forget_host_memory(const std::byte* first) {
  const std::lock_guard lock(host_mutex);
  host_memory.erase(first);
  host_count = host_memory.size();
}

#ifdef FLOW_WATCH_RACES
void note_access(const void* memory, size_t bytes, Access kind) {
  note(memory, bytes, kind, __builtin_return_address(0));
}
#endif

}  // namespace flow::test

#ifdef FLOW_WATCH_RACES

using flow::test::Access;
using flow::test::note;

// The address behind a hook's call.
#define FLOW_CALLER __builtin_return_address(0)

#define FLOW_PLAIN(bytes)                                                                      \
  void __tsan_read##bytes(void* at) { note(at, bytes, Access::kRead, FLOW_CALLER); }           \
  void __tsan_write##bytes(void* at) { note(at, bytes, Access::kWrite, FLOW_CALLER); }         \
  void __tsan_unaligned_read##bytes(void* at) { note(at, bytes, Access::kRead, FLOW_CALLER); } \
  void __tsan_unaligned_write##bytes(void* at) { note(at, bytes, Access::kWrite, FLOW_CALLER); }

#define FLOW_FETCH(bits, name)                                                   \
  uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile uint##bits##_t* at, \
                                                    uint##bits##_t value, int) { \
    note(at, bits / 8, Access::kAtomic, FLOW_CALLER);                            \
    return __atomic_fetch_##name(at, value, __ATOMIC_SEQ_CST);                   \
  }

#define FLOW_EXCHANGE(bits, name)                                                              \
  int __tsan_atomic##bits##_compare_exchange_##name(                                           \
      volatile uint##bits##_t* at, uint##bits##_t* expected, uint##bits##_t value, int, int) { \
    note(at, bits / 8, Access::kAtomic, FLOW_CALLER);                                          \
    return __atomic_compare_exchange_n(at, expected, value, false, __ATOMIC_SEQ_CST,           \
                                       __ATOMIC_SEQ_CST);                                      \
  }

#define FLOW_ATOMIC(bits)                                                                          \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t* at, int) {              \
    note(at, bits / 8, Access::kRead, FLOW_CALLER);                                                \
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                                  \
  }                                                                                                \
  void __tsan_atomic##bits##_store(volatile uint##bits##_t* at, uint##bits##_t value, int) {       \
    note(at, bits / 8, Access::kAtomic, FLOW_CALLER);                                              \
    __atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                                 \
  }                                                                                                \
  uint##bits##_t __tsan_atomic##bits##_exchange(volatile uint##bits##_t* at, uint##bits##_t value, \
                                                int) {                                             \
    note(at, bits / 8, Access::kAtomic, FLOW_CALLER);                                              \
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                                       \
  }                                                                                                \
  FLOW_FETCH(bits, add)                                                                            \
  FLOW_FETCH(bits, sub)                                                                            \
  FLOW_FETCH(bits, or)                                                                             \
  FLOW_FETCH(bits, and)                                                                            \
  FLOW_EXCHANGE(bits, strong)                                                                      \
  FLOW_EXCHANGE(bits, weak)

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_atomic_thread_fence(int) {}
void __tsan_atomic_signal_fence(int) {}

FLOW_PLAIN(1)
FLOW_PLAIN(2)
FLOW_PLAIN(4)
FLOW_PLAIN(8)
FLOW_PLAIN(16)
FLOW_ATOMIC(8)
FLOW_ATOMIC(16)
FLOW_ATOMIC(32)
FLOW_ATOMIC(64)

void __tsan_read_range(void* at, size_t bytes) { note(at, bytes, Access::kRead, FLOW_CALLER); }
void __tsan_write_range(void* at, size_t bytes) { note(at, bytes, Access::kWrite, FLOW_CALLER); }

void* __real_memcpy(void*, const void*, size_t);
void* __real_memmove(void*, const void*, size_t);
void* __real_memset(void*, int, size_t);

void* __wrap_memcpy(void* to, const void* from, size_t bytes) {
  note(from, bytes, Access::kRead, FLOW_CALLER);
  note(to, bytes, Access::kWrite, FLOW_CALLER);
  return __real_memcpy(to, from, bytes);
}
void* __wrap_memmove(void* to, const void* from, size_t bytes) {
  note(from, bytes, Access::kRead, FLOW_CALLER);
  note(to, bytes, Access::kWrite, FLOW_CALLER);
  return __real_memmove(to, from, bytes);
}
void* __wrap_memset(void* to, int value, size_t bytes) {
  note(to, bytes, Access::kWrite, FLOW_CALLER);
  return __real_memset(to, value, bytes);
}
}

#endif
