// Digests of texts and of contents of files: they detect damage and change, not forgery.
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

/// FNV-1a in 64 bits (Fowler, Noll and Vo). `before`: that of what stands before the text.
uint64_t fnv1a64(std::string_view text, uint64_t before = kFnvOfNothing);

/// fnv1a64 as 16 hexadecimal digits.
std::string digest(std::string_view text, uint64_t before = kFnvOfNothing);

/// XXH3 in 128 bits (xxhash.com) of bytes that arrive in pieces. Adding allocates nothing.
class ContentDigest {
 public:
  ContentDigest();
  void add(std::span<const std::byte> bytes);
  /// 32 hexadecimal digits, of all bytes so far.
  std::string text() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

/// Of a whole regular file. RunError when it cannot be read, or becomes shorter meanwhile.
std::string digest_of_file(const std::filesystem::path& path);

}  // namespace flow
