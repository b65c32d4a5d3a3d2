// Gradients of one product or convolution on two branches of a graph.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/job_builder.h"
#include "tests/unit/job/compiled.h"

namespace flow::test {
namespace {

/// Calls of the driver from the first capture to its end.
std::vector<std::string> captured(const plan::Job& job) {
  FakeGpu gpu;
  std::vector<std::string> calls;
  {
    const auto program = gpu.backend->prepare(job, {});
    const std::vector<std::string>& all = gpu.driver->calls();
    const auto begin = std::ranges::find_if(
        all, [](const std::string& line) { return line.starts_with("capture stream"); });
    const auto end = std::find_if(
        begin, all.end(), [](const std::string& line) { return line.starts_with("end capture"); });
    calls.assign(begin, end);
  }
  CHECK(gpu.driver->problems().empty());
  return calls;
}

std::vector<std::string> with(const std::vector<std::string>& calls, std::string_view text) {
  std::vector<std::string> found;
  std::ranges::copy_if(calls, std::back_inserter(found), [=](const std::string& line) {
    return line.find(text) != std::string::npos;
  });
  return found;
}

}  // namespace

TEST_CASE("gradients of weights run beside those of data", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {4, 3}), dy = b.input("dy", {4, 2}), w = b.variable("w", {2, 3});
  b.step("matmul", "dx", {dy, w}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 3});
  b.step("matmul", "dw", {dy, x}, {{"transpose_a", true}, {"transpose_b", false}}, {2, 3});
  const std::vector<std::string> calls = captured(b.build());
  const std::string main = calls.front().substr(calls.front().find("stream"));
  const auto first = std::ranges::find(calls, "captured launch naive_matmul " + main);
  REQUIRE(first - calls.begin() > 0);
  REQUIRE(calls.end() - first > 4);
  // One starts when the other does, and what follows waits for both.
  CHECK(*(first - 1) == "captured record " + main);
  CHECK((first + 1)->starts_with("captured wait stream "));
  const std::string branch = (first + 1)->substr((first + 1)->find("stream"));
  CHECK(branch != main);
  CHECK(*(first + 2) == "captured launch naive_matmul " + branch);
  CHECK(*(first + 3) == "captured record " + branch);
  CHECK(*(first + 4) == "captured wait " + main);
}

TEST_CASE("so they do in each shard", "[cuda]") {
  const plan::Plan plan = plan_of(R"(flow: 1
jobs:
  train:
    type: train
    shards: 2
    inputs: {x: {shape: [4, 3], dtype: float32}}
    graph:
      a: {op: dense, in: x, units: 5}
      b: {op: dense, in: a, units: 2}
      loss: {op: square, in: b}
    optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}
)");
  // Gradients of b's weight and of a, of each shard.
  const std::vector<std::string> calls = captured(plan.jobs[0]);
  const std::string main = calls.front().substr(calls.front().find("stream"));
  const auto products = with(calls, "captured launch naive_matmul");
  const auto aside = std::ranges::count_if(
      products, [&](const std::string& line) { return !line.ends_with(main); });
  CHECK(aside == 1);
}

TEST_CASE("a product that reads another's result has no branch", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {4, 3}), w = b.variable("w", {2, 3});
  const auto y =
      b.step("matmul", "y", {x, w}, {{"transpose_a", false}, {"transpose_b", true}}, {4, 2});
  b.step("matmul", "z", {y, w}, {{"transpose_a", false}, {"transpose_b", false}}, {4, 3});
  const std::vector<std::string> calls = captured(b.build());  // z reads what y makes
  CHECK(with(calls, "launch naive_matmul").size() == 2);
  CHECK(with(calls, "wait").empty());
}

}  // namespace flow::test
