// Boxes and links of a job, and where they are drawn.
#include "cli/show/picture.h"

#include <catch2/catch.hpp>

#include "cli/show/job_tree.h"
#include "tests/unit/plan/sample.h"

namespace flow::cli {
namespace {

using plan::sample::JobBuilder;

/// x -> net (a -> b -> c, and a -> c) -> out, which reads x, too.
plan::Job around() {
  JobBuilder made("around");
  const plan::TensorId x = made.input("x", DType::kFloat32, {4});
  const plan::TensorId a = made.one("relu", "net/a", {x});
  const plan::TensorId b = made.one("exp", "net/b", {a});
  const plan::TensorId c = made.one("add", "net/c", {b, a});
  made.one("add", "out", {c, x});
  for (plan::Step& step : made.job.steps) step.where = step.name;  // not of one layer
  return made.done();
}

Picture picture(const plan::Job& job, PictureOptions options = {}) {
  return picture_of(job, tree_of(job, entries_of_plan(job)), options);
}

size_t box_of(const Picture& picture, const std::string& name) {
  for (size_t i = 1; i < picture.boxes.size(); ++i)
    if (picture.boxes[i].lines[0] == name) return i;
  FAIL("no box " << name);
  return 0;
}

TEST_CASE("a network is a box around its entries", "[cli]") {
  const Picture made = picture(around());
  const size_t net = box_of(made, "net");
  CHECK(made.boxes[net].look == Look::kNetwork);
  CHECK(made.boxes[net].inside.size() == 3);
  CHECK(made.boxes[box_of(made, "b")].parent == net);
  CHECK(made.boxes[box_of(made, "x")].look == Look::kInput);
  CHECK(made.boxes[box_of(made, "out")].parent == 0);
  CHECK(made.links.size() == 6);
}

TEST_CASE("boxes lie in those around them, and readers below what they read", "[cli]") {
  const Picture made = picture(around());
  const Placed placed = place(made);
  for (size_t i = 1; i < made.boxes.size(); ++i) {
    const Placed::Rectangle &box = placed.boxes[i], &outer = placed.boxes[made.boxes[i].parent];
    CHECK(box.x >= outer.x);
    CHECK(box.y > outer.y);
    CHECK(box.x + box.width <= outer.x + outer.width);
    CHECK(box.y + box.height <= outer.y + outer.height);
  }
  for (const Link& link : made.links)
    if (made.boxes[link.from].parent == made.boxes[link.to].parent)
      CHECK(placed.boxes[link.from].y + placed.boxes[link.from].height < placed.boxes[link.to].y);
}

TEST_CASE("boxes do not overlap", "[cli]") {
  JobBuilder made("fan");
  const plan::TensorId x = made.input("x", DType::kFloat32, {4});
  std::vector<plan::TensorId> wide;
  for (int i = 0; i < 12; ++i) wide.push_back(made.one("relu", "w" + std::to_string(i), {x}));
  for (int i = 0; i + 1 < 12; i += 2)
    made.one("add", "s" + std::to_string(i), {wide[11 - static_cast<size_t>(i)], wide[1]});
  const Picture drawn = picture(made.done());
  const Placed placed = place(drawn);
  for (size_t i = 1; i < drawn.boxes.size(); ++i)
    for (size_t j = i + 1; j < drawn.boxes.size(); ++j) {
      const Placed::Rectangle &a = placed.boxes[i], &b = placed.boxes[j];
      const bool apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y ||
                         b.y + b.height <= a.y;
      CHECK(apart);
    }
}

TEST_CASE("networks that read each other in turn are drawn", "[cli]") {
  JobBuilder made("turns");
  plan::TensorId x = made.input("x", DType::kFloat32, {4});
  for (int i = 0; i < 6; ++i)
    x = made.one("relu", (i % 2 ? "b/e" : "a/e") + std::to_string(i), {x});
  const Picture drawn = picture(made.done());
  CHECK(to_svg(drawn).ends_with("</svg>\n"));
  CHECK(to_dot(drawn).ends_with("}\n"));
}

TEST_CASE("hooks and gradients are drawn where they are asked for", "[cli]") {
  plan::Plan plan = plan::sample::full_plan();
  const plan::Job& job = plan.jobs[0];
  const auto hooks = [](const Picture& made) {
    return std::ranges::count(made.boxes, Look::kHook, &Box::look);
  };
  CHECK(hooks(picture(job)) == 0);
  CHECK(hooks(picture(job, {.hooks = true})) > 0);
  CHECK(to_svg(picture(job)).find("class=\"gradient\"") == std::string::npos);
}

}  // namespace
}  // namespace flow::cli
