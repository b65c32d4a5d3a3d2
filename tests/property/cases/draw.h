// What random calls are drawn from: extents, shapes, dtypes, windows; and how ops list calls that
// need more than an example with other extents: random attributes, numbers that depend on others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tests/property/kernel_case.h"

namespace flow::test {

using Integers = std::vector<int64_t>;
inline constexpr DType kF = DType::kFloat32;

/// How random calls of `op` are made. `terms` says how many numbers of at most 1 go into one
/// element of the result, which its rounding error is proportional to; absent: 1.
struct CaseMaker {
  std::string_view op;
  KernelCase (*make)(const std::string& op, Random& random);
  int64_t (*terms)(const KernelCase& one) = nullptr;
};

/// 1, primes, powers of two and their neighbors.
int64_t extent(Random& random, int64_t largest);
/// Mostly small ones; sometimes one that several chunks have to share.
void draw_extents(Random& random, Integers& extents);
/// Of such extents.
Shape any_shape(Random& random, int least_rank = 0);
/// [N, C, H, W]
Shape image_shape(Random& random);
int64_t pick_axis(Random& random, const Shape& shape);
/// An operand that broadcasts to `out`: axes repeated, leading ones left out.
Shape repeated(Random& random, const Shape& out);
/// With long axes of [first, end) made short, where these are more rows than a few chunks: kernels
/// that work row by row are slow where each thread is a fiber.
Shape with_few_rows(Shape shape, int64_t first, int64_t end);
DType pick_integer(Random& random);

/// Windows along one axis.
struct Windows {
  int64_t size, stride, before, after, dilation;

  /// Such that at least one fits `input`, and none lies in the padding alone.
  static Windows draw(Random& random, int64_t input, bool dilate);
  int64_t count(int64_t input) const;
};

#define FLOW_CASES(family) std::span<const CaseMaker> family##_cases();
#include "tests/property/cases/cases.def"
#undef FLOW_CASES

}  // namespace flow::test
