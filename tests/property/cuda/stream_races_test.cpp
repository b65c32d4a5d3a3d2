// That operations in streams which touch the same memory in no order are found, whatever the fake
// device does first, and that no others are.
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>

#include "runtime/base/error.h"
#include "runtime/cuda/loops/threads.cuh"
#include "tests/support/cuda/fake_driver.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/job_builder.h"

namespace flow::test {
namespace {

__global__ void set_to(int* x, int value) { *x = value; }
__global__ void copy_to(int* x, const int* from) { *x = *from; }

constexpr size_t kInt = sizeof(int);

/// Two streams, and two numbers on the device and in pinned memory.
class Streams {
 public:
  explicit Streams(Timing timing) : driver({LaneOrder::kForward, timing}) {}
  ~Streams() {
    driver.release(reinterpret_cast<std::byte*>(device));
    driver.release_pinned(reinterpret_cast<std::byte*>(host));
    driver.destroy(first);
    driver.destroy(second);
    driver.destroy(event);
  }
  void set(int* x, cuda::Stream stream) {
    cuda::launch(driver, stream, "set_to", {{1}, {1}}, set_to, x, 1);
  }
  void copy_on_device(int* to, const int* from, cuda::Stream stream) {
    cuda::launch(driver, stream, "copy_to", {{1}, {1}}, copy_to, to, from);
  }
  void copy_to_host(int* to, const int* from, cuda::Stream stream) {
    driver.copy(to, from, kInt, stream);
  }
  void order(cuda::Stream before, cuda::Stream after) {
    driver.record(event, before);
    driver.wait(after, event);
  }
  /// What `work` puts into `first`, in between, in a graph.
  void launch_graph(const std::function<void()>& work) {
    driver.begin_capture(first);
    work();
    const cuda::Graph graph = driver.end_capture(first);
    driver.launch(graph, first);
    driver.destroy(graph);
  }

