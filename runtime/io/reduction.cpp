// Reduces all elements of several arrays to one number.
#include "runtime/io/reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "runtime/io/elements.h"

namespace flow::io {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

Reduction::Reduction(plan::Reduce kind, DType dtype) : kind_(kind), dtype_(dtype) {
  FLOW_CHECK(kind != plan::Reduce::kNone);
}

void Reduction::add(const ArrayView& array) {
  FLOW_CHECK(array.dtype == dtype_);
  const bool squares = kind_ == plan::Reduce::kNorm;
  visit_elements(array, [&](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    for (const T element : values) {
      const auto x = static_cast<double>(element);
      if constexpr (std::is_integral_v<T> || std::is_same_v<T, Bool>) {
        const auto whole = static_cast<int64_t>(element);
        sums_.whole += static_cast<uint64_t>(whole);
        sums_.whole_least = std::min(sums_.whole_least, whole);
        sums_.whole_most = std::max(sums_.whole_most, whole);
      }
      const double term = squares ? x * x : x;
      const double total = sums_.sum + term;
      sums_.lost += std::abs(sums_.sum) >= std::abs(term) ? (sums_.sum - total) + term
                                                          : (term - total) + sums_.sum;
      sums_.sum = total;
      sums_.least = x < sums_.least || std::isnan(x) ? x : sums_.least;
      sums_.most = x > sums_.most || std::isnan(x) ? x : sums_.most;
    }
    sums_.count += static_cast<int64_t>(values.size());
  });
}

std::vector<uint64_t> Reduction::held() const {
  const auto words = std::bit_cast<Words>(sums_);
  return {words.begin(), words.end()};
}

void Reduction::resume(std::span<const uint64_t> held) {
  Words words;
  if (held.size() != words.size())
    throw RequestError(
        fmt::format("found {} numbers for a reduction; expected {}", words.size(), held.size()));
  std::ranges::copy(held, words.begin());
  sums_ = std::bit_cast<Sums>(words);
}

double Reduction::value() const {
  // An infinite sum has no rounding error to compensate.
  const double sum = std::isfinite(sums_.sum) ? sums_.sum + sums_.lost : sums_.sum;
  switch (kind_) {
    case plan::Reduce::kMean:
      return sums_.count > 0 ? sum / static_cast<double>(sums_.count) : kNaN;
    case plan::Reduce::kSum:
      return sum;
    case plan::Reduce::kMin:
      return sums_.count > 0 ? sums_.least : kNaN;
    case plan::Reduce::kMax:
      return sums_.count > 0 ? sums_.most : kNaN;
    case plan::Reduce::kNorm:
      return std::sqrt(sum);
    case plan::Reduce::kNone:
      break;
  }
  FLOW_CHECK(false);
}

Array Reduction::result(double scale) const {
  const double number = value();
  if (is_low_precision(dtype_))
    return scalar_array(DType::kFloat32, number * scale);  // float32 has the range for the result
  if (is_float(dtype_)) return scalar_array(dtype_, number * scale);
  const bool extreme = kind_ == plan::Reduce::kMin || kind_ == plan::Reduce::kMax;
  const bool whole = scale == 1 && (extreme || kind_ == plan::Reduce::kSum);
  if (!whole || std::isnan(number)) return scalar_array(DType::kFloat64, number * scale);
  if (extreme && dtype_ != DType::kInt64) return scalar_array(dtype_, number);
  Array exact(DType::kInt64, {});
  exact.as<int64_t>()[0] = kind_ == plan::Reduce::kMin   ? sums_.whole_least
                           : kind_ == plan::Reduce::kMax ? sums_.whole_most
                                                         : static_cast<int64_t>(sums_.whole);
  return exact;
}

Array scalar_array(DType dtype, double value) {
  Array array(dtype, {});
  visit_stored(dtype, [&](auto element) {
    element = element_of<decltype(element)>(value);
    std::memcpy(array.bytes().data(), &element, sizeof(element));
  });
  return array;
}

Array scaled(const ArrayView& array, double factor) {
  Array result(is_float(array.dtype) ? array.dtype : DType::kFloat64, array.shape);
  scale(array, factor, result);
  return result;
}

void scale(const ArrayView& array, double factor, Array& result) {
  FLOW_CHECK(array.shape.elements() <= result.shape().elements());
  visit_elements(array, [&](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    constexpr bool kWhole = std::is_integral_v<T> || std::is_same_v<T, Bool>;
    using Scaled = std::conditional_t<kWhole, double, T>;
    FLOW_CHECK(result.dtype() == DTypeOf<Scaled>::value);
    auto* out = reinterpret_cast<Scaled*>(result.bytes().data());
    for (size_t i = 0; i < values.size(); ++i)
      out[i] = element_of<Scaled>(static_cast<double>(values[i]) * factor);
  });
}

}  // namespace flow::io
