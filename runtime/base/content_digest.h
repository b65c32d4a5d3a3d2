// Fast digests of file contents: they detect damage and change, not forgery.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

struct XXH3_state_s;

namespace flow {

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
