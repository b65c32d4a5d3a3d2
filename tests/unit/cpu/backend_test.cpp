// The backend on whole jobs: memory, slots, probes, faults, layouts, errors, threads.
#include "runtime/cpu/backend/backend.h"

#include <catch2/catch.hpp>

#include <cstring>

#include "runtime/base/error.h"
#include "runtime/cpu/loops/features.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::JobBuilder;
using Ints = std::vector<int64_t>;

namespace {

std::vector<std::string> variables_of(const plan::Job& job) {
  std::vector<std::string> names;
  for (const plan::Variable& variable : job.variables) names.push_back(job[variable.tensor].name);
  return names;
}

void write(exec::Program& program, plan::TensorId input, size_t slot, std::vector<float> values) {
  std::memcpy(program.input(input, slot).data(), values.data(), values.size() * sizeof(float));
}

}  // namespace

TEST_CASE("a training step gives the same bits for any number of threads, and again", "[cpu]") {
  const plan::Job job = GENERATE(0, 1) ? test::lenet_training(13) : test::mlp_training(32, 32);
  std::vector<std::string> wanted = variables_of(job);
  wanted.push_back("loss");
  const test::Arrays values = test::random_values(job);
  const test::Arrays one = test::run(job, values, wanted, {1, {}, 3, 0.01});
  for (int threads : {1, 2, 3, 8})
    CHECK(test::same_bits(one, test::run(job, values, wanted, {threads, {}, 3, 0.01})));
}

TEST_CASE("a training step on fast kernels agrees with the reference kernels", "[cpu]") {
  const plan::Job job = GENERATE(0, 1) ? test::lenet_training(5) : test::mlp_training(8, 32);
  std::vector<std::string> wanted = variables_of(job);
  wanted.push_back("loss");
  test::Arrays values = test::random_values(job);
  for (auto& [name, value] : values)  // small weights: no maximum hangs on a rounding
    if (value.dtype() == DType::kFloat32 && name != "images")
      for (float& element : value.as<float>()) element *= 0.1f;
  const test::Arrays fast = test::run(job, values, wanted, {2, cpu::fast_kernels(), 1, 0.01});
  const test::Arrays reference =
      test::run(job, values, wanted, {1, cpu::reference_kernels(), 1, 0.01});
  for (const std::string& name : wanted) {
    CAPTURE(name);
    CHECK(test::relative_difference(fast.at(name), reference.at(name)) < 1e-4);
  }
}

TEST_CASE("watching what lies channels-last delivers it in C order and changes no bit", "[cpu]") {
  const plan::Job job = test::lenet_training(4);
  const test::Arrays values = test::random_values(job);
  const std::vector<std::string> plain = variables_of(job);
  std::vector<std::string> watched = plain;
  watched.insert(watched.end(), {"conv1/conv", "conv1/pool", "flat:diff", "images", "labels"});
  const test::Arrays quiet = test::run(job, values, plain, {2, {}, 2, 0.01});
  test::Arrays loud = test::run(job, values, watched, {2, {}, 2, 0.01});
  CHECK(test::same_bits({{"images", loud.at("images")}}, {{"images", values.at("images")}}));
  const test::Arrays first = test::run(job, values, {"conv1/conv"}, {2, {}, 1, 0.01});
  const test::Arrays reference =
      test::run(job, values, {"conv1/conv"}, {1, cpu::reference_kernels(), 1, 0.01});
  CHECK(test::relative_difference(first.at("conv1/conv"), reference.at("conv1/conv")) < 1e-5);
  for (const char* name : {"conv1/conv", "conv1/pool", "flat:diff", "images", "labels"})
    loud.erase(name);
  CHECK(test::same_bits(quiet, loud));
}

TEST_CASE("a reshape of an input and an elementwise result share memory where nothing still reads",
          "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {4, 6});
  const auto flat = b.step("reshape", "flat", {x}, {{"shape", Ints{24}}}, {24}, DType::kFloat32, x);
  const auto a = b.step("scale", "a", {flat}, {{"factor", 2.0}}, {24}, DType::kFloat32, flat);
  const auto c = b.step("scale", "c", {a}, {{"factor", 2.0}}, {24}, DType::kFloat32, a);
  b.step("add", "kept", {a, c}, {}, {24}, DType::kFloat32, c);
  const plan::Job job = b.build();
  const auto program = cpu::make_backend()->prepare(job, {});
  CHECK(program->memory().arena == 2 * 128);  // a, and c with `kept` on it
  test::Arrays values = test::random_values(job);
  const test::Arrays result = test::run(job, values, {"x", "a", "c", "kept"}, {1, {}, 2, 0.1});
  CHECK(test::same_bits({{"x", values.at("x")}}, {{"x", result.at("x")}}));
  for (size_t i = 0; i < 24; ++i) {
    const float input = values.at("x").as<float>()[i];
    CHECK(result.at("a").as<float>()[i] == 2 * input);
    CHECK(result.at("c").as<float>()[i] == 4 * input);
    CHECK(result.at("kept").as<float>()[i] == 6 * input);
  }
}

