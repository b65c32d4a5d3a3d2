// Fibers on ucontext, told to AddressSanitizer where it watches.
#include "tests/support/cuda/fiber.h"

#include <cstdint>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace flow::test {
namespace {

constexpr size_t kStackBytes = 64 * 1024;

}  // namespace

Fiber::Fiber(std::function<void()> body)
    : body_(std::move(body)), stack_(new std::byte[kStackBytes]) {
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_.get();
  inside_.uc_stack.ss_size = kStackBytes;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::start), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() {
#ifdef __SANITIZE_ADDRESS__
  // A fiber that was left for good has frames on its stack, with red zones.
  ASAN_UNPOISON_MEMORY_REGION(stack_.get(), kStackBytes);
#endif
}

void Fiber::switch_to(ucontext_t& from, ucontext_t& to, const void* stack, size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  void* frames = nullptr;
  __sanitizer_start_switch_fiber(&frames, stack, bytes);
  swapcontext(&from, &to);
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#else
  static_cast<void>(stack);
  static_cast<void>(bytes);
  swapcontext(&from, &to);
#endif
}

void Fiber::resume() {
  switch_to(outside_, inside_, stack_.get(), kStackBytes);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void Fiber::pause() { switch_to(inside_, outside_, outside_stack_, outside_bytes_); }

void Fiber::run() {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &outside_stack_, &outside_bytes_);
#endif
  while (true) {
    try {
      body_();
    } catch (...) {
      thrown_ = std::current_exception();
    }
    pause();
  }
}

void Fiber::start(unsigned high, unsigned low) {
  const auto self = static_cast<uintptr_t>(high) << 32 | low;
  reinterpret_cast<Fiber*>(self)->run();
}

}  // namespace flow::test
