// Epochs and batches.
#include "runtime/exec/input/source.h"

#include <catch2/catch.hpp>
#include <limits>

namespace flow::exec {
namespace {

TEST_CASE("a train job drops the incomplete batch", "[exec]") {
  const StepIndex step_index(10, 4, true);
  CHECK(step_index.steps_per_epoch() == 2);
  CHECK(step_index.incomplete_rows() == 2);
  CHECK_FALSE(step_index.pads());
  const Position third = step_index.at(2);
  CHECK(third.epoch == 1);
  CHECK(third.row == 0);
  CHECK(third.rows == 4);
  CHECK_FALSE(third.last_of_epoch);
  CHECK(step_index.at(3).last_of_epoch);
  CHECK(step_index.epochs_after(3) == 1);
  CHECK(step_index.epochs_after(4) == 2);
}

TEST_CASE("a predict job pads it and knows its real rows", "[exec]") {
  const StepIndex step_index(10, 4, false);
  CHECK(step_index.steps_per_epoch() == 3);
  CHECK(step_index.pads());
  CHECK(step_index.at(2).row == 8);
  CHECK(step_index.at(2).rows == 2);
  CHECK(step_index.at(2).last_of_epoch);
  CHECK(step_index.at(3).rows == 4);
}

TEST_CASE("without a dataset everything is epoch 0, which does not end", "[exec]") {
  const StepIndex step_index;
  CHECK_FALSE(step_index.has_rows());
  CHECK(step_index.at(1000).epoch == 0);
  CHECK_FALSE(step_index.at(1000).last_of_epoch);
}

TEST_CASE("epochs beyond counting end at the largest step", "[exec]") {
  CHECK(steps_of_epochs(20, 600) == 12000);
  CHECK(steps_of_epochs(int64_t{1} << 62, 600) == std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace flow::exec
