// The progress bar's line at every width.
#include "cli/progress_bar.h"

#include <catch2/catch.hpp>

namespace flow::cli {
namespace {

const exec::Progress kHalf{300, 600, 0, 0.74411, 15};

TEST_CASE("a bar says how far it is, how fast, how well and how long still") {
  CHECK(bar_text("train", kHalf, 0, 80) ==
        "train [=============              ] 300/600  20 steps/s  loss 0.7441  15 s left");
  CHECK(bar_text("train", {7, 600, 0, {}, 1.75}, 0, 64) ==
        "train [                   ]   7/600  4 steps/s  2 min 28 s left");
}

TEST_CASE("where columns are few, what matters least is left out, and no line is too long") {
  CHECK(bar_text("train", kHalf, 0, 40) == "train 300/600  loss 0.7441  15 s left");
  CHECK(bar_text("train", kHalf, 0, 30) == "train 300/600  loss 0.7441");
  CHECK(bar_text("train", kHalf, 0, 26) == "train [====     ] 300/600");
  CHECK(bar_text("train", kHalf, 0, 10) == "train 300");
  for (int width = 0; width < 200; ++width)
    CHECK(static_cast<int>(bar_text("train", kHalf, 0, width).size()) <= std::max(0, width - 1));
}

TEST_CASE("a bar's speed is this run's, in words that fit it") {
  CHECK(bar_text("t", {550, 600, 0, {}, 10}, 500, 40).ends_with("550/600  5 steps/s  10 s left"));
  CHECK(bar_text("t", {50000, 60000, 0, {}, 10}, 0, 44)
            .ends_with("50000/60000  5000 steps/s  2.0 s left"));
  CHECK(bar_text("t", {2, 6, 0, {}, 25}, 0, 40).ends_with("2/6  13 s a step  50 s left"));
}

TEST_CASE("a stream has no end to show") {
  CHECK(bar_text("look", {42, 0, 0, {}, 21}, 0, 80) == "look 42  2 steps/s");
}

}  // namespace
}  // namespace flow::cli
