// NumPy's .npz: a zip archive of .npy files. Every file is hostile: offsets and sizes are checked
// before anything is read or allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace flow::io {

/// One file of an archive, unpacked.
struct NpzMember {
  std::span<const std::byte> bytes;
  std::unique_ptr<std::byte[]> memory;  // owns the bytes, where they were compressed
};

/// The array `array` of the archive `zip`, a whole file: an .npy, which is stored or deflated. Its
/// checksum is checked. `name` is for messages. RunError where the archive is damaged, is none, is
/// larger than 4 GiB (zip64) or encrypted, or has no such array: it lists those it has.
NpzMember read_npz_member(std::span<const std::byte> zip, const std::string& array,
                          const std::string& name);

}  // namespace flow::io
