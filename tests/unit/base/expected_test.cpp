// A value or the error in its place.
#include "runtime/base/error.h"

#include <catch2/catch.hpp>
#include <string>

namespace flow {

TEST_CASE("Expected has a value, or throws the error that it has instead", "[base]") {
  Expected<std::string> there = std::string("value");
  REQUIRE(there);
  CHECK(*there == "value");
  CHECK(there->size() == 5);
  CHECK(std::move(there).value() == "value");

  Expected<std::string> missing = RunError("nothing here", "look elsewhere", 2);
  REQUIRE_FALSE(missing);
  CHECK(missing.error().hint() == "look elsewhere");
  CHECK_THROWS_WITH(std::move(missing).value(), "nothing here");
}

}  // namespace flow
