// What code that was compiled with -fsanitize=thread reads and writes. The compiler puts a call
// before each access to memory that is not plainly a function's own; hooks.cpp defines those calls
// in place of ThreadSanitizer's runtime, which is not linked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace flow::test {

/// kAtomic: an atomic operation that writes.
enum class Access : uint8_t { kRead, kWrite, kAtomic };

class AccessListener {
 public:
  virtual ~AccessListener() = default;
  /// `code`: the address behind the access.
  virtual void access(const void* memory, size_t bytes, Access kind, const void* code) = 0;
};

/// While it lives, `listener` hears of the accesses of this thread, and nobody else does.
class Listening {
 public:
  /// Null: nobody hears of them.
  explicit Listening(AccessListener* listener = nullptr);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  AccessListener* const before_;
};

/// Where a thread has no Listening, `listener` hears of its accesses to this memory. Any thread may
/// call it, also while others do.
void watch_host_memory(const std::byte* first, size_t bytes, AccessListener& listener);
void forget_host_memory(const std::byte* first);

/// For code that is not compiled so: the listener hears of an access.
#ifdef FLOW_WATCH_RACES
void note_access(const void* memory, size_t bytes, Access kind);
#else
inline void note_access(const void*, size_t, Access) {}
#endif

}  // namespace flow::test
