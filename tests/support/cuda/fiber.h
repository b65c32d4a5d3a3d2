// Functions that can be left in the middle and gone on with, on stacks of their own.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>

namespace flow::test {

/// Calls `body` again and again: once a resume(), unless it was left by pause().
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs until the body returns or pauses. REQUIRES: not called from within a fiber. What the body
  /// throws comes out here; a fiber whose body threw starts it anew.
  void resume();
  /// Back to where resume() was called. REQUIRES: called from this fiber's body.
  void pause();
  std::span<const std::byte> stack() const;

 private:
  struct Point {
    ucontext_t context{};
    jmp_buf jump{};
  };
  static void start(unsigned high, unsigned low);
  void run();
  void switch_to(Point& from, Point& to, const void* stack, size_t bytes);

  std::function<void()> body_;
  std::unique_ptr<std::byte[]> stack_;
  Point inside_, outside_;
  [[maybe_unused]] bool entered_ = false;  // sanitizers switch otherwise
  std::exception_ptr thrown_;
  const void* outside_stack_ = nullptr;  // for AddressSanitizer
  size_t outside_bytes_ = 0;
};

}  // namespace flow::test
