// The arguments of a kernel that runs later.
#pragma once

#include <string>
#include <vector>

#include "runtime/cuda/driver/driver.h"

namespace flow::test {

class KeptCall {
 public:
  explicit KeptCall(const cuda::KernelCall& call) : name_(call.name), call_(call) {
    for (size_t i = 0; i < call.arguments.size(); ++i) {
      const auto* bytes = static_cast<const std::byte*>(call.arguments[i]);
      values_.emplace_back(bytes, bytes + call.sizes[i]);
    }
  }
  /// Calls run(call).
  template <typename Run>
  void run(Run run) {
    std::vector<void*> arguments;
    for (std::vector<std::byte>& value : values_) arguments.push_back(value.data());
    cuda::KernelCall call = call_;
    call.name = name_.c_str();
    call.arguments = arguments;
    run(call);
  }

 private:
  std::string name_;
  cuda::KernelCall call_;
  std::vector<std::vector<std::byte>> values_;
};

}  // namespace flow::test
