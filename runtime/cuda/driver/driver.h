// All of CUDA's runtime that the backend calls, behind one interface, with owners of what a driver
// hands out: driver.cpp is the real one, and tests have one that records the calls and computes on
// the CPU. No CUDA header is needed here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/host_device.h"

namespace flow::cuda {

// Handles of the driver; whoever creates one destroys it.
struct Stream {
  void* handle = nullptr;
};
struct Event {
  void* handle = nullptr;
};
struct Graph {  // instantiated
  void* handle = nullptr;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

/// Rows of bytes that do not lie together where they go to.
struct RowCopy {
  size_t rows = 1, bytes = 0;  // bytes: of a row
  size_t distance = 0;         // from one row to the next at the target
};

/// One kernel launch. `launch.h` makes them.
struct KernelCall {
  const char* name;
  const void* function;
  Extent grid, block;
  size_t shared_bytes = 0;  // dynamic
  std::span<void*> arguments;
  std::span<const size_t> sizes;  // bytes of each argument
  /// One thread of the kernel as a plain call; set only where kernels are compiled for the CPU.
  void (*run_thread)(const void* function, void** arguments) = nullptr;
};

struct DeviceProperties {
  std::string name;         // "NVIDIA H100 80GB HBM3"
  std::string unique_name;  // "GPU-0b9e0b1c...", the same for all processes of a machine
  int index = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::string driver_version, runtime_version;  // of CUDA: "13.0"
  size_t memory = 0;                            // bytes
  size_t shared_per_block = 0;                  // bytes, with opt-in
};

/// One device. Calls that fail throw RunError with CUDA's words. A stream runs in order; all but
/// the calls that allocate, destroy or synchronize may be captured.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceProperties& properties() const = 0;
  virtual size_t free_memory() = 0;

  /// Never null, 256-byte aligned; bytes > 0.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  /// Host memory that copies reach without staging.
  virtual std::byte* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;

  virtual Stream create_stream() = 0;
  virtual void destroy(Stream stream) noexcept = 0;
  virtual Event create_event() = 0;
  /// One that keeps the time at which it was reached.
  virtual Event create_timed_event() = 0;
  virtual void destroy(Event event) noexcept = 0;

  /// Between host and device, or on the device: the addresses say which.
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  /// The same, of rows that lie together where they come from.
  virtual void copy_rows(void* to, const void* from, const RowCopy& copy, Stream stream) = 0;
  virtual void clear(void* memory, size_t bytes, Stream stream) = 0;
  virtual void launch(const KernelCall& call, Stream stream) = 0;
  /// Loads the kernel without running it: CUDA loads others when they are first launched.
  virtual void load(const KernelCall& call) = 0;

  virtual void record(Event event, Stream stream) = 0;
  /// Work put into `stream` later starts after `event`.
  virtual void wait(Stream stream, Event event) = 0;
  /// Returns when all work before the event is done; throws what went wrong in it.
  virtual void synchronize(Event event) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Is all work before the event done? Throws what went wrong in it.
  virtual bool is_reached(Event event) = 0;
  /// Between two timed events, both reached.
  virtual double milliseconds_between(Event first, Event second) = 0;

  /// What is put into `stream` until end_capture is not run but becomes a graph.
  virtual void begin_capture(Stream stream) = 0;
  virtual Graph end_capture(Stream stream) = 0;
  virtual void launch(Graph graph, Stream stream) = 0;
  virtual void destroy(Graph graph) noexcept = 0;
};

inline constexpr size_t kAlignment = 256;  // bytes, of every buffer

inline size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

/// Gives the handle back when it goes. Empty at first; the driver outlives it.
template <typename Handle, void (Driver::*kGiveBack)(Handle) noexcept>
class Owned {
 public:
  Owned() = default;
  Owned(Driver& driver, Handle handle) : driver_(&driver), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)), handle_(other.handle_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(driver_, other.driver_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (driver_) (driver_->*kGiveBack)(handle_);
  }

  Handle get() const { return handle_; }
  explicit operator bool() const { return driver_ != nullptr; }

 private:
  Driver* driver_ = nullptr;
  Handle handle_{};
};

using OwnedStream = Owned<Stream, &Driver::destroy>;
using OwnedEvent = Owned<Event, &Driver::destroy>;
using OwnedGraph = Owned<Graph, &Driver::destroy>;
using DeviceBytes = Owned<std::byte*, &Driver::release>;
using PinnedBytes = Owned<std::byte*, &Driver::release_pinned>;

}  // namespace flow::cuda
