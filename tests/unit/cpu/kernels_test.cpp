// Which ops have kernels.
#include <catch2/catch.hpp>
#include <set>
#include <string_view>

#include "ops/core/spec.h"
#include "runtime/cpu/kernel.h"

namespace flow::cpu {

TEST_CASE("each primitive has a fast kernel and a reference kernel, and no other op has", "[cpu]") {
  std::set<std::string_view> primitives;
  for (const ops::OpSpec* spec : ops::all_specs())
    if (spec->infer && !spec->dropped) primitives.insert(spec->name);
  for (const auto& kernels : {fast_kernels(), reference_kernels()}) {
    std::set<std::string_view> computed;
    for (const KernelEntry& entry : kernels) {
      INFO(entry.op);
      CHECK(computed.insert(entry.op).second);
    }
    CHECK(primitives == computed);
  }
}

}  // namespace flow::cpu
