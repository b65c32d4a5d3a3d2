// Any bytes as a JPEG image: decoded, fitted and encoded, or refused with a RunError.
#include "tests/support/image_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    flow::test::fuzz_image(std::as_bytes(std::span(data, size)));
  } catch (const flow::RunError&) {
  }
  return 0;
}
