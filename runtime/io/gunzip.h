// gzip streams in memory, unpacked piece by piece, and what zip archives hold. The one door to
// zlib.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

/// The `size` bytes that a raw deflate stream unpacks to. RunError when it is damaged, or of
/// another size; nothing is allocated that the stream's own size does not warrant.
std::unique_ptr<std::byte[]> inflate_raw(std::span<const std::byte> packed, size_t size,
                                         const std::string& name);

/// CRC-32 as zip archives have it.
uint32_t zip_checksum(std::span<const std::byte> bytes);

}  // namespace flow::io
