// Numbers as event files have them.
#pragma once

#include <bit>
#include <string>

namespace flow::io {

/// Both formats are little-endian, as is every machine that we build for.
static_assert(std::endian::native == std::endian::little);

template <typename T>
void append_raw(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace flow::io
