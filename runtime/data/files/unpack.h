// Data files as streams of bytes, which may be packed with gzip or zstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/file.h"

namespace flow::data {

/// Bytes that are read once, from the first to the last.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Reads until `into` is full or the stream ends. Returns the number of bytes read, which is 0 at
  /// the end. Throws RunError if the file is damaged, ends too early, or shrinks while it is read.
  /// The last checksum is verified by the call that returns fewer bytes than `into` holds.
  virtual size_t read(std::span<std::byte> into) = 0;
};

/// Opens a regular file: plain, or packed with gzip or zstd, which is recognized by its first
/// bytes. A packed file may consist of several members or frames. No more memory is used than the
/// window of the format, which is at most 128 MiB. Throws RunError if the file is missing or cannot
/// be mapped, such as a pipe or a device, which is not opened.
std::unique_ptr<ByteStream> open_stream(const fs::path& path);

/// Returns the rest of a stream. `name` appears in messages. Throws RunError if there are more than
/// `limit` bytes.
std::string read_all(ByteStream& stream, uint64_t limit, const std::string& name);

/// Throws RunError if `path` is missing, or is neither a regular file nor a link to one. Nothing is
/// opened, because opening a pipe would take its data from another reader.
void require_regular_file(const fs::path& path);

}  // namespace flow::data
