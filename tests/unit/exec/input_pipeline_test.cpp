// What the inputs of each step hold, seen through a run of y = x + w with w = 0.
#include "runtime/exec/input/input_pipeline.h"

#include <catch2/catch.hpp>

#include "runtime/base/philox.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"
#include "tests/unit/exec/fake_job.h"

namespace flow::exec {
namespace {

/// x of every step, as a predict job that returns it delivers it.
plan::Job job_of_x(int64_t batch, plan::InputSource source = plan::FromDataset{"d", "", "x"}) {
  plan::Job job = make_job(false, batch);
  job.inputs[0].source = std::move(source);
  job.returns = returns(kX);
  return job;
}

std::vector<double> x_of(TestRun& run) {
  run.run();
  return numbers(run / "returns/x/value.npy");
}

/// The rows (2i, 2i + 1) one after another.
std::vector<double> rows(const std::vector<int64_t>& which) {
  std::vector<double> values;
  for (const int64_t row : which)
    for (const int64_t column : {0, 1}) values.push_back(static_cast<double>(2 * row + column));
  return values;
}

TEST_CASE("a predict job delivers every row once, the last batch without its padding", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  TestRun run(job_of_x(4), home.path());
  CHECK(x_of(run) == rows({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  CHECK(run.said.empty());
}

TEST_CASE("a train job says once how many rows it drops", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = make_job(true, 4);
  job.run.epochs = 3;
  job.hooks = {watch(kX, "x", {{0, 100, 1}})};
  job.hooks[0].sinks = {plan::NpySink{}};
  TestRun run(job, home.path());
  run.run();
  CHECK(numbers(run / "watch/x/value.npy") ==
        rows({0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7}));
  REQUIRE(run.said.size() == 2);
  CHECK(run.said[0] == "the last 2 rows of an epoch are dropped: 10 rows in batches of 4");
  CHECK(run.said[1] == "hooks will write 192 B");
}

TEST_CASE("a shuffled epoch is the permutation of its number", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 10);
  plan::Job job = job_of_x(5);
  job.run.shuffle = true;
  job.run.epochs = 2;
  TestRun run(job, home.path());
  std::vector<int64_t> order(20);
  draw_permutation({1, "d/shuffle", 0}, order.data(), 10);
  draw_permutation({1, "d/shuffle", 1}, order.data() + 10, 10);
  CHECK(order[0] == 9);
  CHECK(order[1] == 1);
  CHECK(x_of(run) == rows(order));
}

TEST_CASE("an npy of the input's shape is given whole each step", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "whole.npy", 2);
  plan::Job job = job_of_x(2, plan::FromNpy{"whole.npy"});
  job.run.steps = 3;
  TestRun run(job, home.path());
  CHECK(x_of(run) == rows({0, 1, 0, 1, 0, 1}));
}

TEST_CASE("an npy with one more axis gives a slice a step, and ends the run", "[exec]") {
  const FreshDirectory home;
  Array array(DType::kFloat64, {3, 2, 2});
  for (size_t i = 0; i < 12; ++i) array.as<double>()[i] = static_cast<double>(i);
  io::write_npy(home / "slices.npy", array.view());
  TestRun run(job_of_x(2, plan::FromNpy{"slices.npy"}), home.path());
  CHECK(x_of(run) == rows({0, 1, 2, 3, 4, 5}));
  TestRun longer(job_of_x(2, plan::FromNpy{"slices.npy"}), home.path(), "longer");
  longer.request.steps = 100;
  CHECK(x_of(longer).size() == 12);
}

TEST_CASE("a random input is drawn by its name at each step", "[exec]") {
  const FreshDirectory home;
  TestRun run(job_of_x(2, plan::generators::Uniform{-1, 1}), home.path());
  run.request.steps = 3;
  const std::vector<double> x = x_of(run);
  REQUIRE(x.size() == 12);
  for (uint32_t step = 0; step < 3; ++step) {
    std::vector<double> drawn(4);
    draw_uniform({1, "x", step}, -1, 1, drawn.data(), 4);
    for (size_t i = 0; i < 4; ++i) CHECK(x[4 * step + i] == static_cast<float>(drawn[i]));
  }
}

TEST_CASE("a normal input has its mean and its deviation", "[exec]") {
  const FreshDirectory home;
  TestRun run(job_of_x(2, plan::generators::Normal{5, 3}), home.path());
  run.request.steps = 1;
  const std::vector<double> x = x_of(run);
  REQUIRE(x.size() == 4);
  std::vector<double> drawn(4);
  draw_normal({1, "x", 0}, drawn.data(), 4);
  for (size_t i = 0; i < 4; ++i) CHECK(x[i] == static_cast<float>(5 + 3 * drawn[i]));
}

TEST_CASE("the command line gives an input in place of the file", "[exec]") {
  const FreshDirectory home;
  plan::Job job = job_of_x(2, plan::FromCommandLine{});
  const auto given = [&](const std::string& text, const std::string& out) {
    TestRun run(job, home.path(), out);
    run.request.inputs = {{"x", text}};
    return x_of(run);
  };
  write_rows(home / "given.npy", 2);
  CHECK(given("@" + (home / "given.npy").string(), "a") == rows({0, 1}));
  CHECK(given("constant:2.5", "b") == std::vector<double>{2.5, 2.5, 2.5, 2.5});
  CHECK(given("iota", "c") == std::vector<double>{0, 1, 2, 3});
  const std::vector<double> integers = given("random_int:5:7", "d");
  for (const double value : integers) CHECK((value == 5 || value == 6));
}

TEST_CASE("what does not fit is refused before the first step, naming the place", "[exec]") {
  const FreshDirectory home;
  write_rows(home / "x.npy", 3);
  const auto refusal = [&](const plan::Job& job,
                           std::vector<std::pair<std::string, std::string>> inputs = {}) {
    TestRun run(job, home.path());
    run.request.inputs = std::move(inputs);
    int status = 0;
    const std::string message = run.refusal(&status);
    CHECK(run.backend.prepared == 0);
    CHECK(fs::is_empty(run.request.directory));
    return std::to_string(status) + " " + message;
  };
  const plan::Job command_line = job_of_x(2, plan::FromCommandLine{});
  CHECK(refusal(command_line) ==
        "2 job.yaml:5:5: input `x` has no source\n"
        "add --input x=@FILE.npy or --input x=random_uniform:-1:1");
  CHECK(refusal(command_line, {{"y", "iota"}}) ==
        "2 --input y: job `eval` has no such input\ndid you mean `x`?");
  CHECK(refusal(command_line, {{"x", "iota"}, {"x", "iota"}}) == "2 duplicate --input x");
  CHECK_THAT(refusal(command_line, {{"x", "random:1"}}),
             Catch::Contains("2 --input x=random:1: unknown source `random`"));
  CHECK_THAT(refusal(command_line, {{"x", "random_int:1"}}),
             Catch::Contains("takes 2 numbers; found 1"));
  CHECK_THAT(refusal(command_line, {{"x", "constant:1x"}}),
             Catch::Contains("`1x` is not a number"));
  CHECK_THAT(refusal(command_line, {{"x", "random_int:3:3"}}),
             Catch::Contains("2 --input x: input `x`: `low` is 3 and `high` 3"));
  CHECK(refusal(command_line, {{"x", "random_uniform:1:0"}}) ==
        "2 --input x: input `x`: `low` is 1 and `high` 0; expected `low` < `high`");
  CHECK(refusal(command_line, {{"x", "random_uniform:nan:0"}}) ==
        "2 --input x: input `x`: `low` is nan; expected a finite number\n"
        "float32 stores numbers up to 3.4028235e+38");
  CHECK(refusal(command_line, {{"x", "constant:1e300"}}) ==
        "2 --input x: input `x`: `value` is 1e+300, which is not a valid float32\n"
        "float32 stores numbers up to 3.4028235e+38");
  CHECK_THAT(refusal(job_of_x(2, plan::FromNpy{"x.npy"})),
             Catch::Contains("2 job.yaml:5:30: ") && Catch::Contains("x.npy is [3, 2]") &&
                 Catch::Contains("input `x` is [2, 2]"));
  CHECK_THAT(refusal(job_of_x(2, plan::FromNpy{"missing.npy"})),
             Catch::Contains("3 job.yaml:5:30: ") && Catch::Contains("missing.npy"));
  plan::Job train = make_job(true, 4);
  CHECK(refusal(train) ==
        "2 job.yaml:4:3: dataset `d` has 3 rows, fewer than a batch of 4\n"
        "use a smaller batch, the leading extent of the input shapes");
  plan::Job epochs = job_of_x(2, plan::generators::Iota());
  epochs.run.epochs = 2;
  CHECK_THAT(refusal(epochs), Catch::Contains("runs 2 epochs, but reads no dataset"));
}

TEST_CASE("an integer input that its file cannot fill is found before the first step", "[exec]") {
  const FreshDirectory home;
  Array array(DType::kFloat32, {6, 2});
  array.as<float>()[9] = 0.5F;
  io::write_npy(home / "x.npy", array.view());
  plan::Job job = job_of_x(2);
  job.tensors[0].dtype = DType::kInt32;
  TestRun run(job, home.path());
  int status = 0;
  CHECK_THAT(run.refusal(&status), Catch::Contains("row 4") && Catch::Contains("0.5"));
  CHECK(status == 3);
  CHECK(run.backend.prepared == 0);
}

}  // namespace
}  // namespace flow::exec