TEST_CASE("slots of inputs and outputs keep calls apart", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {3});
  const auto y = b.step("scale", "y", {x}, {{"factor", 3.0}}, {3});
  const plan::Job job = b.build();
  const auto program = cpu::make_backend()->prepare(job, {1, 2, 2, {y}});
  write(*program, x, 0, {1, 2, 3});
  write(*program, x, 1, {4, 5, 6});
  const uint8_t wanted[] = {1};
  program->launch({0, 0, wanted}, 0, 0);
  program->launch({1, 0, wanted}, 1, 1);
  CHECK(test::floats(program->delivered(y, 0)) == std::vector<float>{3, 6, 9});
  CHECK(test::floats(program->delivered(y, 1)) == std::vector<float>{12, 15, 18});
}

TEST_CASE("a variable is delivered as it was before the call's update", "[cpu]") {
  JobBuilder b;
  const auto g = b.input("g", {2});
  const auto w = b.variable("w", {2});
  const auto updated = b.step("sgd_update", "updated", {g, w},
                              {{"scale", 1.0}, {"rate_scale", 1.0}}, {2}, DType::kFloat32, w);
  const plan::Job job = b.build();
  const auto program = cpu::make_backend()->prepare(job, {1, 1, 1, {w, updated}});
  write(*program, g, 0, {2, 4});
  const uint8_t wanted[] = {1, 1};
  program->launch({0, 0.5, wanted}, 0, 0);
  CHECK(test::floats(program->delivered(w, 0)) == std::vector<float>{0, 0});
  CHECK(test::floats(program->delivered(updated, 0)) == std::vector<float>{-1, -2});
  program->launch({1, 0.5, wanted}, 0, 0);
  CHECK(test::floats(program->delivered(w, 0)) == std::vector<float>{-1, -2});
}

TEST_CASE("a tap runs only in calls that want what it makes", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {2});
  const auto first = b.step("scale", "first", {x}, {{"factor", 2.0}}, {2});
  b.last_step().probe = true;
  const auto second = b.step("scale", "second", {first}, {{"factor", 2.0}}, {2});
  b.last_step().probe = true;
  const plan::Job job = b.build();
  const auto program = cpu::make_backend()->prepare(job, {1, 1, 1, {second}});
  write(*program, x, 0, {1, 1});
  const uint8_t wanted[] = {1}, unwanted[] = {0};
  program->launch({0, 0, wanted}, 0, 0);
  CHECK(test::floats(program->delivered(second, 0)) == std::vector<float>{4, 4});
  write(*program, x, 0, {5, 5});
  program->launch({1, 0, unwanted}, 0, 0);
  CHECK(test::floats(program->delivered(second, 0)) == std::vector<float>{4, 4});
  program->launch({2, 0, wanted}, 0, 0);
  CHECK(test::floats(program->delivered(second, 0)) == std::vector<float>{20, 20});
}

TEST_CASE("programs that share variables have them in one memory", "[cpu]") {
  JobBuilder b;
  const auto g = b.input("g", {2});
  const auto w = b.variable("w", {2}), v = b.variable("v", {3});
  b.step("sgd_update", "updated", {g, w}, {{"scale", 1.0}, {"rate_scale", 1.0}}, {2},
         DType::kFloat32, w);
  const plan::Job train = b.build();
  JobBuilder c;
  const auto own = c.variable("own", {2}), theirs = c.variable("w", {2});
  const auto y = c.step("scale", "y", {theirs}, {{"factor", 3.0}}, {2});
  const plan::Job predict = c.build();

  const auto backend = cpu::make_backend();
  const auto first = backend->prepare(train, {});
  exec::PrepareOptions options{1, 1, 1, {y}};
  options.variable_sources = {{&train, first.get()}};
  const auto second = backend->prepare(predict, options);
  CHECK(second->memory().variables == 64);  // `own`
  write(*first, g, 0, {2, 4});
  first->launch({0, 0.5, {}}, 0, 0);
  const uint8_t wanted[] = {1};
  second->launch({0, 0, wanted}, 0, 0);
  CHECK(test::floats(second->delivered(y, 0)) == std::vector<float>{-3, -6});

  Array value(DType::kFloat32, {2});
  value.as<float>()[1] = 7;
  second->write_variable(theirs, value.view());
  second->write_variable(own, value.view());
  Array read(DType::kFloat32, {2}), other(DType::kFloat32, {3});
  first->read_variable(w, read.bytes());
  CHECK(read.as<float>()[1] == 7);
  first->read_variable(v, other.bytes());
  CHECK(other.as<float>()[1] == 0);
}