  FakeDriver driver;
  cuda::Stream first = driver.create_stream(), second = driver.create_stream();
  cuda::Event event = driver.create_event();
  int* device = reinterpret_cast<int*>(driver.allocate(2 * kInt));
  int* host = reinterpret_cast<int*>(driver.allocate_pinned(2 * kInt));
};

using Program = std::function<void(Streams&)>;

/// "" where there is none. Whatever comes first on the device, it is the same.
std::string race_in(const Program& program) {
  std::string found;
  for (const Timing timing : {Timing::kLazy, Timing::kEager, Timing::kBeside}) {
    Streams streams(timing);
    try {
      program(streams);
      streams.driver.synchronize(streams.first);
      streams.driver.synchronize(streams.second);
    } catch (const Defect&) {
    }
    const std::vector<std::string> problems = streams.driver.problems();
    const bool any = problems.front().starts_with("a race");
    CHECK((timing == Timing::kLazy || any == !found.empty()));
    if (any) found = problems.front();
  }
  return found;
}

constexpr const char* kNothingOrders = "and nothing orders the two";

/// Where no hooks are.
__attribute__((no_sanitize("thread"))) void write_unheard(int* at) { *at = 7; }

}  // namespace

TEST_CASE("an event that a stream waits for orders it, and without one there is a race", "[cuda]") {
  const auto program = [](bool waits, bool backwards) {
    return [=](Streams& s) {
      s.set(s.device, s.first);
      if (waits) s.order(backwards ? s.second : s.first, backwards ? s.first : s.second);
      s.copy_on_device(s.device + 1, s.device, s.second);
    };
  };
  CHECK(race_in(program(true, false)).empty());
  for (const std::string& race : {race_in(program(false, false)), race_in(program(true, true))}) {
    CHECK_THAT(race, Catch::Contains("`launch set_to stream 1` writes them"));
    CHECK_THAT(race, Catch::Contains("`launch copy_to stream 2` reads them"));
    CHECK_THAT(race, Catch::EndsWith(kNothingOrders));
  }
}

TEST_CASE("reads, and writes of different bytes, need no order", "[cuda]") {
  CHECK(race_in([](Streams& s) {
          s.set(s.device, s.first);
          s.set(s.device + 1, s.second);
        }).empty());
  CHECK(race_in([](Streams& s) {
          s.set(s.device, s.first);
          s.order(s.first, s.second);
          s.copy_to_host(s.host, s.device, s.first);
          s.copy_to_host(s.host + 1, s.device, s.second);
        }).empty());
}

TEST_CASE("order leads from one stream to another through the host", "[cuda]") {
  const auto program = [](bool waits) {
    return [=](Streams& s) {
      s.set(s.device, s.first);
      if (waits) s.driver.synchronize(s.first);
      s.set(s.device, s.second);
    };
  };
  CHECK(race_in(program(true)).empty());
  CHECK_THAT(race_in(program(false)), Catch::EndsWith(kNothingOrders));
}

TEST_CASE("a graph orders what was captured in order, and no more", "[cuda]") {
  const auto program = [](bool joins_early) {
    return [=](Streams& s) {
      s.launch_graph([&] {
        s.set(s.device, s.first);
        s.order(s.first, s.second);
        s.copy_to_host(s.host, s.device, s.second);
        if (joins_early) s.order(s.second, s.first);
        s.set(s.device, s.first);
        if (!joins_early) s.order(s.second, s.first);
      });
      s.set(s.device, s.first);
    };
  };
  CHECK(race_in(program(true)).empty());
  const std::string race = race_in(program(false));
  CHECK_THAT(race, Catch::Contains("`captured copy 4 to host stream 2` reads"));
  CHECK_THAT(race, Catch::Contains("`captured launch set_to stream 1` writes"));
}

TEST_CASE("launches of one graph in two streams race", "[cuda]") {
  const auto race = race_in([](Streams& s) {
    s.driver.begin_capture(s.first);
    s.set(s.device, s.first);
    const cuda::Graph graph = s.driver.end_capture(s.first);
    s.driver.launch(graph, s.first);
    s.driver.launch(graph, s.second);
    s.driver.destroy(graph);
  });
  CHECK_THAT(race, Catch::EndsWith(kNothingOrders));
}

TEST_CASE("the host waits before it reads what a copy brings it", "[cuda]") {
  const auto program = [](bool waits, bool for_the_copy) {
    return [=](Streams& s) {
      if (!for_the_copy) s.driver.record(s.event, s.first);
      s.copy_to_host(s.host, s.device, s.first);
      if (for_the_copy) s.driver.record(s.event, s.first);
      if (waits) s.driver.synchronize(s.event);
      s.host[1] = s.host[0];
    };
  };
  CHECK(race_in(program(true, true)).empty());
  CHECK_THAT(race_in(program(false, true)), Catch::EndsWith(kNothingOrders));
  const std::string race = race_in(program(true, false));
  CHECK_THAT(race, Catch::Contains("the host at stream_races_test.cpp:"));
  CHECK_THAT(race, Catch::Contains("`copy 4 to host stream 1` writes"));
}

TEST_CASE("the host leaves pinned memory alone until the device has read it", "[cuda]") {
  const auto program = [](bool waits, void (*write)(int*)) {
    return [=](Streams& s) {
      write_unheard(s.host + 1);
      s.driver.copy(s.device, s.host, kInt, s.first);
      if (waits) s.driver.synchronize(s.first);
      write(s.host);
    };
  };
  const auto write = [](int* at) { *at = 5; };
  CHECK(race_in(program(true, write)).empty());
  CHECK_THAT(race_in(program(false, write)), Catch::EndsWith(kNothingOrders));
  // Code that nobody hears of changes what a copy was promised.
  Streams s(Timing::kLazy);
  program(false, write_unheard)(s);
  CHECK_THROWS_WITH(s.driver.synchronize(s.first),
                    Catch::Contains("the host writes into 4 bytes of pinned memory that `copy 4 to "
                                    "device stream 1` is still to read"));
}

TEST_CASE("memory that is allocated again has no history", "[cuda]") {
  CHECK(race_in([](Streams& s) {
          for (const cuda::Stream stream : {s.first, s.second}) {
            std::byte* const memory = s.driver.allocate(kInt);
            s.set(reinterpret_cast<int*>(memory), stream);
            s.driver.release(memory);
          }
        }).empty());
}

TEST_CASE("slots that a program reuses too early are found", "[cuda]") {
  JobBuilder b;
  const auto x = b.input("x", {2});
  const auto y = b.step("scale", "y", {x}, {{"factor", 2.0}}, {2});
  const plan::Job job = b.build();
  FakeGpu gpu;
  exec::PrepareOptions options;
  options.deliverables = {y};
  options.always = {1};
  options.eager = GENERATE(false, true);
  const auto program = gpu.backend->prepare(job, options);
  const uint8_t wanted[] = {1};
  program->input(x, 0)[0] = std::byte{1};
  program->launch({0, 0, wanted}, 0, 0);
  program->wait(0);
  const std::byte before = program->delivered(y, 0)[0];
  const auto race = [&] {
    for (const std::string& problem : gpu.driver->problems())
      if (problem.starts_with("a race")) return problem;
    return std::string();
  };
  CHECK(race().empty());
  program->launch({1, 0, wanted}, 0, 0);
  SECTION("an output slot, which the next call is writing") {
    CHECK(program->delivered(y, 0)[0] == before);
    CHECK_THROWS_AS(program->wait(0), Defect);
  }
  SECTION("an input slot, which the call is reading") {
    program->input(x, 0)[0] = std::byte{2};
    CHECK_THROWS_AS(program->wait(0), Defect);
  }
  SECTION("the blocks of a call, which the one before is reading") {
    program->launch({2, 0, wanted}, 0, 0);
    CHECK_THROWS_AS(program->wait(0), Defect);
  }
  CHECK_THAT(race(), Catch::Contains("the host"));
}

}  // namespace flow::test
