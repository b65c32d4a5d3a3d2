// Comparing two arrays element by element.
#include "runtime/io/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/text.h"
#include "runtime/io/elements.h"
#include "runtime/io/numpy_text.h"

namespace flow::io {

Tolerance default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return {1.3e-6, 1e-5};
    case DType::kFloat64:
      return {1e-7, 1e-7};
    case DType::kBFloat16:
      return {1.6e-2, 1e-5};
    case DType::kFloat16:
      return {1e-3, 1e-5};
    default:
      return {};
  }
}

namespace {

Tolerance tolerance_of(const std::string& name, DType dtype, const ToleranceRules& rules) {
  Tolerance tolerance = default_tolerance(dtype);
  if (is_float(dtype)) {
    tolerance.relative = rules.relative.value_or(tolerance.relative);
    tolerance.absolute = rules.absolute.value_or(tolerance.absolute);
  }
  for (const ToleranceRules::Rule& rule : rules.rules)
    if (glob_match(rule.glob, name)) tolerance = rule.tolerance;
  return tolerance;
}

/// |a - b|; of integers without overflow, rounded once.
template <typename T>
double distance(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    const auto wide = [](T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)); };
    return static_cast<double>(a > b ? wide(a) - wide(b) : wide(b) - wide(a));
  } else {
    return std::abs(static_cast<double>(a) - static_cast<double>(b));
  }
}

/// The flat index of the largest error so far.
struct Peak {
  double error = 0;
  int64_t at = -1;
  void raise(double other, int64_t index) {
    if (other > error) *this = {other, index};
  }
};

/// What one pass over two arrays finds; indices are flat.
struct Findings {
  Peak absolute, relative;
  int64_t first_over = -1;
  int64_t over = 0, nans = 0, infinities = 0;
  bool same = true;
};

template <typename T>
Findings find(std::span<const T> golden, std::span<const T> out, const Tolerance& tolerance) {
  Findings found;
  const auto over = [&](size_t i) {
    if (found.over++ == 0) found.first_over = static_cast<int64_t>(i);
  };
  for (size_t i = 0; i < golden.size(); ++i) {
    const auto a = static_cast<double>(out[i]), b = static_cast<double>(golden[i]);
    if (std::isnan(a) && std::isnan(b)) continue;
    const double error = distance(out[i], golden[i]);
    const bool same_infinity = std::isinf(a) && a == b;
    if (error == 0 || same_infinity) continue;
    found.same = false;
    if (std::isnan(a) || std::isnan(b)) {
      ++found.nans;
      over(i);
    } else if (std::isinf(a) || std::isinf(b)) {
      ++found.infinities;
      over(i);
    } else {
      found.absolute.raise(error, static_cast<int64_t>(i));
      if (b != 0) found.relative.raise(error / std::abs(b), static_cast<int64_t>(i));
      if (!(error <= tolerance.absolute + tolerance.relative * std::abs(b))) over(i);
    }
  }
  return found;
}

std::vector<int64_t> index_of(int64_t flat, const Shape& shape) {
  std::vector<int64_t> index(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0; flat /= shape[axis])
    index[static_cast<size_t>(axis)] = flat % shape[axis];
  return index;
}

}  // namespace

ArrayDifference compare(const std::string& name, const ArrayView& golden, const ArrayView& out,
                        const ToleranceRules& rules) {
  using Verdict = ArrayDifference::Verdict;
  ArrayDifference difference;
  difference.name = name;
  difference.dtype = golden.dtype;
  difference.shape = golden.shape;
  difference.tolerance = tolerance_of(name, golden.dtype, rules);
  if (golden.dtype != out.dtype) {
    difference.verdict = Verdict::kDType;
    difference.detail =
        fmt::format("golden is {}, out is {}", name_of(golden.dtype), name_of(out.dtype));
    return difference;
  }
  if (golden.shape != out.shape) {
    difference.verdict = Verdict::kShape;
    difference.detail = fmt::format("golden is {}, out is {}", golden.shape.str(), out.shape.str());
    return difference;
  }
  const Findings found = visit_elements(golden, [&](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    const std::span<const T> others(reinterpret_cast<const T*>(out.data), values.size());
    return find<T>(values, others, difference.tolerance);
  });
  const auto worst = [&](const Peak& peak) -> ArrayDifference::Worst {
    if (peak.at < 0) return {};
    return {peak.error, index_of(peak.at, golden.shape), format_element(golden, peak.at),
            format_element(out, peak.at)};
  };
  difference.elements = golden.shape.elements();
  difference.over = found.over;
  difference.nan_mismatches = found.nans;
  difference.inf_mismatches = found.infinities;
  difference.absolute = worst(found.absolute);
  difference.relative = worst(found.relative);
  if (found.first_over >= 0) {
    difference.first_mismatch = index_of(found.first_over, golden.shape);
    difference.first_golden = format_element(golden, found.first_over);
    difference.first_out = format_element(out, found.first_over);
  }
  difference.verdict = found.over > 0 ? Verdict::kDiffers
                       : found.same   ? Verdict::kEqual
                                      : Verdict::kWithin;
  return difference;
}

}  // namespace flow::io
