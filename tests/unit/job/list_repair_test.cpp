// Mappings that are written as lists.
#include <catch2/catch.hpp>

#include "compiler/job/read/sections.h"
#include "tests/unit/job/reading.h"

namespace flow::job {
namespace {

std::string variables(int count) {
  std::string text = "vars:\n";
  for (int i = 0; i < count; ++i)
    text += "  - v" + std::to_string(i) + ": " + std::to_string(i) + "\n";
  return text;
}

}  // namespace

TEST_CASE("the items of a list become the mapping that was meant, however many they are", "[job]") {
  Reading reading(variables(20'000));
  remove_dashes(reading.reader, reading.tree);
  CHECK(reading.diags.error_count() == 1);
  CHECK(reading.says("write the entries without dashes"));
  const yaml::Node& made = *reading.tree.find("vars");
  REQUIRE(made.is_mapping());
  CHECK(made.entries.size() == 20'000);
  CHECK(made.items.empty());
  CHECK(made.entries.back().key == "v19999");
  CHECK(made.entries.back().value.scalar == "19999");
}

TEST_CASE("a list of items that have a key in common stays one", "[job]") {
  Reading reading(variables(3) + "  - v1: 7\n");
  remove_dashes(reading.reader, reading.tree);
  CHECK(reading.diags.error_count() == 0);
  CHECK(reading.tree.find("vars")->is_list());
}

}  // namespace flow::job
