// Unpacks gzip streams in memory, piece by piece, and the deflate streams of zip archives. Only
// this file uses zlib.
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
  /// `name` appears in messages. Both arguments must outlive the object.
  Gunzip(std::span<const std::byte> packed, const std::string& name);
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  /// Unpacks until `into` is full or the last member ends. Returns the number of unpacked bytes.
  /// Throws RunError if the stream is damaged or ends too early.
  size_t read(std::span<std::byte> into);
  /// Returns true if no data is left. It also checks the last checksum, so call it after the last
  /// `read`.
  bool at_end();

  /// Returns the largest size that `packed` bytes can unpack to.
  static size_t bound(size_t packed) { return (packed + 1) * 1032; }

 private:
  void next_member();
  z_stream stream_{};
  std::span<const std::byte> rest_;  // bytes that the stream has not received yet
  const std::string& name_;
  bool ended_ = false;
};

/// Allocates memory for `size` bytes, which `packed` bytes unpack to. Throws RunError if they
/// cannot unpack to this size, or if the system does not have enough memory.
std::unique_ptr<std::byte[]> memory_for(size_t size, size_t packed, const std::string& name);

/// Unpacks a raw deflate stream to `size` bytes. Throws RunError if the stream is damaged or has
/// another size. No more memory is allocated than the size of the stream can justify.
std::unique_ptr<std::byte[]> inflate_raw(std::span<const std::byte> packed, size_t size,
                                         const std::string& name);

/// Returns the first `most` bytes that a raw deflate stream unpacks to, or fewer if the stream ends
/// earlier or is damaged.
std::vector<std::byte> inflate_start(std::span<const std::byte> packed, size_t most);

/// Returns the CRC-32 of zip archives for bytes that follow those with the checksum `before`.
uint32_t zip_checksum(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace flow::io
