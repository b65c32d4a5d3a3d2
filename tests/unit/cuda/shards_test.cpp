// Jobs whose batch is cut, on a device that records calls: their order, graphs, memory, times,
// failures.
#include <catch2/catch.hpp>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/cuda/program/passes.h"
#include "runtime/io/npy.h"
#include "tests/support/cuda/fake_gpu.h"
#include "tests/support/cuda/naive_libraries.h"
#include "tests/support/fresh_directory.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"
#include "tests/support/shard_jobs.h"

namespace flow::test {
namespace {

using plan::TensorId;

plan::Job small_training(int64_t shards = 4) {
  return layer_training(8, 64, 32, shards, DType::kFloat32);
}

exec::PrepareOptions wanting(const plan::Job& job, const std::vector<std::string>& names) {
  exec::PrepareOptions options;
  for (const std::string& name : names) options.deliverables.push_back(tensor(job, name));
  options.always.assign(names.size(), 1);
  return options;
}

/// The calls of the driver in a call of the program, in which everything is wanted.
std::vector<std::string> calls_of(FakeGpu& gpu, exec::Program& program, size_t deliverables) {
  gpu.driver->forget_calls();
  const std::vector<uint8_t> wanted(deliverables, 1);
  program.launch({0, 0.5, wanted}, 0, 0);
  program.wait(0);
  return gpu.driver->calls();
}

}  // namespace

TEST_CASE("each shard copies its rows, computes and is added to the sums; the rest runs once",
          "[cuda]") {
  const plan::Job job = small_training(2);
  FakeGpu gpu;
  exec::PrepareOptions options = wanting(job, {"y", "loss"});
  options.eager = true;
  const auto program = gpu.backend->prepare(job, options);
  const std::vector<std::string> calls = calls_of(gpu, *program, 2);
  const std::vector<std::string> shard = {
      "copy 32 to device stream 1",    // step, learning rate, shard, pass
      "copy 1024 to device stream 1",  // its rows of x
      "launch naive_matmul stream 1",
      "launch square stream 1",
      "launch sum stream 1",
      "launch scale stream 1",
      "launch naive_matmul stream 1",
      "record stream 1",
      "wait stream 3",
      "copy 512 to host stream 3",  // y
      "record stream 3",
      "wait stream 1",
      "launch join_parts stream 1"};
  std::vector<std::string> expected = shard;
  expected.insert(expected.end(), shard.begin(), shard.end());
  const std::vector<std::string> rest = {"record stream 1",
                                         "wait stream 3",
                                         "copy 4 to host stream 3",  // the loss
                                         "launch sgd_update stream 1",
                                         "record stream 3",
                                         "wait stream 1",
                                         "record stream 1",
                                         "synchronize event"};
  expected.insert(expected.end(), rest.begin(), rest.end());
  CHECK(calls == expected);
}

TEST_CASE("one graph is launched for every shard, and one for the rest", "[cuda]") {
  const plan::Job job = small_training();
  FakeGpu gpu;
  exec::PrepareOptions options = wanting(job, {"loss"});
  options.input_slots = 3;
  options.output_slots = 2;
  const auto program = gpu.backend->prepare(job, options);
  CHECK(gpu.driver->count("capture stream") == 2 * 2);  // for each output slot
  calls_of(gpu, *program, 1);
  CHECK(gpu.driver->count("launch graph") == 4 + 1);
  CHECK(gpu.driver->count("launch join_parts") == 4);
  CHECK(gpu.driver->count("captured") == 0);
}

TEST_CASE("a graph of shards says of all its work what comes before it", "[cuda]") {
  const plan::Job job = small_training();
  const Arrays values = random_values(job);
  const std::vector<std::string> wanted = {"x", "loss", "y", "dw", "w"};
  const auto run_on = [&](const FakeDevice& device) {
    FakeGpu gpu(device);
    return run(job, values, wanted, {.calls = 3, .backend = gpu.backend.get()});
  };
  const Arrays captured = run_on({});
  CHECK(same_bits(run_on({.graphs = GraphOrder::kLatestFirst}), captured));
  CHECK(same_bits(run_on({.timing = Timing::kEager}), captured));
  CHECK(same_bits(run_on({.lanes = LaneOrder::kReversed}), captured));
}

TEST_CASE("slots of a job in shards hold whole batches, the device one shard", "[cuda]") {
  const plan::Job job = delivering(4);
  FakeGpu gpu;
  exec::PrepareOptions options = wanting(job, {"split"});
  options.input_slots = options.output_slots = 2;
  const auto program = gpu.backend->prepare(job, options);
  CHECK(program->memory().inputs == 256 + 256);  // the call block, and two rows
  CHECK(program->memory().pinned == 2 * (256 + 256) + 2 * (256 + 256));
  CHECK(program->memory().total() == gpu.driver->allocated());
  require_whole_batches(*program, job);
}

TEST_CASE("memory for sums over shards on the device is counted in the arena", "[cuda]") {
  FakeGpu gpu;
  const auto program = gpu.backend->prepare(small_training(), {});
  const exec::MemoryReport& report = program->memory();
  CHECK(bytes_at_peak(report, "sums over shards") ==
        2 * (64 * 32 * sizeof(float) + 256));  // of the gradient, and of the loss
  CHECK(report.total() == gpu.driver->allocated());
}

TEST_CASE("a profile on the device adds up what a step takes on all shards", "[cuda]") {
  const plan::Job job = small_training();
  FakeGpu gpu;
  exec::PrepareOptions options = wanting(job, {"loss", "y"});
  options.profile = true;
  const auto program = gpu.backend->prepare(job, options);
  const std::vector<exec::TimedStep> steps = program->timed_steps();
  REQUIRE(steps.size() == job.steps.size() + 3);
  CHECK(steps.front().name == "inputs");
  CHECK(steps[job.steps.size()].name == "sums over shards");
  CHECK(steps[job.steps.size() + 1].name == "w:new");
  CHECK(steps.back().name == "outputs");
  calls_of(gpu, *program, 2);
  const auto times = program->step_times(0);
  REQUIRE(times.size() == steps.size() + 1);
  const auto took = [&](size_t step) { return times[step + 1] - times[step]; };
  // The fake's pieces of work take a millisecond each; shards copy their call blocks and rows.
  CHECK(took(0) >= 4 * 2 * 1'000'000);
  for (size_t i = 1; i <= job.steps.size(); ++i) CHECK(took(i) == 4'000'000);
  CHECK(took(job.steps.size() + 1) == 1'000'000);
}

TEST_CASE("each shard takes its rows of a dataset that stays on the device", "[cuda]") {
  const FreshDirectory folder;
  Array rows(DType::kFloat32, {6, 3});
  for (size_t i = 0; i < 18; ++i) rows.as<float>()[i] = static_cast<float>(i);
  io::write_npy(folder / "x.npy", rows.view());
  plan::Column column;
  column.name = "x";
  column.source = plan::SourceKind::kNpy;
  column.files = {"x.npy"};
  column.row_shape = {3};
  const auto reader = data::Column::open(column, folder.path());
  const plan::Job job = delivering(4);
  const TensorId x = tensor(job, "x"), split = tensor(job, "split"), sum = tensor(job, "sum");
  FakeGpu gpu;
  exec::PrepareOptions options = wanting(job, {"x", "split", "sum"});
  options.columns = {{x, reader.get()}};
  const auto program = gpu.backend->prepare(job, options);
  CHECK(program->memory().total() == gpu.driver->allocated());
  const std::vector<int64_t> numbers = {5, 0, 1, 1, 4, 2, 3, 0};
  REQUIRE(program->rows(0).size() == numbers.size());
  std::ranges::copy(numbers, program->rows(0).begin());
  calls_of(gpu, *program, 3);
  std::vector<float> taken, doubled, total(3);
  for (const int64_t row : numbers)
    for (size_t k = 0; k < 3; ++k) {
      taken.push_back(static_cast<float>(3 * row) + static_cast<float>(k));
      doubled.push_back(2 * taken.back());
      total[k] += taken.back();
    }
  CHECK(floats(program->delivered(x, 0)) == taken);
  CHECK(floats(program->delivered(split, 0)) == doubled);
  CHECK(floats(program->delivered(sum, 0)) == total);
}

TEST_CASE("each call of the driver may fail in a job in shards", "[cuda]") {
  const bool eager = GENERATE(false, true);
  const plan::Job job = delivering(2);
  int64_t calls = 0;
  for (bool complete = false; !complete; ++calls) {
    CAPTURE(eager, calls);
    FakeGpu gpu;
    gpu.driver->fail_at(calls + 1);
    try {
      exec::PrepareOptions options = wanting(job, {"x", "across", "sum"});
      options.in_parts = {0, 0, 1};
      options.eager = eager;
      const auto program = gpu.backend->prepare(job, options);
      const uint8_t wanted[] = {1, 1, 1};
      for (int64_t step = 0; step < 2; ++step) {
        program->launch({step, 0.5, wanted}, 0, 0);
        program->wait(0);
      }
      complete = !gpu.driver->has_failed();
    } catch (const RunError& error) {
      const std::string text = error.what();
      CHECK_THAT(text, Catch::StartsWith("job.yaml:1:1: job `job`: "));
      CHECK_THAT(text, Catch::Contains(": the fake device"));
    }
    CHECK(gpu.driver->problems().empty());
  }
  CHECK(calls > 60);
}

TEST_CASE("steps that are cut or joined stay on their side of the last step of shards", "[cuda]") {
  const JobBuilder::Attributes product = {{"transpose_a", false}, {"transpose_b", false}};
  JobBuilder b;  // y = relu(x W); behind the shards, the gradient of a product by its mask
  const TensorId x = b.input("x", {4, 3}), w = b.variable("w", {3, 5}), v = b.variable("v", {3, 5});
  const TensorId y =
      b.step("matmul", "y", {v, w}, {{"transpose_a", false}, {"transpose_b", true}}, {3, 3});
  b.fuse("relu", {}, {});
  const TensorId z = b.step("matmul", "z", {x, y}, product, {4, 3});
  b.fuse("tanh", {}, {});
  const TensorId dy =
      b.step("matmul", "dy", {x, z}, {{"transpose_a", true}, {"transpose_b", false}}, {3, 3});
  for (const TensorId id : {x, z}) b.rows(id);
  b.combined(dy, plan::Combine::kSum);
  b.end_shards(2);
  const TensorId dr = b.step("relu_grad", "dr", {dy, y}, {}, {3, 3});
  b.step("scale", "last", {dr}, {{"factor", 2.0}}, {3, 3});
  const plan::Job lowered = cuda::lower_epilogues(b.build());
  CHECK(step_names(lowered) == std::vector<std::string>{"y", "z", "z/tanh", "dy", "dr", "last"});
  CHECK(lowered.sharding->steps == plan::StepId(size_t{4}));
  for (const plan::Tensor& made : lowered.tensors)
    CHECK(made.combine.has_value() == (made.name == "dy"));
  const std::vector<size_t> parts = cuda::parts_of(lowered, {}, lowered);
  CHECK(parts == std::vector<size_t>{0, 0, 0, 0, 1, 1});
  FakeDriver driver;
  cuda::NaiveLibraries libraries(driver);
  const plan::Job fused = cuda::fuse_gradients(lowered, parts, {}, libraries, driver);
  CHECK(step_names(fused) == step_names(lowered));
}

TEST_CASE("a product of shards that does the work of two steps moves the last step of shards",
          "[cuda]") {
  JobBuilder b;
  const TensorId x = b.input("x", {4, 3}), dy = b.input("dy", {4, 5});
  const TensorId dw =
      b.step("matmul", "dw", {x, dy}, {{"transpose_a", true}, {"transpose_b", false}}, {3, 5});
  const TensorId db = b.step("bias_add_grad", "db", {dy}, {{"axis", int64_t{1}}}, {5});
  for (const TensorId id : {x, dy}) b.rows(id);
  for (const TensorId id : {dw, db}) b.combined(id, plan::Combine::kSum);
  b.end_shards(2);
  b.step("scale", "last", {db}, {{"factor", 2.0}}, {5});
  const plan::Job job = b.build();
  FakeDriver driver;
  cuda::NaiveLibraries libraries(driver);
  const plan::Job fused =
      cuda::fuse_gradients(job, cuda::parts_of(job, {}, job), {}, libraries, driver);
  CHECK(step_names(fused) == std::vector<std::string>{"dw", "last"});
  CHECK(fused.sharding->steps == plan::StepId(size_t{1}));
}

}  // namespace flow::test
