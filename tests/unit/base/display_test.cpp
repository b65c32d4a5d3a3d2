// What must not reach a terminal as it is.
#include "runtime/base/display.h"

#include <catch2/catch.hpp>

#include "runtime/plan/json/json.h"

namespace flow {
namespace {

TEST_CASE("control characters and those that reorder text are escaped, all else stays", "[base]") {
  CHECK(escaped("a\x1b\n\t\u007f\u009b\u202e\u061c\ufffe\xff") ==
        "a\\x1b\\n\\t\\u007f\\u009b\\u202e\\u061c\\ufffe\\xff");
  const std::string plain = "path/to caf\u00e9 \u4e2d\u6587 \U0001F600 \\ \" '";
  CHECK(escaped(plain) == plain);
  CHECK(escaped(escaped("\x1b\u202e")) == escaped("\x1b\u202e"));
}

TEST_CASE("the lines of a text stay, and of a message those of its lists only", "[base]") {
  CHECK(escaped_lines("a\x1b\n\nb\n") == "a\\x1b\n\nb\n");
  CHECK(escaped_message("differs:\n  a\n  b\nerror: forged\n") ==
        "differs:\n  a\n  b\\nerror: forged\\n");
}

TEST_CASE("JSON that is escaped is the same JSON", "[base]") {
  const Json json = {{"name\u009b", "\x1b\u007f\u202e\n\u00e9"}};
  CHECK(Json::parse(escaped_lines(json.dump(2))) == json);
}

}  // namespace
}  // namespace flow
