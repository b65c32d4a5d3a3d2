// Digests: FNV-1a of texts, and XXH3 of the contents of files.
#include "runtime/base/digest.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

#include "runtime/base/file.h"

namespace flow {

uint64_t fnv1a64(std::string_view text, uint64_t before) {
  uint64_t hash = before;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

std::string digest(std::string_view text, uint64_t before) {
  return fmt::format("{:016x}", fnv1a64(text, before));
}

void ContentDigest::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

ContentDigest::ContentDigest() : state_(XXH3_createState()) {
  if (!state_) throw std::bad_alloc();
  XXH3_128bits_reset(state_.get());
}

void ContentDigest::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string ContentDigest::text() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string digest_of_file(const fs::path& path) {
  const MappedFile file(path);
  ContentDigest digest;
  file.recovering([&] { digest.add(file.bytes()); });
  return digest.text();
}

}  // namespace flow