TEST_CASE("a profiling program says when each step ended, and what ran it", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {40, 30}), w = b.variable("w", {30, 50});
  const auto product = b.step("matmul", "product", {x, w},
                              {{"transpose_a", false}, {"transpose_b", false}}, {40, 50});
  const auto tapped = b.step("scale", "tapped", {product}, {{"factor", 2.0}}, {40, 50});
  b.last_step().probe = true;
  const plan::Job job = b.build();
  exec::PrepareOptions options{1, 1, 1, {tapped}};
  CHECK(cpu::make_backend()->prepare(job, options)->timed_steps().empty());
  options.profile = true;
  const auto program = cpu::make_backend()->prepare(job, options);
  const std::vector<exec::TimedStep> steps = program->timed_steps();
  REQUIRE(steps.size() == 3);  // what is delivered before the first comes first
  CHECK(steps[1].name == "product");
  CHECK(steps[1].op == "matmul");
  CHECK(steps[1].kernel == "oneDNN sgemm; 1 thread");
  CHECK(steps[2].kernel == "flow; 1 thread");

  const uint8_t wanted[] = {1}, unwanted[] = {0};
  program->launch({0, 0, wanted}, 0, 0);
  const auto times = program->step_times(0);
  REQUIRE(times.size() == 4);
  CHECK(times[0] == times[1]);  // no input is delivered
  CHECK(times[1] < times[2]);
  CHECK(times[2] < times[3]);
  program->launch({1, 0, unwanted}, 0, 0);
  CHECK(program->step_times(0)[2] == program->step_times(0)[3]);
}

TEST_CASE("a label out of range is a fault of its call alone", "[cpu]") {
  JobBuilder b;
  const auto labels = b.input("labels", {2}, DType::kInt32), logits = b.input("logits", {2, 3});
  b.step("sparse_softmax_cross_entropy_with_logits", "loss", {labels, logits}, {}, {2});
  b.second_result("loss.prob", {2, 3}, DType::kFloat32);
  const plan::Job job = b.build();
  const auto program = cpu::make_backend()->prepare(job, {});
  auto* values = reinterpret_cast<int32_t*>(program->input(labels, 0).data());
  values[1] = 3;
  program->launch({}, 0, 0);
  const std::optional<exec::Fault> fault = program->fault(0);
  REQUIRE(fault);
  CHECK(fault->operand == "labels");
  CHECK(fault->row == 1);
  CHECK(fault->value == 3);
  CHECK(fault->limit == 3);
  CHECK(fault->where == "job.yaml:2:1");
  values[1] = 2;
  program->launch({}, 0, 0);
  CHECK_FALSE(program->fault(0));
}

TEST_CASE("a step for which there is no kernel is refused with its line", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {2});
  b.step("stop_gradient", "net/odd", {x}, {}, {2});
  try {
    cpu::make_backend()->prepare(b.build(), {});
    FAIL("prepared");
  } catch (const RunError& error) {
    CHECK(std::string(error.what()) ==
          "job.yaml:2:1: step `net/odd`: the CPU has no kernel for `stop_gradient`");
    CHECK(error.exit_status() == 3);
  }
}

TEST_CASE("a job that does not fit into memory is refused before anything is allocated", "[cpu]") {
  JobBuilder b;
  const int64_t huge = int64_t{1} << 50;
  const auto x = b.input("x", {4});
  b.step("broadcast_to", "wide", {x}, {{"shape", Ints{huge, 4}}}, {huge, 4});
  try {
    cpu::make_backend()->prepare(b.build(), {});
    FAIL("prepared");
  } catch (const RunError& error) {
    CHECK_THAT(error.what(), Catch::Contains("job `job` needs 16") && Catch::Contains("`wide`"));
    CHECK(error.exit_status() == 3);
  }
}

TEST_CASE("the memory report names what lives at the peak", "[cpu]") {
  const auto program = cpu::make_backend()->prepare(test::lenet_training(10), {});
  const exec::MemoryReport& report = program->memory();
  CHECK(report.variables > 1'600'000 * sizeof(float));
  CHECK(report.arena > 0);
  REQUIRE_FALSE(report.at_peak.empty());
  size_t sum = 0;
  for (const auto& holder : report.at_peak) sum += holder.bytes;
  CHECK(sum <= report.arena + report.at_peak.size() * 64);
  CHECK_FALSE(report.peak_step.empty());
}

TEST_CASE("a short step uses one thread, a long one all cores", "[cpu]") {
  CHECK(cpu::make_backend()->prepare(test::mlp_training(32, 32), {})->threads() == 1);
  CHECK(cpu::make_backend()->prepare(test::lenet_training(50), {})->threads() ==
        cpu::usable_cores());
  CHECK(cpu::make_backend()->prepare(test::mlp_training(32, 32), {3, 1, 1, {}})->threads() == 3);
}

TEST_CASE("float64 jobs run on the reference kernels", "[cpu]") {
  JobBuilder b;
  const auto x = b.input("x", {2, 3}, DType::kFloat64), y = b.input("y", {3, 2}, DType::kFloat64);
  b.step("matmul", "out", {x, y}, {{"transpose_a", false}, {"transpose_b", false}}, {2, 2},
         DType::kFloat64);
  const plan::Job job = b.build();
  const test::Arrays values = test::random_values(job);
  const test::Arrays out = test::run(job, values, {"out"});
  const auto a = values.at("x").as<double>(), c = values.at("y").as<double>();
  CHECK(out.at("out").as<double>()[0] == Approx(a[0] * c[0] + a[1] * c[2] + a[2] * c[4]));
}
