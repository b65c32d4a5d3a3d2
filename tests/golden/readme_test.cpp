// The README's table of ops is the table of ops. FLOW_REBASE=1 in the environment rewrites it.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

#include "compiler/ops/describe.h"
#include "runtime/base/file.h"

using namespace flow;

TEST_CASE("the README's table of ops is fresh", "[golden]") {
  const fs::path readme = fs::path(FLOW_SOURCE_DIR) / "README.md";
  const std::string text = read_text(readme);
  constexpr std::string_view kBegin = "| op | operands | attributes", kEnd = "\n## Figures";
  const size_t begin = text.find(kBegin), end = text.find(kEnd, begin);
  REQUIRE(begin != std::string::npos);
  REQUIRE(end != std::string::npos);
  const char* rebase = ::getenv("FLOW_REBASE");
  if (rebase && std::string_view(rebase) == "1")
    write_text_atomically(readme, text.substr(0, begin) + ops_table() + text.substr(end));
  else
    CHECK(text.substr(begin, end - begin) == ops_table());
}
