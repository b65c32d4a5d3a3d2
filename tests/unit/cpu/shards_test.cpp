// Jobs whose batch is cut, on the CPU: the numbers of the whole batch, draws, deliveries, faults.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/cpu/backend/backend.h"
#include "tests/support/allocation_count.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"

namespace flow::test {
namespace {

using plan::TensorId;
using Extents = std::vector<int64_t>;

void require_near(const Arrays& got, const Arrays& expected) {
  for (const auto& [name, array] : expected) {
    CAPTURE(name);
    const auto a = got.at(name).as<double>(), c = array.as<double>();
    REQUIRE(a.size() == c.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - c[i]) < 1e-12);
  }
}

void write_labels(exec::Program& program, TensorId input, const std::vector<int32_t>& labels) {
  std::memcpy(program.input(input, 0).data(), labels.data(), labels.size() * sizeof(int32_t));
}

}  // namespace

TEST_CASE("shards give the numbers of the whole batch", "[cpu]") {
  const std::vector<std::string> wanted = {"loss", "y", "dw", "w"};
  const plan::Job whole = layer_training(8, 3, 2, 1, DType::kFloat64);
  const Arrays values = random_values(whole);
  const Arrays expected = run(whole, values, wanted, {.calls = 3});
  for (const int64_t shards : {2, 4, 8}) {
    CAPTURE(shards);
    const plan::Job job = layer_training(8, 3, 2, shards, DType::kFloat64);
    require_near(run(job, values, wanted, {.calls = 3}), expected);
  }
}

TEST_CASE("shards give the same bits on any number of threads", "[cpu]") {
  const plan::Job job = layer_training(256, 300, 200, 4, DType::kFloat32);
  const Arrays values = random_values(job);
  const std::vector<std::string> wanted = {"loss", "y", "dw", "w"};
  const Arrays one = run(job, values, wanted, {.threads = 1, .calls = 2});
  for (const int threads : {2, 3})
    CHECK(same_bits(run(job, values, wanted, {.threads = threads, .calls = 2}), one));
}

TEST_CASE("shards drop what the whole batch drops", "[cpu]") {
  struct Draw {
    Shape shape;
    int axis;
  };
  const Draw draw = GENERATE(Draw{{8, 5, 3}, 0}, Draw{{3, 8, 5}, 1}, Draw{{5, 3, 4}, 2},
                             Draw{{4, 1, 10007}, 0}, Draw{{3, 4, 2501}, 1});
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  CAPTURE(draw.shape.str(), draw.axis, name_of(dtype));
  const Arrays whole = run(dropping(draw.shape, draw.axis, 1, dtype), {}, {"drop", "mask"});
  for (const int64_t shards : {2, 4}) {
    const plan::Job job = dropping(draw.shape, draw.axis, shards, dtype);
    CHECK(same_bits(run(job, {}, {"drop", "mask"}, {.threads = 2}), whole));
    CHECK(same_bits(run(job, {}, {"drop", "mask"}, {.kernels = cpu::reference_kernels()}), whole));
  }
}

TEST_CASE("what shards make is delivered whole", "[cpu]") {
  Arrays values = random_values(delivering(1));
  values.at("x").as<float>()[13] = std::numeric_limits<float>::quiet_NaN();
  for (float& element : values.at("x").as<float>()) element = std::round(element * 64);  // exact
  const Arrays whole = run(delivering(1), values, kDelivered, {.calls = 2});
  for (const int64_t shards : {2, 4, 8}) {
    CAPTURE(shards);
    const Arrays got = run(delivering(shards), values, kDelivered, {.calls = 2});
    for (const std::string& name : kDelivered) {
      CAPTURE(name);
      CHECK(same_bits({{name, got.at(name)}}, {{name, whole.at(name)}}));
    }
  }
}

TEST_CASE("what shards make parts of is delivered in parts where that is wanted", "[cpu]") {
  const plan::Job job = delivering(4);
  const TensorId sum = tensor(job, "sum"), behind = tensor(job, "behind");
  exec::PrepareOptions options{1, 1, 1, {sum, behind}};
  options.in_parts = {1, 1};
  const auto program = cpu::make_backend()->prepare(job, options);
  std::vector<float> x(24);
  for (size_t i = 0; i < 24; ++i) x[i] = static_cast<float>(i);
  std::memcpy(program->input(tensor(job, "x"), 0).data(), x.data(), 24 * sizeof(float));
  const uint8_t wanted[] = {1, 1};
  program->launch({0, 0, wanted}, 0, 0);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{84, 92, 100});
  CHECK(floats(program->delivered_part(sum, 0, 0)) == std::vector<float>{3, 5, 7});
  CHECK(floats(program->delivered_part(sum, 3, 0)) == std::vector<float>{39, 41, 43});
  CHECK(floats(program->delivered_part(behind, 3, 0)) == std::vector<float>{84, 92, 100});
}

