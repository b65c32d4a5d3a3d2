// An interface to every CUDA runtime function that the backend calls, with owners for the handles
// that a driver returns. driver.cpp is the real driver; tests have one that records the calls and
// computes on the CPU. This file needs no CUDA header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "runtime/base/host_device.h"

namespace flow::cuda {

// Handles of the driver. The code that creates a handle destroys it.
struct Stream {
  void* handle = nullptr;
};
struct Event {
  void* handle = nullptr;
};
struct Graph {  // an instantiated graph
  void* handle = nullptr;
};

struct Extent {
  unsigned x = 1, y = 1, z = 1;
};

/// Rows of bytes that are contiguous at the source but not at the target.
struct RowCopy {
  size_t rows = 1, bytes = 0;  // the number of rows, and the bytes of one row
  size_t distance = 0;         // bytes from one row to the next at the target
};

/// One kernel launch, created by `launch.h`.
struct KernelCall {
  const char* name;
  const void* function;
  Extent grid, block;
  size_t shared_bytes = 0;  // dynamic shared memory
  std::span<void*> arguments;
  std::span<const size_t> sizes;  // bytes of each argument
  /// Runs one thread of the kernel as a plain call. Only set if kernels are compiled for the CPU.
  void (*run_thread)(const void* function, void** arguments) = nullptr;
};

struct DeviceProperties {
  std::string name;         // "NVIDIA H100 80GB HBM3"
  std::string unique_name;  // "GPU-0b9e0b1c...", the same for all processes of a machine
  int index = 0;
  int major = 0, minor = 0;  // compute capability
  int multiprocessors = 0;
  std::string driver_version, runtime_version;  // CUDA versions such as "13.0"
  size_t memory = 0;                            // bytes
  size_t shared_per_block = 0;                  // bytes, with opt-in
};

/// One device. A call that fails throws RunError with CUDA's message. The work in a stream runs in
/// order. All calls may be captured except those that allocate, destroy or synchronize.
class Driver {
 public:
  virtual ~Driver() = default;

  virtual const DeviceProperties& properties() const = 0;
  virtual size_t free_memory() = 0;

  /// Returns memory that is never null and 256-byte aligned. REQUIRES: bytes > 0.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;
  /// Returns host memory that copies access without staging.
  virtual std::byte* allocate_pinned(size_t bytes) = 0;
  virtual void release_pinned(std::byte* memory) noexcept = 0;

  virtual Stream create_stream() = 0;
  virtual void destroy(Stream stream) noexcept = 0;
  virtual Event create_event() = 0;
  /// Returns an event that records the time at which it was reached.
  virtual Event create_timed_event() = 0;
  virtual void destroy(Event event) noexcept = 0;

  /// Copies between host and device, or within the device, depending on the addresses.
  virtual void copy(void* to, const void* from, size_t bytes, Stream stream) = 0;
  /// Copies rows that are contiguous at the source, again between host and device or within the
  /// device.
  virtual void copy_rows(void* to, const void* from, const RowCopy& copy, Stream stream) = 0;
  virtual void clear(void* memory, size_t bytes, Stream stream) = 0;
  virtual void launch(const KernelCall& call, Stream stream) = 0;
  /// Loads the kernel without running it. CUDA otherwise loads a kernel at its first launch.
  virtual void load(const KernelCall& call) = 0;

  virtual void record(Event event, Stream stream) = 0;
  /// Makes work that is put into `stream` later start after `event`.
  virtual void wait(Stream stream, Event event) = 0;
  /// Returns when all work before the event is done. Throws if any of that work failed.
  virtual void synchronize(Event event) = 0;
  virtual void synchronize(Stream stream) = 0;
  /// Returns true if all work before the event is done. Throws if any of that work failed.
  virtual bool is_reached(Event event) = 0;
  /// Returns the time between two timed events. REQUIRES: Both have been reached.
  virtual double milliseconds_between(Event first, Event second) = 0;

  /// Starts a capture: work that is put into `stream` until end_capture is not run but becomes a
  /// graph.
  virtual void begin_capture(Stream stream) = 0;
  virtual Graph end_capture(Stream stream) = 0;
  virtual void launch(Graph graph, Stream stream) = 0;
  virtual void destroy(Graph graph) noexcept = 0;
};

inline constexpr size_t kAlignment = 256;  // bytes, for every buffer

inline size_t aligned(size_t bytes) { return round_up(bytes, kAlignment); }

/// Owns a handle and gives it back to the driver when destroyed. It is empty at first. The driver
/// outlives it.
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
