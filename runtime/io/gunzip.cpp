// Unpacks gzip and deflate streams in memory.
#include "runtime/io/gunzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "runtime/base/error.h"
#include "runtime/base/memory.h"
#include "runtime/base/text.h"

namespace flow::io {

namespace {

constexpr size_t kPiece = size_t{1} << 30;  // bytes per call, because zlib counts in 32 bits

RunError damaged_stream(const std::string& name) {
  return RunError(fmt::format("{} is damaged: invalid deflate stream, or wrong size", name));
}

}  // namespace

Gunzip::Gunzip(std::span<const std::byte> packed, const std::string& name)
    : rest_(packed), name_(name) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
}

Gunzip::~Gunzip() { inflateEnd(&stream_); }

void Gunzip::next_member() {
  // The bytes that zlib has not consumed precede those that it has not received.
  rest_ = {rest_.data() - stream_.avail_in, rest_.size() + stream_.avail_in};
  stream_.avail_in = 0;
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  ended_ = std::ranges::all_of(rest_, is_zero);  // tapes are padded with zeros
  if (ended_) return;
  if (rest_[0] != std::byte{0x1f})
    throw RunError(
        fmt::format("{} has {} bytes after the end of its gzip stream", name_, rest_.size()));
  inflateReset(&stream_);
}

size_t Gunzip::read(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size() && !ended_) {
    if (stream_.avail_in == 0) {
      const size_t piece = std::min(rest_.size(), kPiece);
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(rest_.data()));
      stream_.avail_in = static_cast<uInt>(piece);
      rest_ = rest_.subspan(piece);
    }
    const size_t room = std::min(into.size() - done, kPiece);
    stream_.next_out = reinterpret_cast<Bytef*>(into.data() + done);
    stream_.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    done += room - stream_.avail_out;
    if (status == Z_STREAM_END) {
      next_member();
    } else if (status == Z_BUF_ERROR && rest_.empty()) {
      throw RunError(fmt::format("{} is truncated inside its gzip stream", name_));
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      throw RunError(
          fmt::format("{} is damaged: {}", name_, stream_.msg ? stream_.msg : "not a gzip stream"));
    }
  }
  return done;
}

bool Gunzip::at_end() {
  std::byte one_more;
  return read({&one_more, 1}) == 0;
}

namespace {

struct Inflated {
  size_t bytes = 0;
  bool ended = false;  // true if the stream ends with the last packed byte
};

/// Unpacks a raw deflate stream until it ends, is found damaged, or `into` is full. REQUIRES: both
/// sizes fit in 32 bits.
Inflated inflate_into(std::span<const std::byte> packed, std::span<std::byte> into) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(into.data());
  stream.avail_out = static_cast<uInt>(into.size());
  const int status = inflate(&stream, Z_FINISH);
  const Inflated result{stream.total_out, status == Z_STREAM_END && stream.avail_in == 0};
  inflateEnd(&stream);
  if (status == Z_MEM_ERROR) throw std::bad_alloc();
  return result;
}

}  // namespace

std::unique_ptr<std::byte[]> memory_for(size_t size, size_t packed, const std::string& name) {
  // For less memory than this, asking the system takes longer than it is worth.
  constexpr size_t kSmall = size_t{1} << 26;
  if (size > Gunzip::bound(packed)) throw damaged_stream(name);
  if (size > kSmall)
    if (const size_t available = available_memory(); size > available)
      throw RunError(fmt::format("{} unpacks to {}; only {} of memory is available", name,
                                 human_bytes(size), human_bytes(available)),
                     "save it as an uncompressed .npy");
  return std::make_unique_for_overwrite<std::byte[]>(size);
}

std::unique_ptr<std::byte[]> inflate_raw(std::span<const std::byte> packed, size_t size,
                                         const std::string& name) {
  if (packed.size() > UINT32_MAX || size >= UINT32_MAX) throw damaged_stream(name);
  // The extra byte detects a stream that is too long.
  auto bytes = memory_for(size + 1, packed.size(), name);
  const Inflated result = inflate_into(packed, {bytes.get(), size + 1});
  if (!result.ended || result.bytes != size) throw damaged_stream(name);
  return bytes;
}

std::vector<std::byte> inflate_start(std::span<const std::byte> packed, size_t most) {
  std::vector<std::byte> bytes(most);
  bytes.resize(
      inflate_into(packed.first(std::min<size_t>(packed.size(), UINT32_MAX)), bytes).bytes);
  return bytes;
}

uint32_t zip_checksum(std::span<const std::byte> bytes, uint32_t before) {
  return static_cast<uint32_t>(
      crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace flow::io
