// Where the batch axis of an operand lies in a result.
#include "ops/core/axes.h"

#include <catch2/catch.hpp>

namespace flow::ops {

TEST_CASE("a reshape keeps the batch axis where it is still divided into rows", "[ops]") {
  CHECK(reshaped_batch({6, 2}, 0, {6, 2, 1}, 6) == 0);
  CHECK(reshaped_batch({6, 2}, 0, {12}, 6) == 0);
  CHECK(reshaped_batch({6, 2}, 0, {3, 4}, 6) == kBatchReduced);
  CHECK(reshaped_batch({2, 6}, 1, {2, 3, 2}, 3) == 1);
  CHECK(reshaped_batch({2, 6}, kNoBatch, {12}, 3) == kNoBatch);
  CHECK(reshaped_batch({2, 6}, kBatchReduced, {12}, 3) == kBatchReduced);
}

TEST_CASE("an axis that is not a multiple of the batch counts as rows of its own", "[ops]") {
  CHECK(reshaped_batch({6, 2}, 0, {4, 3}, 4) == kBatchReduced);
  CHECK(reshaped_batch({6, 2}, 0, {12, 1}, 4) == 0);
  CHECK(reshaped_batch({6, 2}, 0, {6, 2}, 0) == 0);
}

}  // namespace flow::ops
