// Reductions to one number that go on from what another one held.
#include "runtime/io/reduction.h"

#include <catch2/catch.hpp>
#include <limits>

#include "runtime/base/error.h"
#include "tests/unit/io/sink_case.h"

namespace flow::io {
namespace {

TEST_CASE("a reduction goes on from what another one held, to the bit", "[io]") {
  constexpr auto kMost = std::numeric_limits<int64_t>::max();
  const Array numbers = floats({0.1F, -3, 1e30F}), more = floats({1e-30F, -1e30F});
  const Array whole = array_of<int64_t>({2}, {kMost, -7}), rest = array_of<int64_t>({1}, {9});
  using plan::Reduce;
  for (const Reduce kind : {Reduce::kMean, Reduce::kSum, Reduce::kMin, Reduce::kMax, Reduce::kNorm})
    for (const auto& [first, second] : {std::pair(&numbers, &more), std::pair(&whole, &rest)}) {
      Reduction all(kind, first->dtype()), begun(kind, first->dtype()),
          resumed(kind, first->dtype());
      all.add(first->view());
      all.add(second->view());
      begun.add(first->view());
      resumed.resume(begun.held());
      resumed.add(second->view());
      CHECK(resumed.held() == all.held());
      CHECK(std::ranges::equal(resumed.result(1).bytes(), all.result(1).bytes()));
    }
}

TEST_CASE("a reduction goes on from nothing else", "[io]") {
  Reduction sum(plan::Reduce::kSum, DType::kFloat32);
  CHECK_THROWS_AS(sum.resume({}), RequestError);
  std::vector<uint64_t> held = sum.held();
  held.push_back(0);
  CHECK_THROWS_AS(sum.resume(held), RequestError);
}

}  // namespace
}  // namespace flow::io
