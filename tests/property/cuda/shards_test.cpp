// Jobs whose batch is cut, on a device: the CPU's numbers, draws, deliveries and faults.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/cuda/test_device.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"

namespace flow::test {
namespace {

using plan::TensorId;

template <typename T>
void write(exec::Program& program, TensorId input, const std::vector<T>& values) {
  REQUIRE(program.input(input, 0).size() == values.size() * sizeof(T));
  std::memcpy(program.input(input, 0).data(), values.data(), values.size() * sizeof(T));
}

void call(exec::Program& program, std::vector<uint8_t> wanted, int64_t step = 0) {
  program.launch({step, 0, wanted}, 0, 0);
  program.wait(0);
}

void require_near(const Arrays& got, const Arrays& expected) {
  for (const auto& [name, array] : expected) {
    CAPTURE(name);
    const auto a = got.at(name).as<double>(), c = array.as<double>();
    REQUIRE(a.size() == c.size());
    for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - c[i]) < 1e-12);
  }
}

}  // namespace

TEST_CASE("a layer trains in shards on the device as on the CPU", "[cuda]") {
  const int64_t shards = GENERATE(2, 4, 8);
  const plan::Job job = layer_training(8, 3, 2, shards, DType::kFloat64);
  const Arrays values = random_values(job);
  const std::vector<std::string> wanted = {"x", "loss", "y", "dw", "w"};
  const auto backend = open_test_backend();
  RunJob options{.calls = 3, .backend = backend.get()};
  const Arrays graphs = run(job, values, wanted, options);
  require_near(graphs, run(job, values, wanted, {.calls = 3}));
  options.eager = true;
  CHECK(same_bits(run(job, values, wanted, options), graphs));
}

TEST_CASE("shards drop on the device what the whole batch drops on the CPU", "[cuda]") {
  struct Draw {
    Shape shape;
    int axis;
  };
  const Draw draw =
      GENERATE(Draw{{8, 5, 3}, 0}, Draw{{3, 8, 5}, 1}, Draw{{5, 3, 4}, 2}, Draw{{4, 1, 10007}, 0},
               Draw{{3, 4, 2501}, 1}, Draw{{3, 8, 12}, 1}, Draw{{8, 7, 16}, 0});
  const DType dtype = GENERATE(DType::kFloat32, DType::kFloat64);
  CAPTURE(draw.shape.str(), draw.axis, name_of(dtype));
  const std::vector<std::string> wanted = {"drop", "mask"};
  const Arrays whole = run(dropping(draw.shape, draw.axis, 1, dtype), {}, wanted);
  const auto backend = open_test_backend();
  for (const int64_t shards : {1, 2, 4})
    CHECK(same_bits(
        run(dropping(draw.shape, draw.axis, shards, dtype), {}, wanted, {.backend = backend.get()}),
        whole));
}

TEST_CASE("what shards make is delivered whole from the device", "[cuda]") {
  Arrays values = random_values(delivering(1));
  for (float& element : values.at("x").as<float>()) element = std::round(element * 64);  // exact
  const Arrays whole = run(delivering(1), values, kDelivered, {.calls = 2});
  const auto backend = open_test_backend();
  for (const int64_t shards : {2, 4, 8})
    for (const bool eager : {false, true}) {
      CAPTURE(shards, eager);
      const Arrays got = run(delivering(shards), values, kDelivered,
                             {.calls = 2, .backend = backend.get(), .eager = eager});
      for (const std::string& name : kDelivered) {
        CAPTURE(name);
        CHECK(same_bits({{name, got.at(name)}}, {{name, whole.at(name)}}));
      }
    }
}

TEST_CASE("what shards make parts of is delivered in parts from the device", "[cuda]") {
  const plan::Job job = delivering(4);
  const TensorId sum = tensor(job, "sum"), behind = tensor(job, "behind");
  exec::PrepareOptions options{1, 1, 1, {sum, behind}};
  options.in_parts = {1, 1};
  options.eager = GENERATE(false, true);
  const auto backend = open_test_backend();
  const auto program = backend->prepare(job, options);
  std::vector<float> x(24);
  for (size_t i = 0; i < 24; ++i) x[i] = static_cast<float>(i);
  write(*program, tensor(job, "x"), x);
  call(*program, {1, 1});
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{84, 92, 100});
  CHECK(floats(program->delivered_part(sum, 0, 0)) == std::vector<float>{3, 5, 7});
  CHECK(floats(program->delivered_part(sum, 3, 0)) == std::vector<float>{39, 41, 43});
  CHECK(floats(program->delivered_part(behind, 3, 0)) == std::vector<float>{84, 92, 100});
}

TEST_CASE("what a probe of shards makes on the device is combined where it runs", "[cuda]") {
  const plan::Job job = probing();
  const TensorId x = tensor(job, "x"), sum = tensor(job, "sum");
  exec::PrepareOptions options{1, 1, 1, {sum}};
  options.eager = GENERATE(false, true);
  const auto backend = open_test_backend();
  const auto program = backend->prepare(job, options);
  write<float>(*program, x, {1, 2, 3, 4});
  call(*program, {1});
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{4, 6});
  write<float>(*program, x, {5, 6, 7, 8});
  call(*program, {0}, 1);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{4, 6});
  call(*program, {1}, 2);
  CHECK(floats(program->delivered(sum, 0)) == std::vector<float>{12, 14});
}

TEST_CASE("a label of a shard on the device is out of range in its row of the whole batch",
          "[cuda]") {
  const plan::Job job = labeling();
  const TensorId labels = tensor(job, "labels");
  const auto backend = open_test_backend();
  const auto program = backend->prepare(job, {});
  write<int32_t>(*program, labels, {0, 1, 2, 0, 1, 3, 0, -1});
  call(*program, {});
  const std::optional<exec::Fault> fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->row == 5);
  CHECK(fault->value == 3);
  write<int32_t>(*program, labels, {0, 1, 2, 0, 1, 2, 0, 1});
  call(*program, {});
  CHECK_FALSE(program->fault(0));
}

}  // namespace flow::test
