// The small sorted map of attributes, and names that are safe as paths.
#include "runtime/plan/attributes.h"

#include <catch2/catch.hpp>

#include "runtime/plan/names.h"

using namespace flow;
using namespace flow::plan;

TEST_CASE("attributes are sorted by name, and setting one again replaces it", "[plan]") {
  Attributes attributes;
  attributes.set("strides", std::vector<int64_t>{1, 2});
  attributes.set("axis", int64_t{1});
  attributes.set("rate", 0.5);
  attributes.set("axis", int64_t{2});
  std::string names;
  for (const auto& [name, value] : attributes) names += name + " ";
  CHECK(names == "axis rate strides ");
  CHECK(attributes.get<int64_t>("axis") == 2);
  CHECK(attributes.find("axes") == nullptr);
  CHECK_THROWS_AS(attributes.get<double>("axis"), Defect);
  CHECK_THROWS_AS(attributes.get<double>("none"), Defect);
}

TEST_CASE("names that would leave their folder are not safe", "[plan]") {
  for (const char* name : {"loss", "lenet/conv1/weight", "w:diff.1", "drop.mask", "blocks/0/x"})
    CHECK(is_safe_name(name));
  for (const char* name :
       {"", "/", "/a", "a/", "a//b", "..", "a/../b", "a/.b", ".", "a b", "a\\b", "\xc3\xa4"})
    CHECK_FALSE(is_safe_name(name));
  for (const char* key : {"a", "a b", "...", "\xc3\xa4", ".a"}) CHECK(is_safe_key(key));
  for (const char* key : {"", ".", "..", "a/b", "/"}) CHECK_FALSE(is_safe_key(key));
  CHECK_FALSE(is_safe_key(std::string("a\0b", 3)));
}
