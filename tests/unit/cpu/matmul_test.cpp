// The tiled product: against the reference, the same bits for any number of threads, and the same
// bits with what is fused onto it run apart.
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "tests/support/job_builder.h"
#include "tests/support/run_job.h"

using namespace flow;
using test::JobBuilder;
using test::RunJob;

namespace {

struct Problem {
  int64_t m, n, k;
  bool transpose_a = false, transpose_b = false;
};

plan::Job product(const Problem& p) {
  JobBuilder b;
  const auto a = b.input("a", p.transpose_a ? Shape{p.k, p.m} : Shape{p.m, p.k});
  const auto c = b.input("b", p.transpose_b ? Shape{p.n, p.k} : Shape{p.k, p.n});
  b.step("matmul", "out", {a, c}, {{"transpose_a", p.transpose_a}, {"transpose_b", p.transpose_b}},
         {p.m, p.n});
  return b.build();
}

test::Arrays run_product(const plan::Job& job, const RunJob& options) {
  return test::run(job, test::random_values(job), {"out"}, options);
}

/// `w += -0.1 * 3 * 0.5 * a^T b`, fused or apart.
plan::Job update(const Problem& p, bool fused) {
  JobBuilder b;
  const auto a = b.input("a", {p.k, p.m}), c = b.input("b", {p.k, p.n});
  const auto w = b.variable("w", {p.m, p.n});
  const JobBuilder::Attributes transposed = {{"transpose_a", true}, {"transpose_b", false}};
  if (fused) {
    b.step("matmul", "updated", {a, c}, transposed, {p.m, p.n}, DType::kFloat32, w);
    b.fuse("sgd_update", {w}, {{"scale", 0.5}, {"rate_scale", 3.0}});
  } else {
    const auto gradient = b.step("matmul", "gradient", {a, c}, transposed, {p.m, p.n});
    b.step("sgd_update", "updated", {gradient, w}, {{"scale", 0.5}, {"rate_scale", 3.0}},
           {p.m, p.n}, DType::kFloat32, w);
  }
  return b.build();
}

}  // namespace

TEST_CASE("products give the same bits for any number of threads", "[cpu]") {
  const Problem problem = GENERATE(
      Problem{512, 10, 4096}, Problem{512, 10, 4096, true, false},
      Problem{32, 32, 10000, true, false}, Problem{32, 32, 10000, false, true},
      Problem{64, 25, 57600, false, true}, Problem{65, 33, 4097}, Problem{65, 33, 4097, true, true},
      Problem{100, 512, 3136, false, true}, Problem{512, 300, 100, true, false});
  CAPTURE(problem.m, problem.n, problem.k, problem.transpose_a, problem.transpose_b);
  const plan::Job job = product(problem);
  const test::Arrays one = run_product(job, {});
  for (int threads : {2, 3, 4, 8})
    CHECK(test::same_bits(one, run_product(job, {threads, {}, 1, 0.1})));
}

TEST_CASE("products agree with the reference", "[cpu]") {
  const Problem problem =
      GENERATE(Problem{1, 1, 1}, Problem{3, 5, 7}, Problem{3, 5, 7, true, false},
               Problem{3, 5, 7, false, true}, Problem{3, 5, 7, true, true}, Problem{129, 50, 33},
               Problem{200, 193, 65, true, false}, Problem{17, 9, 2500, true, true},
               Problem{32, 32, 10000, true, false}, Problem{0, 4, 3}, Problem{4, 3, 0});
  CAPTURE(problem.m, problem.n, problem.k, problem.transpose_a, problem.transpose_b);
  const plan::Job job = product(problem);
  const test::Arrays fast = run_product(job, {2, cpu::fast_kernels(), 1, 0.1});
  const test::Arrays reference = run_product(job, {1, cpu::reference_kernels(), 1, 0.1});
  CHECK(test::relative_difference(fast.at("out"), reference.at("out")) < 1e-5);
}

TEST_CASE("leading dimensions of a product broadcast", "[cpu]") {
  struct Batch {
    Shape a, b, out;
    bool transpose_a;
  };
  const Batch batch = GENERATE(Batch{{2, 3, 4, 5}, {5, 6}, {2, 3, 4, 6}, false},
                               Batch{{2, 3, 5, 4}, {5, 6}, {2, 3, 4, 6}, true},
                               Batch{{4, 5}, {3, 5, 6}, {3, 4, 6}, false},
                               Batch{{2, 1, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}, false},
                               Batch{{2, 3, 4, 5}, {2, 1, 5, 6}, {2, 3, 4, 6}, false});
  CAPTURE(batch.a.str(), batch.b.str());
  JobBuilder b;
  const auto x = b.input("a", batch.a), y = b.input("b", batch.b);
  b.step("matmul", "out", {x, y}, {{"transpose_a", batch.transpose_a}, {"transpose_b", false}},
         batch.out);
  const plan::Job job = b.build();
  const test::Arrays fast = run_product(job, {2, cpu::fast_kernels(), 1, 0.1});
  const test::Arrays reference = run_product(job, {1, cpu::reference_kernels(), 1, 0.1});
  CHECK(test::relative_difference(fast.at("out"), reference.at("out")) < 1e-5);
}

TEST_CASE("an update fused into a product gives the bits of one that stands apart", "[cpu]") {
  const Problem problem = GENERATE(Problem{10, 32, 32}, Problem{512, 784, 100},
                                   Problem{64, 25, 5760}, Problem{129, 1024, 64});
  CAPTURE(problem.m, problem.n, problem.k);
  const plan::Job fused = update(problem, true), apart = update(problem, false);
  const test::Arrays values = test::random_values(fused);
  const test::Arrays expected = test::run(apart, values, {"w"}, {1, {}, 3, 0.1});
  for (int threads : {1, 2, 8})
    CHECK(test::same_bits(expected, test::run(fused, values, {"w"}, {threads, {}, 3, 0.1})));
}

TEST_CASE("bias and relu fused onto a product are those that stand apart", "[cpu]") {
  for (const int64_t n : {10, 512}) {
    const auto make = [n](bool fused) {
      JobBuilder b;
      const auto x = b.input("x", {100, 64}), w = b.variable("w", {n, 64});
      const auto bias = b.variable("bias", {n});
      const JobBuilder::Attributes transposed = {{"transpose_a", false}, {"transpose_b", true}};
      const auto y = b.step("matmul", fused ? "out" : "y", {x, w}, transposed, {100, n});
      if (fused) {
        b.fuse("bias_add", {bias}, {{"axis", int64_t{1}}});
        b.fuse("relu", {}, {});
      } else {
        const auto z = b.step("bias_add", "z", {y, bias}, {{"axis", int64_t{1}}}, {100, n});
        b.step("relu", "out", {z}, {}, {100, n}, DType::kFloat32, z);
      }
      return b.build();
    };
    const test::Arrays values = test::random_values(make(true));
    CHECK(test::same_bits(test::run(make(true), values, {"out"}),
                          test::run(make(false), values, {"out"})));
  }
}
