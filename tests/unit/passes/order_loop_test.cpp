// Where the states of a loop are written.
#include <algorithm>
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tests/unit/job/compiled.h"

namespace flow {
namespace {

/// The steps of a loop: those before it, of a pass, and behind it.
std::vector<std::vector<std::string>> parts_of(const std::string& graph, const std::string& run) {
  const plan::Plan plan = plan_of(
      "flow: 1\njobs:\n  run:\n    type: predict\n    inputs:\n      x: {shape: [2, 3], dtype: "
      "float32}\n      n: {shape: [], dtype: int32, rows: false}\n    graph:\n" +
      graph + "    returns: {value: y}\n    run: {loop: " + run + "}\n");
  const plan::Job& job = plan.jobs.front();
  std::vector<std::vector<std::string>> parts(3);
  for (size_t i = 0; i < job.steps.size(); ++i)
    parts[(plan::StepId(i) >= job.loop->first) + (plan::StepId(i) >= job.loop->end)].push_back(
        job.steps[i].name);
  return parts;
}

bool copies(const std::vector<std::string>& steps, const std::string& state) {
  return std::ranges::find(steps, state + ":next") != steps.end();
}

TEST_CASE("what depends on no state runs once", "[passes]") {
  const auto parts = parts_of(
      "      once: {op: square, in: x}\n      y: {op: add, in: [x, once]}\n      n2: {op: add, in: "
      "[n, 1]}\n",
      "{feed: {n: n2}, steps: 3}");
  CHECK(std::ranges::count(parts[0], "once") == 1);
  CHECK(std::ranges::count(parts[0], "y") == 1);
  CHECK(std::ranges::count(parts[1], "n2") == 1);
}

TEST_CASE("each pass draws its own numbers, but for those that a state begins with", "[passes]") {
  const auto parts = parts_of(
      "      start: {op: random_normal, shape: [2, 3]}\n      z: {op: multiply, in: [start, 1]}\n"
      "      state: {op: constant, value: 0, shape: [2, 3]}\n      w: {op: add, in: [state, 1]}\n"
      "      noise: {op: random_normal, shape: [2, 3]}\n      y: {op: add, in: [x, noise]}\n",
      "{feed: {x: y, state: w}, first: {state: z}, steps: 3}");
  CHECK(std::ranges::count(parts[0], "start") == 1);
  for (const char* name : {"noise", "y"}) CHECK(std::ranges::count(parts[1], name) == 1);
}

TEST_CASE("a state is written in place where nothing reads it any more", "[passes]") {
  const std::string run = "{feed: {x: w}, steps: 3, last: [y]}";
  const std::string write =
      "      w: {op: scatter_update, in: x, indices: n, updates: row, axis: 1}\n";
  const std::string row = "      row: {op: reduce_sum, in: x, axis: 1}\n";
  CHECK_FALSE(copies(parts_of(row + write + "      y: {op: square, in: w}\n", run)[1], "x"));
  // The old value is read behind it.
  CHECK(copies(parts_of(row + write + "      y: {op: subtract, in: [w, x]}\n", run)[1], "x"));
}

TEST_CASE("a product is written onto the state that it does not read", "[passes]") {
  const std::string graph =
      "      old: {op: square, in: x}\n      z: {op: matmul, in: [old, eye]}\n      eye: {op: eye, "
      "rows: 3}\n      y: {op: relu, in: z}\n";
  CHECK_FALSE(copies(parts_of(graph, "{feed: {x: z}, steps: 3}")[1], "x"));
  const std::string reads =
      "      z: {op: matmul, in: [x, eye]}\n      eye: {op: eye, rows: 3}\n      y: {op: relu, in: "
      "z}\n";
  CHECK(copies(parts_of(reads, "{feed: {x: z}, steps: 3}")[1], "x"));
}

}  // namespace
}  // namespace flow
