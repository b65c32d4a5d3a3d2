// Initial values of variables.
#include "runtime/exec/core/state.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/io/npy.h"
#include "tests/support/fresh_directory.h"

namespace flow::exec {
namespace {

/// The initial value of a variable `net/w` in a job of seed 1.
Array value_of(plan::Initializer initializer, DType dtype, Shape shape, const fs::path& root = {}) {
  plan::Job job;
  job.seed = 1;
  plan::Tensor tensor;
  tensor.name = "net/w";
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.where = "job.yaml:3:1";
  job.tensors = {tensor};
  job.variables = {{plan::TensorId(size_t{0}), std::move(initializer), true, false}};
  return initial_value(job, job.variables[0], root);
}

TEST_CASE("a random initial value is the variable's own draw, rounded once to float32", "[exec]") {
  const Array array = value_of(plan::initializers::Uniform{-1, 1}, DType::kFloat32, {5});
  std::vector<double> drawn(5);
  draw_uniform({1, "net/w", 0}, -1, 1, drawn.data(), 5);
  for (size_t i = 0; i < 5; ++i) CHECK(array.as<float>()[i] == static_cast<float>(drawn[i]));
}

TEST_CASE("a large variable is made in parts, to the same numbers", "[exec]") {
  constexpr size_t kElements = 3 * (1 << 16) + 7;
  const Array array = value_of(plan::initializers::TruncatedNormal{0, 1}, DType::kFloat32,
                               {static_cast<int64_t>(kElements)});
  std::vector<double> drawn(kElements);
  draw_truncated_normal({1, "net/w", 0}, drawn.data(), kElements);
  const std::vector<float> expected(drawn.begin(), drawn.end());
  CHECK(std::ranges::equal(array.as<float>(), expected));
}

TEST_CASE("jobs of every precision start from the same random numbers", "[exec]") {
  for (const plan::Initializer& initializer :
       {plan::Initializer(plan::initializers::Normal{1, 0.1}),
        plan::Initializer(plan::initializers::TruncatedNormal{1, 0.1})}) {
    const Array single = value_of(initializer, DType::kFloat32, {3, 7});
    const Array wide = value_of(initializer, DType::kFloat64, {3, 7});
    for (size_t i = 0; i < 21; ++i)
      CHECK(wide.as<double>()[i] == static_cast<double>(single.as<float>()[i]));
  }
}

TEST_CASE("a truncated normal stays within two deviations of its mean", "[exec]") {
  const Array array =
      value_of(plan::initializers::TruncatedNormal{3, 0.1}, DType::kFloat64, {1000});
  for (const double value : array.as<double>()) CHECK(std::abs(value - 3) < 0.2 + 1e-6);
}

TEST_CASE("a constant is exact in float64", "[exec]") {
  const Array array = value_of(plan::initializers::Constant{0.1}, DType::kFloat64, {2});
  CHECK(array.as<double>()[1] == 0.1);
  CHECK(value_of(plan::initializers::Ones(), DType::kFloat32, {2}).as<float>()[1] == 1);
  CHECK(value_of(plan::initializers::Zeros(), DType::kFloat32, {2}).as<float>()[1] == 0);
}

TEST_CASE("a variable does not start at an infinity that its file does not say", "[exec]") {
  const auto check = [](plan::Initializer initializer) {
    CHECK_THROWS_WITH(value_of(std::move(initializer), DType::kFloat32, {2}),
                      Catch::Contains("`net/w`") &&
                          Catch::Contains("float32 stores numbers up to 3.4028235e+38"));
  };
  check(plan::initializers::Constant{1e39});
  check(plan::initializers::Uniform{1e39, 2e39});
}

TEST_CASE("an npy is read as it is, in float64 too", "[exec]") {
  const FreshDirectory home;
  Array given(DType::kFloat64, {2});
  given.as<double>()[1] = 0.1;
  io::write_npy(home / "w.npy", given.view());
  const plan::initializers::Npy npy{"w.npy"};
  CHECK(value_of(npy, DType::kFloat64, {2}, home.path()).as<double>()[1] == 0.1);
  CHECK(value_of(npy, DType::kFloat32, {2}, home.path()).as<float>()[1] == 0.1F);
  CHECK_THROWS_WITH(
      value_of(npy, DType::kFloat32, {3}, home.path()),
      Catch::Contains("job.yaml:3:1: variable `net/w` is [3]") && Catch::Contains(" is [2]"));
}

}  // namespace
}  // namespace flow::exec
