// Owners of what a driver hands out, and the sizes that it is asked for.
#pragma once

#include <cstddef>
#include <utility>

#include "runtime/base/ceil_div.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

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
