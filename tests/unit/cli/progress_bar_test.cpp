// The progress bar's line at every width.
#include "cli/flowrun/progress_bar.h"

#include <catch2/catch.hpp>

namespace flow::cli {
namespace {

const exec::Progress kHalf{300, 600, 0, 0.74411, 15};

TEST_CASE("a bar says how far it is, how fast, how well and how long still", "[cli]") {
  CHECK(bar_text("train", kHalf, 0, 80) ==
        "train [=============              ] 300/600  20 steps/s  loss 0.7441  15 s left");
  CHECK(bar_text("train", {7, 600, 0, {}, 1.75}, 0, 64) ==
        "train [                   ]   7/600  4 steps/s  2 min 28 s left");
}

TEST_CASE("where columns are few, what matters least is left out, and no line is too long",
          "[cli]") {
  CHECK(bar_text("train", kHalf, 0, 40) == "train 300/600  loss 0.7441  15 s left");
  CHECK(bar_text("train", kHalf, 0, 30) == "train 300/600  loss 0.7441");
  CHECK(bar_text("train", kHalf, 0, 26) == "train [====     ] 300/600");
  CHECK(bar_text("train", kHalf, 0, 10) == "train 300");
  for (int width = 0; width < 200; ++width)
    CHECK(static_cast<int>(bar_text("train", kHalf, 0, width).size()) <= std::max(0, width - 1));
}

TEST_CASE("a bar's speed is this run's, in words that fit it", "[cli]") {
  CHECK(bar_text("t", {550, 600, 0, {}, 10}, 500, 40).ends_with("550/600  5 steps/s  10 s left"));
  CHECK(bar_text("t", {50000, 60000, 0, {}, 10}, 0, 44)
            .ends_with("50000/60000  5000 steps/s  2.0 s left"));
  CHECK(bar_text("t", {2, 6, 0, {}, 25}, 0, 40).ends_with("2/6  13 s per step  50 s left"));
}

TEST_CASE("without a terminal there is a line of progress after each 30 s, and none before",
          "[cli]") {
  std::string told;
  ProgressBar bar(ProgressBar::Style::kLines, "train",
                  [&](const std::string& text) { told += text; });
  bar.begin();
  const auto shown_at = [&](int64_t step, double seconds) {
    told.clear();
    bar.show({step, 600, 0, 0.74411, seconds});
    bar.clear();
    return told;
  };
  CHECK(shown_at(1, 0.1).empty());
  CHECK(shown_at(149, 29.9).empty());
  CHECK(shown_at(150, 30) == "flowrun: train 150/600  5 steps/s  loss 0.7441  1 min 30 s left\n");
  CHECK(shown_at(299, 59.9).empty());
  CHECK(shown_at(300, 100) == "flowrun: train 300/600  3 steps/s  loss 0.7441  1 min 40 s left\n");
  CHECK(shown_at(400, 129).empty());
  CHECK_FALSE(shown_at(401, 131).empty());
  CHECK(shown_at(600, 132).empty());  // what ends is told otherwise
}

TEST_CASE("a run of which no progress is wanted shows none, however long it takes", "[cli]") {
  std::string told;
  ProgressBar bar(ProgressBar::Style::kSilent, "train",
                  [&](const std::string& text) { told += text; });
  bar.show({300, 600, 0, 0.74411, 1000});
  CHECK(told.empty());
}

TEST_CASE("a bar says in which epoch it is", "[cli]") {
  const exec::Progress second{300, 600, 1, 0.74411, 15, 4};
  CHECK(bar_text("train", second, 0, 80)
            .ends_with("] 300/600  epoch 2/4  20 steps/s  loss 0.7441  15 s left"));
  CHECK(bar_text("train", second, 0, 55) == "train 300/600  epoch 2/4  loss 0.7441  15 s left");
  CHECK(bar_text("train", second, 0, 40) == "train 300/600  loss 0.7441  15 s left");
}

TEST_CASE("a bar is a line below the cursor, and goes with other text and its owner", "[cli]") {
  std::string told;
  {
    ProgressBar bar(ProgressBar::Style::kBar, "train",
                    [&](const std::string& text) { told += text; });
    bar.begin();
    CHECK(told == "\r\033[J\ntrain  starting\033[A\r");
    told.clear();
    bar.write_above([&] { told += "line\n"; });
    CHECK(told == "\r\033[Jline\n\r\033[J\ntrain  starting\033[A\r");
    told.clear();
  }
  CHECK(told == "\r\033[J");
}

TEST_CASE("a stream has no end to show", "[cli]") {
  CHECK(bar_text("look", {42, 0, 0, {}, 21}, 0, 80) == "look 42  2 steps/s");
}

}  // namespace
}  // namespace flow::cli
