// Names that are safe as paths.
#include "runtime/base/names.h"

#include <catch2/catch.hpp>

using namespace flow;

TEST_CASE("names that would leave their folder are not safe", "[base]") {
  for (const char* name : {"loss", "lenet/conv1/weight", "w:diff.1", "drop.mask", "blocks/0/x"})
    CHECK(is_safe_name(name));
  for (const char* name :
       {"", "/", "/a", "a/", "a//b", "..", "a/../b", "a/.b", ".", "a b", "a\\b", "\xc3\xa4"})
    CHECK_FALSE(is_safe_name(name));
  for (const char* key : {"a", "a b", "...", "\xc3\xa4", ".a"}) CHECK(is_safe_key(key));
  for (const char* key : {"", ".", "..", "a/b", "/"}) CHECK_FALSE(is_safe_key(key));
  CHECK_FALSE(is_safe_key(std::string("a\0b", 3)));
}
