// Any bytes as an .npz file: the array `a` of it as an .npy, or refused with a RunError.
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/base/error.h"
#include "runtime/io/npy.h"
#include "runtime/io/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const flow::io::NpzMember member =
        flow::io::read_npz_member(std::as_bytes(std::span(data, size)), "a", "fuzz");
    flow::io::parse_npy(member.bytes, "fuzz");
  } catch (const flow::RunError&) {
  }
  return 0;
}
