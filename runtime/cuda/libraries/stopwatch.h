// Measures the time of work on the device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/cuda/driver/driver.h"

namespace flow::cuda {

class Stopwatch {
 public:
  /// The driver outlives the stopwatch.
  explicit Stopwatch(Driver& driver);

  Stream stream() const { return stream_.get(); }
  /// Returns the milliseconds of the work that `put` puts into the stream: the shortest time of
  /// several runs after a first run that does not count. Returns nothing if `put` refuses (returns
  /// false) or fails.
  std::optional<double> time(const std::function<bool()>& put) const;

 private:
  /// Returns the time of one of `runs` runs, or -1 if `put` refuses.
  double sample(const std::function<bool()>& put, int runs) const;

  Driver& driver_;
  OwnedStream stream_;
  OwnedEvent begin_, end_;
};

/// Returns the index below `count` with the shortest time, the first one if several are equal, or
/// nothing if none has a time.
std::optional<size_t> fastest_of(size_t count,
                                 const std::function<std::optional<double>(size_t)>& time_of);

/// Device memory for the operands of a trial, filled with numbers between -1 and 1.
class TrialMemory {
 public:
  struct Part {
    DType dtype;
    size_t bytes;                        // if 0, the part's address is null
    std::optional<int32_t> number = {};  // replaces those numbers in an int32 part
  };
  /// Throws RunError if there is too little memory.
  TrialMemory(Driver& driver, Stream stream, std::span<const Part> parts, size_t workspace);

  std::byte* part(size_t i) const { return parts_[i]; }
  std::byte* workspace() const { return workspace_; }

 private:
  DeviceBytes memory_;
  std::vector<std::byte*> parts_;
  std::byte* workspace_ = nullptr;
};

}  // namespace flow::cuda
