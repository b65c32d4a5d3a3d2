// Copies between devices: which values, where, and where none are needed.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/graph_maker.h"

namespace flow::test {
namespace {

using ir::ValueId;
using plan::DeviceKind;

/// The nodes' names, with what runs each.
std::string placed(const GraphMaker& maker) {
  std::string text;
  for (const ir::Node& node : maker.graph.nodes)
    text +=
        fmt::format("{}{} {}; ", node.probe ? "tap " : "", plan::name_of(node.device), node.name);
  return text;
}

ValueId add_on(GraphMaker& maker, DeviceKind device, std::string_view op, const std::string& name,
               std::vector<ValueId> operands) {
  maker.builder.place_on(device);
  return maker.add(op, name, std::move(operands));
}

constexpr DeviceKind kCpu = DeviceKind::kCpu, kGpu = DeviceKind::kGpu;

}  // namespace

TEST_CASE("a value that the other device reads is copied there once, as soon as it is made",
          "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4, 3});
  const ValueId a = add_on(maker, kCpu, "relu", "a", {x});
  const ValueId b = add_on(maker, kCpu, "tanh", "b", {x});
  const ValueId c = add_on(maker, kGpu, "multiply", "c", {a, a});
  const ValueId d = add_on(maker, kGpu, "add", "d", {c, a});
  const ValueId e = add_on(maker, kCpu, "add", "e", {d, b});
  maker.graph.results = {e};
  maker.run_passes("place_devices");
  CHECK(placed(maker) == "cpu a; gpu a:gpu; cpu b; gpu c; gpu d; cpu d:cpu; cpu e; ");
  CHECK_THAT(maker.nodes(),
             Catch::Contains("c = multiply(a:gpu, a:gpu): float32[4, 3] rows=0 on gpu"));
  CHECK_THAT(maker.nodes(), Catch::Contains("e = add(d:cpu, b): float32[4, 3] rows=0\n"));
}

TEST_CASE("an input lies where it is read, and on the CPU where both read it", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4}), y = maker.input("y", {4}), z = maker.input("z", {4});
  const ValueId a = add_on(maker, kGpu, "add", "a", {x, y});
  const ValueId b = add_on(maker, kCpu, "relu", "b", {y});
  maker.graph.results = {a, b, z};
  maker.run_passes("place_devices");
  CHECK(placed(maker) == "gpu y:gpu; gpu a; cpu b; ");
  CHECK(maker.graph[x].device == kGpu);
  CHECK(maker.graph[y].device == kCpu);
  CHECK(maker.graph[z].device == kCpu);
}

TEST_CASE("where all is placed on one device, that is the job's", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4});
  maker.graph.results = {add_on(maker, kGpu, "relu", "a", {x})};
  maker.run_passes("place_devices");
  CHECK(placed(maker) == "gpu a; ");
  CHECK(maker.graph.device == kGpu);
  CHECK(maker.graph[x].device == kGpu);
}

TEST_CASE("hooks alone have taps copied, and move nothing else", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4});
  const ValueId a = add_on(maker, kCpu, "relu", "a", {x});
  const ValueId seen = add_on(maker, kGpu, "tanh", "seen", {a});
  const ValueId b = add_on(maker, kGpu, "relu", "b", {add_on(maker, kCpu, "relu", "c", {a})});
  maker.graph.results = {b};
  maker.graph.watched = {seen};
  maker.run_passes("place_devices");
  CHECK(placed(maker) == "cpu a; tap gpu a:gpu; tap gpu seen; cpu c; gpu c:gpu; gpu b; ");
}

TEST_CASE("a hook on the other device reads a value that an epilogue replaces", "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {4, 3}), w = maker.variable("w", {3, 5});
  const ValueId product = add_on(maker, kCpu, "matmul", "product", {x, w});
  const ValueId y = add_on(maker, kCpu, "relu", "y", {product});
  const ValueId seen = add_on(maker, kGpu, "tanh", "seen", {product});
  maker.graph.results = {y};
  maker.graph.watched = {seen};
  maker.run_passes("place_devices");
  CHECK_THAT(placed(maker), Catch::Contains("tap gpu product:gpu; tap gpu seen; "));
}

TEST_CASE("gradients are made where the forward op runs, and updates where the variable lies",
          "[passes]") {
  GraphMaker maker;
  const ValueId x = maker.input("x", {8, 4});
  const auto dense = [&](DeviceKind device, const std::string& name, ValueId in) {
    maker.builder.place_on(device);
    return maker.layer("dense", name, in,
                       {{"units", int64_t{4}}, {"activation", std::string("relu")}});
  };
  maker.minimize(dense(kCpu, "c", dense(kGpu, "b", dense(kCpu, "a", x))));
  maker.run_passes("place_devices");
  for (const ir::Node& node : maker.graph.nodes) {
    INFO(node.name);
    const bool copy = node.op->name == "copy";
    for (const ValueId operand : node.operands)
      CHECK((maker.graph[operand].device == node.device) != copy);
    // The gradient of what the other device made is made here.
    if (!copy && !node.name.ends_with("/relu:diff"))
      CHECK((node.device == kGpu) == node.name.starts_with("b/"));
  }
  for (const ir::Variable& variable : maker.graph.variables)
    CHECK(maker.graph[variable.value].device == maker.graph[variable.updated].device);
  // Forward and back, and nothing else.
  CHECK(std::ranges::count_if(maker.graph.nodes,
                              [](const ir::Node& node) { return node.op->name == "copy"; }) == 4);
}

}  // namespace flow::test
