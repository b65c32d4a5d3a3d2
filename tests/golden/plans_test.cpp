// The plans of the jobs in jobs/, byte for byte: what a change to the compiler does to them shows
// in the diff. FLOW_REBASE=1 in the environment rewrites them.
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/compile.h"
#include "runtime/base/file.h"
#include "runtime/plan/serialize.h"
#include "tests/support/source_files.h"

using namespace flow;

TEST_CASE("the jobs compile to the plans that are kept, whatever directory they lie in",
          "[golden]") {
  const char* rebase = ::getenv("FLOW_REBASE");
  struct Kept {
    std::string plan, job;
    std::vector<std::string> sets = {};
  };
  const std::vector<Kept> kept = {
      {"lenet", "lenet"},
      {"lenet_mixed", "lenet", {"+jobs.train.precision=mixed_bfloat16"}},
      {"mlp", "mlp"},
      {"mlp_placed", "mlp", {"+networks.mlp.graph.hidden.placement={device: gpu}"}},
      {"mlp_scaled",
       "mlp",
       {"+jobs.train.precision=mixed_float16", "+jobs.train.optimizer.loss_scale={type: dynamic}"}},
  };
  for (const Kept& one : kept) {
    CompileRequest request;
    request.file = one.job + ".yaml";
    request.sets = one.sets;
    CompileResult result =
        compile_text(request, read_text(test::source_path("jobs") / (one.job + ".yaml")));
    INFO(result.messages);
    REQUIRE(result.plan);
    result.plan->root.clear();
    const std::string text = plan::to_json(*result.plan);
    const fs::path golden = test::source_path("tests/golden/plans") / (one.plan + ".plan");
    if (rebase && std::string_view(rebase) == "1")
      write_text_atomically(golden, text);
    else
      CHECK(text == read_text(golden));
  }
}
