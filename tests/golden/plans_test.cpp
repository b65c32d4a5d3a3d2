// The plans of the jobs in jobs/, byte for byte: what a change to the compiler does to them shows
// in the diff. FLOW_REBASE=1 in the environment rewrites them.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/plan/serialize.h"

using namespace flow;

TEST_CASE("the jobs compile to the plans that are kept, whatever directory they lie in") {
  const char* rebase = ::getenv("FLOW_REBASE");
  for (const std::string name : {"lenet", "mlp"}) {
    CompileRequest request;
    request.file = name + ".yaml";
    CompileResult result =
        compile_text(request, read_text(fs::path(FLOW_SOURCE_DIR) / "jobs" / (name + ".yaml")));
    INFO(result.messages);
    REQUIRE(result.plan);
    result.plan->root.clear();
    const std::string text = plan::to_json(*result.plan);
    const fs::path golden = fs::path(FLOW_SOURCE_DIR) / "tests/golden/plans" / (name + ".plan");
    if (rebase && std::string_view(rebase) == "1")
      write_text_atomically(golden, text);
    else
      CHECK(text == read_text(golden));
  }
}
