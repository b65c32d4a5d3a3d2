// A fresh fake device for each test.
#include <catch2/catch.hpp>

#include <utility>

#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/cuda/test_device.h"

namespace flow::test {
namespace {

class FakeTestDevice : public TestDevice {
 public:
  explicit FakeTestDevice(LaneOrder lanes) : driver_({lanes}), libraries_(driver_) {}
  cuda::Driver& driver() override { return driver_; }
  cuda::Libraries& libraries() override { return libraries_; }
  std::optional<int64_t> captured_launches() const override {
    return driver_.count("captured launch");
  }
  void finish() override { REQUIRE(driver_.problems().empty()); }

 private:
  FakeDriver driver_;
  cuda::NaiveLibraries libraries_;
};

}  // namespace

bool is_gpu() { return false; }

std::unique_ptr<TestDevice> open_test_device(LaneOrder lanes) {
  return std::make_unique<FakeTestDevice>(lanes);
}

std::unique_ptr<exec::Backend> open_test_backend() { return std::move(FakeGpu().backend); }

}  // namespace flow::test
