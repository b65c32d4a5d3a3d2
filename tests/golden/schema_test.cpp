// The schemas in schemas/ are those that the tables make. FLOW_REBASE=1 in the environment rewrites
// them.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "compiler/schema/schema.h"
#include "runtime/base/file.h"
#include "tests/support/source_files.h"

using namespace flow;

TEST_CASE("the schemas are fresh", "[golden]") {
  const char* rebase = ::getenv("FLOW_REBASE");
  for (const auto& [name, schema] :
       {std::pair{"job", job_schema()}, std::pair{"plan", plan_schema()}}) {
    const fs::path path = test::source_path("schemas") / (std::string(name) + ".schema.json");
    if (rebase && std::string_view(rebase) == "1")
      write_text_atomically(path, schema);
    else
      CHECK(read_text(path) == schema);
  }
}
