// Any bytes as an .npz file: each array of it as an .npy, or refused with a RunError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const flow::io::Npz npz(std::as_bytes(std::span(data, size)), "fuzz");
    for (const std::string& array : npz.arrays())
      flow::io::parse_npy(npz.read(array).bytes, "fuzz");
  } catch (const flow::RunError&) {
  }
  return 0;
}
