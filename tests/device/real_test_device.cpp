// This machine's first GPU, for the tests of kernels; opened once.
#include <cstdlib>
#include <iostream>
#include <utility>

#include "runtime/cuda/driver/device.h"
#include "runtime/cuda/program/backend.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {
namespace {

/// What ctest takes for a test that was skipped.
constexpr int kSkipped = 77;

std::unique_ptr<cuda::Driver> open_first() {
  const cuda::Machine machine = cuda::find_devices();
  if (machine.devices.empty()) {
    std::cerr << "skipped: " << machine.problem << "\n";
    std::_Exit(kSkipped);
  }
  return cuda::open_device(machine.devices.front().index);
}

struct Opened {
  std::unique_ptr<cuda::Driver> driver = open_first();
  std::unique_ptr<cuda::Libraries> libraries = cuda::open_libraries(*driver);
};

/// Lends the one device; opening it takes longer than most tests.
class RealTestDevice : public TestDevice {
 public:
  cuda::Driver& driver() override { return *opened().driver; }
  cuda::Libraries& libraries() override { return *opened().libraries; }
  std::optional<int64_t> captured_launches() const override { return std::nullopt; }
  void finish() override {}

 private:
  static Opened& opened() {
    static Opened& device = *new Opened;  // the libraries' own statics may go before it would
    return device;
  }
};

}  // namespace

bool is_gpu() { return true; }

std::unique_ptr<TestDevice> open_test_device(LaneOrder) {
  return std::make_unique<RealTestDevice>();
}

std::unique_ptr<exec::Backend> open_test_backend() {
  auto driver = open_first();
  auto libraries = cuda::open_libraries(*driver);
  return cuda::make_backend(std::move(driver), std::move(libraries));
}

}  // namespace flow::test
