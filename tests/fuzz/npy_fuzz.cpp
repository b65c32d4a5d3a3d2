// Any bytes as a .npy file: read and printed, or refused with a RunError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"
#include "tests/support/npy_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const flow::Array array = flow::io::parse_npy(std::as_bytes(std::span(data, size)), "fuzz.npy");
    FLOW_CHECK(array.bytes().size() <= size);
    flow::io::format_numpy(array.view());
    const std::string written = flow::npy_bytes(array.view());
    const flow::Array again = flow::io::parse_npy(std::as_bytes(std::span(written)), "again.npy");
    FLOW_CHECK(again.shape() == array.shape() && again.dtype() == array.dtype());
  } catch (const flow::RunError&) {
  }
  return 0;
}
