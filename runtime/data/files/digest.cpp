// Computes digests of parts of files.
#include "runtime/data/files/digest.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "runtime/base/digest.h"
#include "runtime/base/error.h"
#include "runtime/data/files/unpack.h"

namespace flow::data {

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kSampledBlocks = 62, kSampledBytes = 4096;

void add_samples(std::span<const std::byte> bytes, ContentDigest& digest) {
  if (bytes.size() <= kWholeDigest) return digest.add(bytes);
  digest.add(bytes.first(kMiB));
  // The blocks leave kSampledBlocks + 1 equal gaps.
  const uint64_t gap =
      (bytes.size() - 2 * kMiB - kSampledBlocks * kSampledBytes) / (kSampledBlocks + 1);
  for (uint64_t i = 0; i < kSampledBlocks; ++i)
    digest.add(bytes.subspan(kMiB + gap + i * (gap + kSampledBytes), kSampledBytes));
  digest.add(bytes.last(kMiB));
}

/// Adds a number as 8 bytes, the lowest first.
void add_number(uint64_t number, ContentDigest& digest) {
  std::array<std::byte, sizeof number> bytes;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(number);
    number >>= 8;
  }
  digest.add(bytes);
}

/// Adds a text after its length, so that different sequences of texts give different bytes.
void add_text(std::string_view text, ContentDigest& digest) {
  add_number(text.size(), digest);
  digest.add(std::as_bytes(std::span(text)));
}

}  // namespace

std::string digest_of_samples(const fs::path& path) {
  require_regular_file(path);
  const MappedFile file(path);
  ContentDigest digest;
  file.recovering([&] { add_samples(file.bytes(), digest); });
  return digest.text();
}

FileRecord record_of(const fs::path& root, const std::string& name, const FileRecord* before) {
  const FileState state = file_state(root, name);
  if (before && before->state == state && !before->digest.empty()) return *before;
  FileRecord record{state, digest_of_samples(root / name)};
  require_unchanged(root, state);
  return record;
}

std::string digest_of_files(std::span<const FileRecord> files) {
  ContentDigest digest;
  for (const FileRecord& file : files) {
    add_text(file.state.name, digest);
    add_number(file.state.size, digest);
    add_text(file.digest, digest);
  }
  return digest.text();
}

void require_unchanged(const fs::path& root, const FileState& before) {
  const FileState now = file_state(root, before.name);
  const std::string path = (root / before.name).string();
  constexpr const char* kHint = "start again when no program writes to the file";
  if (now.size != before.size)
    throw RunError(fmt::format("{} changed while it was being read: found {} bytes, expected {}",
                               path, now.size, before.size),
                   kHint);
  if (now.time != before.time)
    throw RunError(fmt::format("{} changed while it was being read: its time is another", path),
                   kHint);
}

}  // namespace flow::data
