// Products and convolutions in float64: against the reference, beyond a block of every kind, and
// the same bits for any number of threads.
#include <catch2/catch.hpp>

#include "tests/property/random_cases.h"
#include "tests/property/tolerance.h"

namespace flow::test {
namespace {

using Integers = std::vector<int64_t>;

void check(const KernelCase& one) {
  INFO(one.str());
  const KernelRun expected = run_kernel(one, {cpu::reference_kernels()});
  const KernelRun alone = run_kernel(one, {cpu::double_kernels()});
  require_near(one, alone.outputs[0], expected.outputs[0]);
  for (const int threads : {2, 3, 8})
    CHECK(same_bits(alone, run_kernel(one, {cpu::double_kernels(), cpu::Layout::kPlain, threads})));
}

Array doubles(Random& random, const Shape& shape) {
  return random_array(random, DType::kFloat64, shape);
}

}  // namespace

TEST_CASE("kernels of float64 give what the reference gives", "[cpu][float64]") {
  for (const cpu::KernelEntry& entry : cpu::double_kernels()) {
    Random random(7);
    for (int i = 0; i < 25; ++i) check(widened(random_case(std::string(entry.op), random)));
  }
}

TEST_CASE("products of float64 are right beyond a block of rows, of columns and of depth",
          "[cpu][float64]") {
  struct Problem {
    int64_t m, n, k;
  };
  const Problem p =
      GENERATE(Problem{1, 1, 1}, Problem{7, 17, 193}, Problem{6, 16, 192}, Problem{97, 193, 385},
               Problem{128, 192, 400}, Problem{3, 500, 2}, Problem{32, 10, 5000});
  const bool transpose_a = GENERATE(false, true), transpose_b = GENERATE(false, true);
  Random random(static_cast<Random::result_type>(p.m + p.n + p.k));
  check({"matmul",
         {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}},
         {doubles(random, transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k}),
          doubles(random, transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n})},
         {{DType::kFloat64, {p.m, p.n}}}});
}

TEST_CASE("convolutions of float64 are right where rows are taken in bands", "[cpu][float64]") {
  struct Geometry {
    Shape x, weight, y;
    Integers strides, padding, dilation;
    int64_t groups;
  };
  const Geometry g = GENERATE(
      Geometry{{3, 40, 30, 31}, {9, 40, 5, 3}, {3, 9, 30, 31}, {1, 1}, {2, 2, 1, 1}, {1, 1}, 1},
      Geometry{{2, 90, 23, 40}, {14, 45, 3, 3}, {2, 14, 11, 38}, {2, 1}, {0, 1, 2, 0}, {1, 2}, 2},
      Geometry{{21, 2, 4, 4}, {6, 1, 3, 3}, {21, 6, 4, 4}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      Geometry{{2, 8, 5, 5}, {8, 1, 3, 3}, {2, 8, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 8},
      Geometry{{1, 1, 1, 1}, {4, 1, 3, 3}, {1, 4, 1, 1}, {4, 4}, {1, 1, 1, 1}, {1, 1}, 1});
  Random random(5);
  const auto check_direction = [&](std::string op, const Shape& a, const Shape& b,
                                   const Shape& result) {
    check({std::move(op),
           {{"strides", g.strides},
            {"padding", g.padding},
            {"dilation", g.dilation},
            {"groups", g.groups},
            {"input_shape", g.x.extents()},
            {"weight_shape", g.weight.extents()}},
           {doubles(random, a), doubles(random, b)},
           {{DType::kFloat64, result}}});
  };
  check_direction("convolution", g.x, g.weight, g.y);
  check_direction("convolution_grad_data", g.y, g.weight, g.x);
  check_direction("convolution_grad_weight", g.x, g.y, g.weight);
}

}  // namespace flow::test
