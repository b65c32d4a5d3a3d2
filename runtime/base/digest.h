// Digests of texts and of the contents of files. They detect damage and changes, but not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace flow {

inline constexpr uint64_t kFnvOfNothing = 0xCBF29CE484222325;

/// Computes FNV-1a with 64 bits (Fowler, Noll and Vo). `before` is the hash of the preceding text.
uint64_t fnv1a64(std::string_view text, uint64_t before = kFnvOfNothing);

/// Returns fnv1a64 as 16 hexadecimal digits.
std::string digest(std::string_view text, uint64_t before = kFnvOfNothing);

/// Computes XXH3 with 128 bits (xxhash.com) of bytes that arrive in pieces. Adding allocates
/// nothing.
class ContentDigest {
 public:
  ContentDigest();
  void add(std::span<const std::byte> bytes);
  /// Returns the digest of all bytes so far as 32 hexadecimal digits.
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// Returns the digest of a whole regular file. Throws RunError if the file cannot be read, or
/// becomes shorter while it is read.
std::string digest_of_file(const std::filesystem::path& path);

}  // namespace flow
