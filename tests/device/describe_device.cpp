// Prints this machine's first GPU as tests/device/targets describes GPUs.
#include <cstdio>

#include "runtime/base/error.h"
#include "runtime/cuda/libraries/cudnn.h"

int main() {
  try {
    std::puts(flow::cuda::Cudnn::describe(0).c_str());
    return 0;
  } catch (const flow::RunError& error) {
    std::fprintf(stderr, "describe_device: %s\n", error.what());
    return 1;
  }
}
