// How long work takes on the device.
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
  /// The driver outlives it.
  explicit Stopwatch(Driver& driver);

  Stream stream() const { return stream_.get(); }
  /// Milliseconds of what `put` puts into the stream: the shortest of several runs, after one that
  /// does not count. None where it puts nothing (false) or fails.
  std::optional<double> time(const std::function<bool()>& put) const;

 private:
  /// Of one of `runs`; -1: `put` refuses.
  double sample(const std::function<bool()>& put, int runs) const;

  Driver& driver_;
  OwnedStream stream_;
  OwnedEvent begin_, end_;
};

/// Which of `count` has the shortest time, the first of equal ones; none where none has a time.
std::optional<size_t> fastest_of(size_t count,
                                 const std::function<std::optional<double>(size_t)>& time_of);

/// Device memory for operands of a trial, filled with numbers between -1 and 1.
class TrialMemory {
 public:
  struct Part {
    DType dtype;
    size_t bytes;                        // 0: its address is null
    std::optional<int32_t> number = {};  // in place of those, of an int32 part
  };
  /// RunError where there is too little memory.
  TrialMemory(Driver& driver, Stream stream, std::span<const Part> parts, size_t workspace);

  std::byte* part(size_t i) const { return parts_[i]; }
  std::byte* workspace() const { return workspace_; }

 private:
  DeviceBytes memory_;
  std::vector<std::byte*> parts_;
  std::byte* workspace_ = nullptr;
};

}  // namespace flow::cuda
