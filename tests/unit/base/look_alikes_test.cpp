// What typographic characters become.
#include "runtime/base/display.h"

#include <catch2/catch.hpp>

namespace flow {
namespace {

TEST_CASE("typographic characters become the ASCII that they look like", "[base]") {
  CHECK(with_ascii_punctuation("\u201Ca\u201D \u2018b\u2019 1e\u22123 2\u20133 4 \u00D7 5") ==
        "\"a\" 'b' 1e-3 2-3 4 * 5");
  CHECK(with_ascii_punctuation("key\uFF1A\uFF11") == "key:1");
  CHECK(with_ascii_punctuation("caf\u00E9 \u4E2D") == "caf\u00E9 \u4E2D");
  CHECK(with_ascii_punctuation("a\xE2\x80") == "a\xE2\x80");
}

}  // namespace
}  // namespace flow
