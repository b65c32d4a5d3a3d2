// Loads the kernels of a launch that is not to run.
#pragma once

#include "runtime/base/check.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

/// A driver for launches: it loads kernels, and ignores copies and clears. Borrows the real one.
class KernelLoader : public Driver {
 public:
  explicit KernelLoader(Driver& driver) : driver_(driver) {}

  const DeviceProperties& properties() const override { return driver_.properties(); }
  void launch(const KernelCall& call, Stream) override { driver_.load(call); }
  void load(const KernelCall& call) override { driver_.load(call); }
  void copy(void*, const void*, size_t, Stream) override {}
  void copy_rows(void*, const void*, const RowCopy&, Stream) override {}
  void clear(void*, size_t, Stream) override {}

  // A launch does none of these.
  size_t free_memory() override { refuse(); }
  std::byte* allocate(size_t) override { refuse(); }
  void release(std::byte*) noexcept override {}
  std::byte* allocate_pinned(size_t) override { refuse(); }
  void release_pinned(std::byte*) noexcept override {}
  Stream create_stream() override { refuse(); }
  void destroy(Stream) noexcept override {}
  Event create_event() override { refuse(); }
  Event create_timed_event() override { refuse(); }
  void destroy(Event) noexcept override {}
  void record(Event, Stream) override { refuse(); }
  void wait(Stream, Event) override { refuse(); }
  void synchronize(Event) override { refuse(); }
  void synchronize(Stream) override { refuse(); }
  bool is_reached(Event) override { refuse(); }
  double milliseconds_between(Event, Event) override { refuse(); }
  void begin_capture(Stream) override { refuse(); }
  Graph end_capture(Stream) override { refuse(); }
  void launch(Graph, Stream) override { refuse(); }
  void destroy(Graph) noexcept override {}

 private:
  [[noreturn]] static void refuse() { FLOW_CHECK(false, "a launch asks for more than launches"); }

  Driver& driver_;
};

}  // namespace flow::cuda
