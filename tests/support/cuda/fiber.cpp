// Fibers that ucontext starts. From then on they jump, since swapcontext calls the kernel each
// time. Sanitizers mistake a jump for the end of frames, so each switch is announced to them.
#include "tests/support/cuda/fiber.h"

#include <cstdint>
#include <utility>

#include "tests/support/sanitized.h"

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
  ucontext_t& entry = inside_.context;
  getcontext(&entry);
  entry.uc_stack.ss_sp = stack_.get();
  entry.uc_stack.ss_size = kStackBytes;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&entry, reinterpret_cast<void (*)()>(&Fiber::start), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() {
#ifdef __SANITIZE_ADDRESS__
  // A fiber that was left for good has frames on its stack, with red zones.
  ASAN_UNPOISON_MEMORY_REGION(stack_.get(), kStackBytes);
#endif
}

void Fiber::switch_to(Point& from, Point& to, [[maybe_unused]] const void* stack,
                      [[maybe_unused]] size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  void* frames = nullptr;
  __sanitizer_start_switch_fiber(&frames, stack, bytes);
#endif
#ifdef FLOW_SANITIZED
  swapcontext(&from.context, &to.context);
#else
  if (_setjmp(from.jump) == 0) {
    if (std::exchange(entered_, true)) _longjmp(to.jump, 1);
    setcontext(&to.context);
  }
#endif
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(frames, nullptr, nullptr);
#endif
}

void Fiber::resume() {
  switch_to(outside_, inside_, stack_.get(), kStackBytes);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

std::span<const std::byte> Fiber::stack() const { return {stack_.get(), kStackBytes}; }

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
