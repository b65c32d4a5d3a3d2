// Reducing all elements of some arrays to one number.
#include "runtime/io/reduction.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "runtime/io/elements.h"

namespace flow::io {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

void store(double value, float& out) { out = static_cast<float>(value); }
void store(double value, double& out) { out = value; }
void store(double value, Float16& out) { out = {double_to_float16(value)}; }
void store(double value, BFloat16& out) { out = {double_to_bfloat16(value)}; }
void store(double value, Bool& out) { out = {static_cast<uint8_t>(value != 0)}; }
template <typename T>
void store(double value, T& out) {
  out = static_cast<T>(value);
}

}  // namespace

Reduction::Reduction(plan::Reduce kind, DType dtype) : kind_(kind), dtype_(dtype) {
  FLOW_CHECK(kind != plan::Reduce::kNone);
  clear();
}

void Reduction::clear() {
  count_ = 0;
  whole_sum_ = 0;
  whole_least_ = std::numeric_limits<int64_t>::max();
  whole_most_ = std::numeric_limits<int64_t>::min();
  sum_ = lost_ = 0;
  least_ = std::numeric_limits<double>::infinity();
  most_ = -least_;
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
        whole_sum_ += static_cast<uint64_t>(whole);
        whole_least_ = std::min(whole_least_, whole);
        whole_most_ = std::max(whole_most_, whole);
      }
      const double term = squares ? x * x : x;
      const double total = sum_ + term;
      lost_ += std::abs(sum_) >= std::abs(term) ? (sum_ - total) + term : (term - total) + sum_;
      sum_ = total;
      least_ = x < least_ || std::isnan(x) ? x : least_;
      most_ = x > most_ || std::isnan(x) ? x : most_;
    }
    count_ += static_cast<int64_t>(values.size());
  });
}

double Reduction::value() const {
  // Beyond the largest number there is nothing to compensate.
  const double sum = std::isfinite(sum_) ? sum_ + lost_ : sum_;
  switch (kind_) {
    case plan::Reduce::kMean:
      return count_ > 0 ? sum / static_cast<double>(count_) : kNaN;
    case plan::Reduce::kSum:
      return sum;
    case plan::Reduce::kMin:
      return count_ > 0 ? least_ : kNaN;
    case plan::Reduce::kMax:
      return count_ > 0 ? most_ : kNaN;
    case plan::Reduce::kNorm:
      return std::sqrt(sum);
    case plan::Reduce::kNone:
      break;
  }
  FLOW_CHECK(false);
  return kNaN;
}

Array Reduction::result(double scale) const {
  const double number = value();
  if (is_float(dtype_))
    return scalar_array(dtype_ == DType::kBFloat16 ? DType::kFloat32 : dtype_, number * scale);
  const bool extreme = kind_ == plan::Reduce::kMin || kind_ == plan::Reduce::kMax;
  const bool whole = scale == 1 && (extreme || kind_ == plan::Reduce::kSum);
  if (!whole || std::isnan(number)) return scalar_array(DType::kFloat64, number * scale);
  if (extreme && dtype_ != DType::kInt64) return scalar_array(dtype_, number);
  Array exact(DType::kInt64, {});
  exact.as<int64_t>()[0] = kind_ == plan::Reduce::kMin   ? whole_least_
                           : kind_ == plan::Reduce::kMax ? whole_most_
                                                         : static_cast<int64_t>(whole_sum_);
  return exact;
}

Array scalar_array(DType dtype, double value) {
  Array array(dtype, {});
  visit_dtype(dtype, [&](auto element) {
    store(value, element);
    std::memcpy(array.bytes().data(), &element, sizeof(element));
  });
  return array;
}

Array scaled(const ArrayView& array, double factor) {
  const DType dtype = is_float(array.dtype) ? array.dtype : DType::kFloat64;
  Array result(dtype, array.shape);
  visit_elements(array, [&](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    constexpr bool kWhole = std::is_integral_v<T> || std::is_same_v<T, Bool>;
    auto* out = reinterpret_cast<std::conditional_t<kWhole, double, T>*>(result.bytes().data());
    for (size_t i = 0; i < values.size(); ++i)
      store(static_cast<double>(values[i]) * factor, out[i]);
  });
  return result;
}

}  // namespace flow::io
