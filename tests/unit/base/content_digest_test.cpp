// Digests of contents, against published answers.
#include "runtime/base/digest.h"

#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "tests/support/fresh_directory.h"

namespace flow {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_CASE("the digest of contents is XXH3's in 128 bits, whatever the pieces", "[base]") {
  ContentDigest digest;
  CHECK(digest.text() == "99aa06d3014798d86001c324468d497f");  // xxhsum -H2 of nothing
  for (const char* piece : {"one ", "", "two ", "three"}) digest.add(bytes_of(piece));
  ContentDigest whole;
  whole.add(bytes_of("one two three"));
  CHECK(digest.text() == whole.text());
}

TEST_CASE("a digest sees a change in the middle and in the last block of a large file", "[base]") {
  const FreshDirectory home;
  std::string text(3 << 20, 'a');
  const auto digest = [&] {
    write_text_atomically(home / "x", text);
    return digest_of_file(home / "x");
  };
  const std::string before = digest();
  CHECK(digest() == before);
  for (const size_t at : {size_t{0}, text.size() / 2 + 1, text.size() - 5000, text.size() - 1}) {
    text[at] = 'b';
    CHECK(digest() != before);
    text[at] = 'a';
  }
  CHECK_THROWS_AS(digest_of_file(home / "none"), RunError);
}

}  // namespace
}  // namespace flow
