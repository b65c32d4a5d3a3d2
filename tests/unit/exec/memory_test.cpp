// Who shares memory with whom.
#include "runtime/exec/memory.h"

#include <catch2/catch.hpp>

#include "tests/support/job_builder.h"

namespace flow::exec {
namespace {

using test::JobBuilder;

TEST_CASE("a view shares memory that is read later, and nobody writes over both") {
  for (const bool read_later : {true, false}) {
    JobBuilder b;
    const auto g = b.input("g", {4});
    const auto x = b.step("scale", "x", {g}, {{"factor", 2.0}}, {4});
    const auto view = b.step("reshape", "view", {x}, {}, {2, 2}, DType::kFloat32, x);
    const auto relu = b.step("relu", "relu", {view}, {}, {2, 2}, DType::kFloat32, view);
    if (read_later) b.step("scale", "later", {x}, {{"factor", 3.0}}, {4});
    const auto owners =
        share_memory(b.build(), [](plan::TensorId, plan::TensorId) { return true; });
    CHECK(owners[view.index()] == x);
    CHECK(owners[relu.index()] == (read_later ? relu : x));
  }
}

}  // namespace
}  // namespace flow::exec
