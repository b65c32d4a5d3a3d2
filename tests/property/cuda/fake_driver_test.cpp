// The driver that tests use instead of CUDA's: order, capture, and what it finds fault with.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/threads.cuh"
#include "tests/support/cuda/fake_driver.h"

namespace flow::test {
namespace {

__global__ void add_to(int* x, int value) { *x += value; }

constexpr size_t kInt = sizeof(int);

/// A driver with a number on the device and one in pinned memory.
struct DriverRig {
  explicit DriverRig(Timing timing) : driver({LaneOrder::kForward, timing}) {
    *host = 5;
    driver.copy(device, host, kInt, stream);
  }
  ~DriverRig() {
    driver.release(reinterpret_cast<std::byte*>(device));
    driver.release_pinned(reinterpret_cast<std::byte*>(host));
    driver.destroy(stream);
    driver.destroy(other);
    driver.destroy(event);
  }
  void add(int value, cuda::Stream to) {
    cuda::launch(driver, to, "add_to", {{1}, {1}}, add_to, device, value);
  }
  int read() {
    int value = 0;
    driver.copy(&value, device, kInt, stream);
    return value;
  }

  FakeDriver driver;
  cuda::Stream stream = driver.create_stream(), other = driver.create_stream();
  cuda::Event event = driver.create_event();
  int* device = reinterpret_cast<int*>(driver.allocate(kInt));
  int* host = reinterpret_cast<int*>(driver.allocate_pinned(kInt));
};

}  // namespace

TEST_CASE("work is done in order, at once or when it is waited for", "[cuda]") {
  for (const Timing timing : {Timing::kEager, Timing::kLazy}) {
    DriverRig rig(timing);
    rig.add(2, rig.stream);
    rig.driver.copy(rig.host, rig.device, kInt, rig.stream);
    CHECK(*rig.host == (timing == Timing::kEager ? 7 : 5));
    rig.driver.synchronize(rig.stream);
    CHECK(*rig.host == 7);
    CHECK(rig.driver.count("launch add_to stream 1") == 1);
  }
}

TEST_CASE("a stream that waits for an event sees what came before it", "[cuda]") {
  DriverRig rig(Timing::kLazy);
  rig.driver.record(rig.event, rig.stream);
  rig.add(100, rig.stream);
  rig.driver.wait(rig.other, rig.event);
  rig.add(1, rig.other);
  rig.driver.copy(rig.host, rig.device, kInt, rig.other);
  rig.driver.synchronize(rig.other);
  CHECK(*rig.host == 6);
  CHECK(rig.read() == 106);
}

TEST_CASE("a captured graph keeps its arguments and runs as often as it is launched", "[cuda]") {
  for (const Timing timing : {Timing::kEager, Timing::kLazy}) {
    DriverRig rig(timing);
    rig.driver.begin_capture(rig.stream);
    rig.add(10, rig.stream);
    rig.driver.record(rig.event, rig.stream);
    rig.driver.wait(rig.other, rig.event);
    rig.add(20, rig.other);
    rig.driver.record(rig.event, rig.other);
    rig.driver.wait(rig.stream, rig.event);
    const cuda::Graph graph = rig.driver.end_capture(rig.stream);
    CHECK(rig.read() == 5);
    rig.driver.launch(graph, rig.stream);
    rig.driver.launch(graph, rig.stream);
    rig.driver.destroy(graph);
    CHECK(rig.read() == 65);
    CHECK(rig.driver.count("captured launch add_to") == 2);
  }
}

/// In which order a graph does 1, 2 beside the stream of the others, and 3, which may wait for 2.
std::vector<int> order_of(GraphOrder order, bool waits) {
  FakeDriver driver({.graphs = order});
  const cuda::Stream stream = driver.create_stream(), beside = driver.create_stream();
  const cuda::Event forked = driver.create_event(), joined = driver.create_event();
  std::vector<int> done;
  const auto put = [&](int i, cuda::Stream to) {
    driver.put_work(to, "note", {[&done, i](const OperationPtr&) { done.push_back(i); }});
  };
  const auto join = [&] {
    driver.record(joined, beside);
    driver.wait(stream, joined);
  };
  driver.begin_capture(stream);
  put(1, stream);
  driver.record(forked, stream);
  driver.wait(beside, forked);
  put(2, beside);
  if (waits) join();
  put(3, stream);
  if (!waits) join();
  driver.launch(driver.end_capture(stream), stream);
  driver.synchronize(stream);
  return done;
}

TEST_CASE("what a capture leaves open shows in the order of its graph", "[cuda]") {
  CHECK(order_of(GraphOrder::kCaptured, false) == std::vector{1, 2, 3});
  CHECK(order_of(GraphOrder::kLatestFirst, false) == std::vector{1, 3, 2});
  CHECK(order_of(GraphOrder::kLatestFirst, true) == std::vector{1, 2, 3});
}

TEST_CASE("the driver tells what was misused", "[cuda]") {
  DriverRig rig(Timing::kLazy);
  FakeDriver& driver = rig.driver;
  int pageable = 0;
  CHECK_THROWS_AS(driver.copy(&pageable, rig.host, kInt, rig.stream), Defect);
  CHECK_THROWS_AS(driver.copy(rig.host, rig.device, kInt + 1, rig.stream), Defect);
  CHECK_THROWS_AS(driver.clear(rig.host, kInt, rig.stream), Defect);
  driver.begin_capture(rig.stream);
  CHECK_THROWS_AS(driver.allocate(1), Defect);
  CHECK_THROWS_AS(driver.synchronize(rig.stream), Defect);
  CHECK_THROWS_AS(driver.copy(rig.device, &pageable, kInt, rig.stream), Defect);
  driver.record(rig.event, rig.stream);
  driver.wait(rig.other, rig.event);
  rig.add(1, rig.other);
  CHECK_THROWS_WITH(driver.end_capture(rig.stream), Catch::Contains("before its other streams"));
  CHECK_THROWS_AS(driver.launch(cuda::Graph{}, rig.stream), Defect);
  std::byte* memory = driver.allocate(8);
  driver.release(memory);
  driver.release(memory);
  CHECK_THROWS_AS(driver.copy(rig.host, memory, kInt, rig.stream), Defect);
  CHECK(driver.problems() == std::vector<std::string>{
                                 "a copy with no end on the device",
                                 "5 bytes run out of their block",
                                 "clearing what is not on the device",
                                 "allocation while a stream is captured",
                                 "waiting for a stream that is captured",
                                 "pageable memory in a capture",
                                 "no such graph to launch",
                                 "release of what is not allocated",
                                 "a copy with no end on the device",
                                 "1 device allocations left",
                                 "1 pinned allocations left",
                                 "2 streams left",
                                 "1 events left",
                             });
}

TEST_CASE("the driver tells what is left, and fails where it is told to", "[cuda]") {
  FakeDriver driver({.memory = 100});
  CHECK(driver.problems().empty());
  CHECK_THROWS_AS(driver.allocate(101), RunError);
  std::byte* memory = driver.allocate(60);
  CHECK(driver.free_memory() == 40);
  CHECK(driver.problems() == std::vector<std::string>{"1 device allocations left"});
  driver.release(memory);
  CHECK(driver.problems().empty());
  driver.fail_at(2);
  const cuda::Stream stream = driver.create_stream();
  CHECK_THROWS_AS(driver.create_event(), RunError);
  driver.destroy(driver.create_event());
  CHECK(driver.problems() == std::vector<std::string>{"1 streams left"});
  driver.destroy(stream);
}

}  // namespace flow::test