TEST_CASE("what a probe of shards makes is combined where it runs", "[cpu]") {
  const plan::Job job = probing();
  const TensorId x = tensor(job, "x"), sum = tensor(job, "sum");
  const auto program = cpu::make_backend()->prepare(job, {1, 1, 1, {sum}});
  const auto write = [&](std::vector<float> values) {
    std::memcpy(program->input(x, 0).data(), values.data(), 4 * sizeof(float));
  };
  const uint8_t wanted[] = {1}, unwanted[] = {0};
  write({1, 2, 3, 4});
  program->launch({0, 0, wanted}, 0, 0);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{4, 6});
  write({5, 6, 7, 8});
  program->launch({1, 0, unwanted}, 0, 0);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{4, 6});
  program->launch({2, 0, wanted}, 0, 0);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{12, 14});
}

TEST_CASE("images of shards that lie channels-last are delivered in C order", "[cpu]") {
  const auto filtering = [](int64_t shards) {
    const int64_t rows = 4 / shards;
    JobBuilder b;
    const TensorId x = b.input("x", {rows, 3, 6, 6}), w = b.variable("w", {8, 3, 3, 3});
    const TensorId y = b.step("convolution", "y", {x, w},
                              {{"strides", Extents{1, 1}},
                               {"padding", Extents{1, 1, 1, 1}},
                               {"dilation", Extents{1, 1}},
                               {"groups", int64_t{1}}},
                              {rows, 8, 6, 6});
    for (const TensorId id : {x, y}) b.rows(id);
    b.end_shards(shards);
    return b.build();
  };
  const Arrays values = random_values(filtering(1));
  const Arrays whole = run(filtering(1), values, {"y"});
  for (const int64_t shards : {2, 4})
    CHECK(relative_difference(run(filtering(shards), values, {"y"}).at("y"), whole.at("y")) < 1e-5);
}

TEST_CASE("a label out of range is a fault of its row in the whole batch", "[cpu]") {
  const plan::Job job = labeling();
  const TensorId labels = tensor(job, "labels");
  const auto program = cpu::make_backend()->prepare(job, {});
  write_labels(*program, labels, {0, 1, 2, 0, 1, 3, 0, -1});
  program->launch({}, 0, 0);
  const std::optional<exec::Fault> fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->row == 5);
  CHECK(fault->value == 3);
  write_labels(*program, labels, {0, 1, 2, 0, 1, 2, 0, 1});
  program->launch({}, 0, 0);
  CHECK_FALSE(program->fault(0));
}

TEST_CASE("slots of inputs hold whole batches", "[cpu]") {
  const plan::Job job = delivering(4);
  const auto program = cpu::make_backend()->prepare(job, {1, 2, 2, {tensor(job, "split")}});
  require_whole_batches(*program, job);
}

TEST_CASE("memory for sums over shards is counted in the arena", "[cpu]") {
  const auto program =
      cpu::make_backend()->prepare(layer_training(8, 64, 32, 4, DType::kFloat32), {});
  const exec::MemoryReport& report = program->memory();
  const size_t sums = bytes_at_peak(report, "sums over shards");
  CHECK(sums == 2 * (64 * 32 * sizeof(float) + 64));  // of the gradient, and of the loss
  CHECK(report.arena >= sums + 64 * 32 * sizeof(float));
}

TEST_CASE("a profile adds up what a step takes on all shards, and what sums over them take",
          "[cpu]") {
  const plan::Job job = layer_training(64, 30, 20, 4, DType::kFloat32);
  exec::PrepareOptions options{1, 1, 1, {tensor(job, "loss")}};
  options.profile = true;
  const auto program = cpu::make_backend()->prepare(job, options);
  const std::vector<exec::TimedStep> steps = program->timed_steps();
  REQUIRE(steps.size() == job.steps.size() + 2);
  CHECK(steps[job.steps.size()].name == "sums over shards");
  CHECK(steps.back().name == "w:new");
  const uint8_t wanted[] = {1};
  for (int64_t call = 0; call < 2; ++call) {
    program->launch({call, 0.1, wanted}, 0, 0);
    const auto times = program->step_times(0);
    REQUIRE(times.size() == steps.size() + 1);
    CHECK(std::ranges::is_sorted(times));
    CHECK(times[1] == times[0]);  // no input is delivered
    CHECK(times[1] < times[2]);
  }
}

TEST_CASE("a call of several shards allocates nothing", "[cpu]") {
  const plan::Job job = layer_training(64, 30, 20, 4, DType::kFloat32);
  exec::PrepareOptions options{2, 1, 1, {tensor(job, "loss"), tensor(job, "y"), tensor(job, "dw")}};
  options.in_parts = {1, 0, 1};
  options.profile = GENERATE(false, true);
  const auto program = cpu::make_backend()->prepare(job, options);
  const uint8_t wanted[] = {1, 1, 1};
  program->launch({0, 0.1, wanted}, 0, 0);
  if (!allocations_are_counted()) return;
  const int64_t before = allocations_of_this_thread();
  program->launch({1, 0.1, wanted}, 0, 0);
  CHECK(allocations_of_this_thread() == before);
}

}  // namespace flow::test
