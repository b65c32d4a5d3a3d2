// Judges results element by element.
#include "tests/property/tolerance.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "ops/core/spec.h"

namespace flow::test {

double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-52;
    case DType::kFloat16:
      return 0x1p-10;
    case DType::kBFloat16:
      return 0x1p-7;
    default:
      return 0x1p-23;
  }
}

namespace {

/// Of the operand and the result.
int64_t longest_side(const KernelCase& one) {
  int64_t longest = 0;
  for (const Shape& shape : {one.inputs[0].shape(), one.results[0].shape})
    for (const int64_t extent : shape) longest = std::max(longest, extent);
  return longest;
}

}  // namespace

Tolerance::Tolerance(const KernelCase& one, DType dtype) {
  const double epsilon = epsilon_of(dtype);
  const auto n = static_cast<double>(terms_of(one));
  relative_ = 4 * epsilon;
  absolute_ = n > 1 ? 4 * std::sqrt(n) * epsilon : 0;
  if (ops::find_spec(one.op)->product) add_chain(one, n, epsilon);
  // CUDA's powf has up to 4 wrong units; gradients multiply it twice, once by a logarithm.
  if (one.op.starts_with("pow")) relative_ = 8 * epsilon;
  // exp(x - max) for x up to 60 below: the difference is rounded to 4e-6 before it is raised. The
  // log of 1 + s is exact to the last bit of a double near 1.
  if (one.op == "sparse_softmax_cross_entropy_with_logits")
    relative_ = 64 * epsilon, absolute_ = 1e-15;
  // Weights are differences of places in the image, which are doubles of the size of its sides.
  if (one.op.starts_with("resize"))
    absolute_ += 8 * 0x1p-52 * static_cast<double>(longest_side(one));
}

/// A library may add up all products of an element in one lane: partial sums of numbers of mixed
/// signs grow with the root of n and are rounded n times, which tensor cores, fed with 16 bits, do
/// by cutting off.
void Tolerance::add_chain(const KernelCase& one, double n, double epsilon) {
  absolute_ *= std::max(1.0, std::sqrt(n) / 8);
  if (is_low_precision(one.inputs[0].dtype())) absolute_ += n / 16 * std::sqrt(n) / 3 * epsilon;
}

bool Tolerance::admits(double got, double expected) const {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) return true;
  return std::abs(got - expected) <= relative_ * std::abs(expected) + absolute_;
}

void require_near(const KernelCase& one, const Array& got, const Array& expected) {
  REQUIRE(got.dtype() == expected.dtype());
  require_near_rounded(one, got, expected);
}

void require_near_rounded(const KernelCase& one, const Array& got, const Array& exact) {
  const Tolerance tolerance(one, got.dtype());
  const int64_t n = got.shape().elements();
  for (int64_t i = 0; i < n; ++i) {
    const double a = number_at(got, i), b = number_at(exact, i);
    const bool near = is_float(got.dtype()) ? tolerance.admits(a, b) : a == b;
    if (near) continue;
    INFO("element " << i << " of " << got.shape().str());
    FAIL_CHECK(a << " instead of " << b << ", off by " << a - b);
    return;
  }
}

bool same_bits(const Array& a, const Array& b) {
  return a.bytes().size() == b.bytes().size() &&
         std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

bool same_bits(const KernelRun& a, const KernelRun& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (!same_bits(a.outputs[i], b.outputs[i])) return false;
  return true;
}

bool same_numbers(const Array& a, const Array& b) {
  if (a.bytes().size() != b.bytes().size()) return false;
  for (int64_t i = 0; i < a.shape().elements(); ++i) {
    const size_t bytes = size_of(a.dtype()), at = static_cast<size_t>(i) * bytes;
    if (std::memcmp(&a.bytes()[at], &b.bytes()[at], bytes) == 0) continue;
    if (!std::isnan(number_at(a, i)) || !std::isnan(number_at(b, i))) return false;
  }
  return true;
}

bool same_numbers(const KernelRun& a, const KernelRun& b) {
  for (size_t i = 0; i < a.outputs.size(); ++i)
    if (!same_numbers(a.outputs[i], b.outputs[i])) return false;
  return true;
}

}  // namespace flow::test
