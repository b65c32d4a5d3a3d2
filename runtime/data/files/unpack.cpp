// Reads plain, gzip and zstd files through a map of the packed bytes.
#include "runtime/data/files/unpack.h"

#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/gunzip.h"

namespace flow::data {

namespace {

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(MappedFile file) : file_(std::move(file)), rest_(file_.bytes()) {}

  size_t read(std::span<std::byte> into) override {
    const size_t count = std::min(into.size(), rest_.size());
    if (count == 0) return 0;
    file_.recovering([&] { std::memcpy(into.data(), rest_.data(), count); });
    rest_ = rest_.subspan(count);
    return count;
  }

 private:
  MappedFile file_;
  std::span<const std::byte> rest_;
};

class GzipStream : public ByteStream {
 public:
  GzipStream(MappedFile file, std::string name)
      : file_(std::move(file)), name_(std::move(name)), gunzip_(file_.bytes(), name_) {}

  size_t read(std::span<std::byte> into) override {
    size_t count = 0;
    file_.recovering([&] { count = gunzip_.read(into); });
    return count;
  }

 private:
  MappedFile file_;
  std::string name_;
  io::Gunzip gunzip_;
};

class ZstdStream : public ByteStream {
 public:
  ZstdStream(MappedFile file, std::string name)
      : file_(std::move(file)),
        name_(std::move(name)),
        context_(ZSTD_createDCtx()),
        packed_{file_.bytes().data(), file_.bytes().size(), 0} {
    if (!context_) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kWindowLog);
  }

  size_t read(std::span<std::byte> into) override {
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    file_.recovering([&] {
      while (out.pos < out.size && !ended_) unpack(out);
    });
    return out.pos;
  }

 private:
  static constexpr int kWindowLog = 27;  // the limit of the `zstd` program, 128 MiB

  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };

  void unpack(ZSTD_outBuffer& out) {
    const size_t packed_before = packed_.pos, out_before = out.pos;
    const size_t missing = ZSTD_decompressStream(context_.get(), &out, &packed_);
    if (ZSTD_isError(missing)) fail(missing);
    ended_ = missing == 0 && packed_.pos == packed_.size;
    if (!ended_ && packed_.pos == packed_before && out.pos == out_before)
      throw RunError(fmt::format("{} is truncated inside its zstd stream", name_));
  }

  [[noreturn]] void fail(size_t status) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(status);
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    const bool large = code == ZSTD_error_frameParameter_windowTooLarge;
    throw RunError(large ? fmt::format("{} needs a zstd window of more than {}", name_,
                                       human_bytes(uint64_t{1} << kWindowLog))
                         : fmt::format("{} is damaged: zstd: {}", name_, ZSTD_getErrorName(status)),
                   large ? "pack it again without `--long`" : "");
  }

  MappedFile file_;
  std::string name_;
  std::unique_ptr<ZSTD_DCtx, Free> context_;
  ZSTD_inBuffer packed_;
  bool ended_ = false;
};

enum class Packing { kNone, kGzip, kZstd };

/// Returns the packing that the first bytes of a file denote (RFC 1952, RFC 8878). Files written by
/// parallel zstd programs begin with a skippable frame.
Packing packing_of(std::span<const std::byte> bytes) {
  const auto byte = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  if (bytes.size() >= 2 && byte(0) == 0x1F && byte(1) == 0x8B) return Packing::kGzip;
  if (bytes.size() < 4) return Packing::kNone;
  const uint32_t magic = byte(0) | byte(1) << 8 | byte(2) << 16 | byte(3) << 24;
  const bool zstd = magic == ZSTD_MAGICNUMBER ||
                    (magic & ZSTD_MAGIC_SKIPPABLE_MASK) == ZSTD_MAGIC_SKIPPABLE_START;
  return zstd ? Packing::kZstd : Packing::kNone;
}

}  // namespace

void require_regular_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw cannot("read", path, error ? error.value() : ENOENT);
  if (fs::is_directory(status)) throw cannot("read", path, EISDIR);
  if (!fs::is_regular_file(status))
    throw RunError(fmt::format("{} is a pipe or a device; expected a regular file", path.string()),
                   "write it to a file first");
}

std::unique_ptr<ByteStream> open_stream(const fs::path& path) {
  require_regular_file(path);
  MappedFile file(path);
  Packing packing = Packing::kNone;
  file.recovering([&] { packing = packing_of(file.bytes()); });
  switch (packing) {
    case Packing::kGzip:
      return std::make_unique<GzipStream>(std::move(file), path.string());
    case Packing::kZstd:
      return std::make_unique<ZstdStream>(std::move(file), path.string());
    default:
      return std::make_unique<PlainStream>(std::move(file));
  }
}

std::string read_all(ByteStream& stream, uint64_t limit, const std::string& name) {
  constexpr size_t kPiece = size_t{1} << 20;
  std::string text;
  while (true) {
    const size_t before = text.size();
    text.resize(before + kPiece);
    const size_t count = stream.read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + count);
    if (text.size() > limit)
      throw RunError(fmt::format("{} has more than {}", name, human_bytes(limit)));
    if (count < kPiece) return text;
  }
}

}  // namespace flow::data
