// The small sorted map of attributes.
#include "ops/core/attributes.h"

#include <catch2/catch.hpp>

using namespace flow;
using namespace flow::ops;

TEST_CASE("attributes are sorted by name, and setting one again replaces it", "[ops]") {
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
