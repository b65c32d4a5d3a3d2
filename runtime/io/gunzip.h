// gzip streams in memory, unpacked piece by piece, and what zip archives hold. The one door to
// zlib.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace flow::io {

/// Reads the members of a gzip file one after another and checks their checksums.
class Gunzip {
 public:
  /// `name` is for messages; both must outlive the object.
  Gunzip(std::span<const std::byte> packed, const std::string& name);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  /// Unpacks until `into` is full or the last member ends; returns the bytes unpacked. RunError
  /// when the stream is damaged or ends too early.
  size_t read(std::span<std::byte> into);
  /// True when nothing is left. Reads the last checksum, so call it after the last `read`.
  bool at_end();

  /// The most that `packed` bytes can unpack to.
  static size_t bound(size_t packed) { return (packed + 1) * 1032; }

 private:
  void next_member();
  z_stream stream_{};
  std::span<const std::byte> rest_;  // not yet given to the stream
  const std::string& name_;
  bool ended_ = false;
};

/// Memory for `size` bytes that `packed` bytes unpack to. RunError where they cannot unpack to so
/// much, or where the system has no such memory.
std::unique_ptr<std::byte[]> memory_for(size_t size, size_t packed, const std::string& name);

/// The `size` bytes that a raw deflate stream unpacks to. RunError when it is damaged, or of
/// another size; nothing is allocated that the stream's own size does not warrant.
std::unique_ptr<std::byte[]> inflate_raw(std::span<const std::byte> packed, size_t size,
                                         const std::string& name);

/// The first `most` bytes of what a raw deflate stream unpacks to; fewer where it ends before, or
/// is damaged.
std::vector<std::byte> inflate_start(std::span<const std::byte> packed, size_t most);

/// CRC-32 as zip archives have it, of bytes that follow those with the checksum `before`.
uint32_t zip_checksum(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace flow::io
