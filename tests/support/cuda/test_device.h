// The device that tests of CUDA kernels run on: one that is made up, or, in tests/device, this
// machine's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/cuda/driver/driver.h"
#include "runtime/cuda/libraries/libraries.h"
#include "runtime/exec/core/backend.h"
#include "tests/support/cuda/block.h"

namespace flow::test {

class TestDevice {
 public:
  virtual ~TestDevice() = default;
  virtual cuda::Driver& driver() = 0;
  virtual cuda::Libraries& libraries() = 0;
  /// Kernels launched in captures so far, where the device counts them.
  virtual std::optional<int64_t> captured_launches() const = 0;
  /// Fails a check where the driver was misused or something is left.
  virtual void finish() = 0;
};

/// Is it this machine's?
bool is_gpu();

/// `lanes`: for a device that has the choice.
std::unique_ptr<TestDevice> open_test_device(LaneOrder lanes);

/// The CUDA backend on such a device.
std::unique_ptr<exec::Backend> open_test_backend();

}  // namespace flow::test
