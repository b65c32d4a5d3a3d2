// Digests, against published answers.
#include "runtime/base/digest.h"

#include <catch2/catch.hpp>

namespace flow {
namespace {

TEST_CASE("digests are FNV-1a's, in digits", "[base]") {
  CHECK(fnv1a64("") == 0xcbf29ce484222325);
  CHECK(fnv1a64("foobar") == 0x85944171f73967e8);
  CHECK(fnv1a64("bar", fnv1a64("foo")) == fnv1a64("foobar"));
  CHECK(digest("a") == "af63dc4c8601ec8c");
  CHECK(digest(std::string_view("\0", 1)) == "af63bd4c8601b7df");
}

}  // namespace
}  // namespace flow
