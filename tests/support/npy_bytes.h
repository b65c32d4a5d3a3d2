// What a .npy file of an array holds.
#pragma once

#include <string>

#include "runtime/base/array.h"
#include "runtime/io/npy.h"

namespace flow {

inline std::string npy_bytes(const ArrayView& array) {
  std::string bytes = io::npy_header(array.dtype, array.shape);
  bytes.append(reinterpret_cast<const char*>(array.data), array.bytes());
  return bytes;
}

}  // namespace flow
