// Random calls: matrix products.
#include "tests/property/cases/draw.h"

namespace flow::test {
namespace {

KernelCase matmul(const std::string& op, Random& random) {
  const int64_t m = extent(random, 127), n = extent(random, 127);
  const int64_t k = random_between(random, 0, 5) == 0 ? 4096 : extent(random, 127);
  const bool ta = random_between(random, 0, 1) == 1, tb = random_between(random, 0, 1) == 1;
  Integers a = ta ? Integers{k, m} : Integers{m, k}, b = tb ? Integers{n, k} : Integers{k, n};
  Integers out = {m, n};
  if (k < 100 && random_between(random, 0, 2) == 0) {
    a.insert(a.begin(), {2, 3});
    out.insert(out.begin(), {2, 3});
    if (random_between(random, 0, 1) == 0) b.insert(b.begin(), 3);
  }
  return {op,
          {{"transpose_a", ta}, {"transpose_b", tb}},
          {random_array(random, kF, Shape(a)), random_array(random, kF, Shape(b))},
          {{kF, Shape(out)}}};
}

int64_t length_of_sums(const KernelCase& one) {
  const Shape &a = one.inputs[0].shape(), &out = one.results[0].shape;
  return a.elements(a.rank() - 2, a.rank()) / out[out.rank() - 2];
}

}  // namespace

std::span<const CaseMaker> product_cases() {
  static constexpr CaseMaker kCases[] = {
      {"matmul", matmul, length_of_sums},
  };
  return kCases;
}

}  // namespace flow::test
