// Formats arrays as NumPy 1.24 prints them. All printed elements have one format, which their
// extremes determine; rows are wrapped and in brackets, and the middle of long axes is omitted.
#include "runtime/io/numpy_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "runtime/io/elements.h"

namespace flow::io {

namespace {

constexpr int kPrecision = 8;
constexpr int64_t kThreshold = 1000;  // arrays with more elements than this are summarized
constexpr int64_t kEdge = 3;          // items that are printed at each end of a summarized axis
constexpr size_t kLineWidth = 75;

/// The number +-d.ddd * 10^exponent without trailing zeros; zero is "0" * 10^0.
struct Decimal {
  bool negative = false;
  std::string digits;
  int exponent = 0;

  int fraction_digits() const { return static_cast<int>(digits.size()) - 1 - exponent; }
  /// Returns the number without an exponent: "12.5", "0.001", "3."
  std::string positional() const;
  /// Returns the part before the exponent: "1.25", "-1."
  std::string significand() const;
};

/// Reads a number in scientific notation, such as "-1.25e-05".
Decimal parse_scientific(std::string_view text) {
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.remove_prefix(1);
  const size_t e = text.find('e');
  for (const char c : text.substr(0, e))
    if (c != '.') decimal.digits += c;
  decimal.exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const size_t last = decimal.digits.find_last_not_of('0');
  decimal.digits.resize(last == std::string::npos ? 1 : last + 1);
  return decimal;
}

template <typename T>
Decimal shortest_of(T value) {
  std::array<char, 40> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value, std::chars_format::scientific);
  return parse_scientific({text.data(), static_cast<size_t>(end.ptr - text.data())});
}

std::string Decimal::positional() const {
  const auto point = static_cast<size_t>(std::max(exponent + 1, 0));
  std::string text = digits;
  if (exponent < 0) {
    text.insert(0, static_cast<size_t>(-exponent - 1), '0');
    text.insert(0, "0.");
  } else {
    if (text.size() < point) text.append(point - text.size(), '0');
    text.insert(point, 1, '.');
  }
  if (negative) text.insert(0, 1, '-');
  return text;
}

std::string Decimal::significand() const {
  std::string text = digits;
  text.insert(1, 1, '.');
  if (negative) text.insert(0, 1, '-');
  return text;
}

/// Returns the shortest digits that identify `value` among all values of its type, and of those the
/// ones nearest to it. REQUIRES: `value` is finite.
Decimal shortest_decimal(double value) { return shortest_of(value); }

Decimal shortest_decimal(float value) { return shortest_of(value); }

Decimal shortest_decimal(Float16 value) {
  const double exact = value;
  if (exact == 0) return parse_scientific(std::signbit(exact) ? "-0e0" : "0e0");
  constexpr int kEnough = 4;  // digits after the first one that identify any float16
  for (int precision = 0;; ++precision) {
    // Where the spacing of the values changes, the nearest text may identify a neighbor while the
    // text next to it does not.
    const std::string nearest = fmt::format("{:.{}e}", exact, precision);
    const double unit = std::pow(10.0, std::atoi(&nearest[nearest.find('e') + 1]) - precision);
    std::string best;
    for (const double step : {0.0, unit, -unit}) {
      const std::string text =
          fmt::format("{:.{}e}", std::strtod(nearest.c_str(), nullptr) + step, precision);
      const double read = std::strtod(text.c_str(), nullptr);
      if (best.empty() && double_to_float16(read) == value.bits) best = text;
    }
    if (!best.empty()) return parse_scientific(best);
    FLOW_CHECK(precision < kEnough, "float16 {}", exact);
  }
}

/// Returns the exponent with its sign and at least two digits: "+09", "-100".
std::string exponent_text(int exponent) {
  return fmt::format("{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
}

/// Returns NumPy's str() of a scalar: "1.0", "2.3025851", "1e-05", "nan", "-inf".
template <typename T>
std::string scalar_text(T value) {
  const double wide = value;
  if (std::isnan(wide)) return "nan";
  if (std::isinf(wide)) return wide < 0 ? "-inf" : "inf";
  const Decimal decimal = shortest_decimal(value);
  const double size = std::abs(wide);
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    const std::string text = decimal.positional();
    return text.ends_with('.') ? text + '0' : text;
  }
  const std::string text = decimal.significand();
  return (text.ends_with('.') ? text.substr(0, text.size() - 1) : text) + 'e' +
         exponent_text(decimal.exponent);
}

std::string rtrim(std::string text, char c) {
  text.resize(text.find_last_not_of(c) + 1);
  return text;
}

/// Collects the flat indices of the elements that are printed.
void collect_shown(const Shape& shape, bool summarize, int axis, int64_t first,
                   std::vector<int64_t>& shown) {
  if (axis == shape.rank()) {
    shown.push_back(first);
    return;
  }
  const int64_t stride = shape.elements(axis + 1, shape.rank());
  const bool cut = summarize && shape[axis] > 2 * kEdge;
  for (int64_t i = 0; i < shape[axis]; ++i) {
    if (cut && i == kEdge) i = shape[axis] - kEdge;
    collect_shown(shape, summarize, axis + 1, first + i * stride, shown);
  }
}

/// The parts of a number: "-12" and "5" around the point, or those of a significand and its
/// exponent.
struct NumberText {
  std::string whole, fraction, exponent;
};

/// The common format of all printed floats of an array.
template <typename T>
class FloatFormat {
 public:
  explicit FloatFormat(const std::vector<T>& shown) {
    // The extremes and their quotient are computed in the array's precision, as in NumPy.
    Wide<T> least = 0, most = 0;
    bool any_finite = false, any_nonfinite = false, negative_infinity = false;
    for (const T value : shown) {
      const Wide<T> size = std::abs(static_cast<Wide<T>>(value));
      if (!std::isfinite(size)) {
        any_nonfinite = true;
        negative_infinity |= static_cast<Wide<T>>(value) < 0;
        continue;
      }
      any_finite = true;
      if (size == 0) continue;
      least = least == 0 ? size : std::min(least, size);
      most = std::max(most, size);
    }
    if (most != 0) {
      Wide<T> quotient = most / least;
      if constexpr (std::is_same_v<T, Float16>)
        quotient = float16_to_float(float_to_float16(quotient));
      exponential_ = most >= 1e8 || static_cast<double>(least) < 0.0001 || quotient > 1000;
    }
    if (any_finite) measure(shown);
    if (any_nonfinite) {
      const size_t right = right_ + 1;
      const size_t longest = negative_infinity ? 4 : 3;
      left_ = std::max(left_, longest > right ? longest - right : 0);
    }
  }

  std::string operator()(T value) const {
    if (!std::isfinite(static_cast<double>(value)))
      return fmt::format("{:>{}}", scalar_text(value), left_ + right_ + 1);
    if (!exponential_) {
      const NumberText text = positional(value);
      return fmt::format("{:>{}}.{:<{}}", text.whole, left_, text.fraction, right_);
    }
    const NumberText text = scientific(value, precision_);
    const std::string digits = fmt::format("{:0>{}}", text.exponent.substr(1), exponent_size_);
    return fmt::format("{:>{}}.{:0<{}}e{}{}", text.whole, left_, text.fraction, precision_,
                       text.exponent[0], digits);
  }

 private:
  void measure(const std::vector<T>& shown) {
    for (const T value : shown) {
      if (!std::isfinite(static_cast<double>(value))) continue;
      const NumberText text = exponential_ ? first_scientific(value) : positional(value);
      left_ = std::max(left_, text.whole.size());
      precision_ = std::max(precision_, static_cast<int>(text.fraction.size()));
      if (exponential_) exponent_size_ = std::max(exponent_size_, text.exponent.size() - 1);
    }
    right_ = static_cast<size_t>(precision_) + (exponential_ ? exponent_size_ + 2 : 0);
  }

  static NumberText positional(T value) {
    // The digits before the point are always exact, including those that are not needed to identify
    // the value.
    const Decimal decimal = shortest_decimal(value);
    const int places = std::clamp(decimal.fraction_digits(), 0, kPrecision);
    std::string text = decimal.fraction_digits() == places
                           ? decimal.positional()
                           : fmt::format("{:#.{}f}", static_cast<double>(value), places);
    if (places == kPrecision) text = rtrim(text, '0');
    const size_t point = text.find('.');
    return {text.substr(0, point), text.substr(point + 1), {}};
  }

  /// Formats the value with at most kPrecision digits after the point and no trailing zeros.
  static NumberText first_scientific(T value) {
    const Decimal decimal = shortest_decimal(value);
    if (static_cast<int>(decimal.digits.size()) - 1 > kPrecision) {
      NumberText text = scientific(value, kPrecision);
      text.fraction = rtrim(text.fraction, '0');
      return text;
    }
    return {decimal.significand().substr(0, decimal.negative ? 2 : 1), decimal.digits.substr(1),
            exponent_text(decimal.exponent)};
  }

  /// Formats the exact value, rounded to `precision` digits after the point.
  static NumberText scientific(T value, int precision) {
    const std::string text = fmt::format("{:#.{}e}", static_cast<double>(value), precision);
    const size_t point = text.find('.'), e = text.find('e');
    return {text.substr(0, point), text.substr(point + 1, e - point - 1),
            exponent_text(std::atoi(text.c_str() + e + 1))};
  }

  bool exponential_ = false;
  int precision_ = 0;
  size_t left_ = 0, right_ = 0, exponent_size_ = 0;
};

/// Arranges the elements of an array in rows with brackets.
class Layout {
 public:
  Layout(const Shape& shape, bool summarize, const std::function<std::string(int64_t)>& text_of)
      : shape_(shape), summarize_(summarize), text_of_(text_of) {}

  std::string text(int axis, int64_t first, const std::string& indent, size_t width) const {
    if (axis == shape_.rank()) return text_of_(first);
    const std::string inner = axis + 1 == shape_.rank() ? row(axis, first, indent, width)
                                                        : rows(axis, first, indent, width);
    return '[' + inner.substr(indent.size()) + ']';
  }

 private:
  bool cut(int axis) const { return summarize_ && shape_[axis] > 2 * kEdge; }

  /// Formats the last axis: its elements are in one row, which is wrapped at the line width.
  std::string row(int axis, int64_t first, const std::string& indent, size_t width) const {
    std::string done, line = indent;
    const auto add = [&](const std::string& word) {
      if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
        done += rtrim(line, ' ') + '\n';
        line = indent;
      }
      line += word;
    };
    const int64_t n = shape_[axis];
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) line += ' ';
      if (cut(axis) && i == kEdge) {
        add("...");
        line += ' ';
        i = n - kEdge;
      }
      add(text_of_(first + i));
    }
    return done + line;
  }

  /// Formats any other axis: its items are below each other, with empty lines between blocks.
  std::string rows(int axis, int64_t first, const std::string& indent, size_t width) const {
    const std::string separator(static_cast<size_t>(shape_.rank() - axis - 1), '\n');
    const int64_t stride = shape_.elements(axis + 1, shape_.rank()), n = shape_[axis];
    std::string all;
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) all += separator;
      if (cut(axis) && i == kEdge) {
        all += indent + "..." + separator;
        i = n - kEdge;
      }
      all += indent + text(axis + 1, first + i * stride, indent + ' ', width - 1);
    }
    return all;
  }

  const Shape& shape_;
  bool summarize_;
  const std::function<std::string(int64_t)>& text_of_;
};

bool is_summarized(const Shape& shape) { return shape.elements() > kThreshold; }

template <typename T>
std::string format_floats(const Shape& shape, std::span<const T> values) {
  if (shape.rank() == 0) return scalar_text(values[0]);
  std::vector<int64_t> indices;
  collect_shown(shape, is_summarized(shape), 0, 0, indices);
  std::vector<T> shown;
  for (const int64_t i : indices) shown.push_back(values[static_cast<size_t>(i)]);
  const FloatFormat<T> format(shown);
  return format_numpy(shape, [&](int64_t i) { return format(values[static_cast<size_t>(i)]); });
}

template <typename T>
std::string format_integers(const Shape& shape, std::span<const T> values) {
  std::vector<int64_t> indices;
  collect_shown(shape, is_summarized(shape), 0, 0, indices);
  size_t width = 0;
  for (const int64_t i : indices)
    width = std::max(width, fmt::formatted_size("{}", values[static_cast<size_t>(i)]));
  return format_numpy(shape, [&](int64_t i) {
    return fmt::format("{:>{}}", values[static_cast<size_t>(i)], width);
  });
}

}  // namespace

std::string format_numpy(const Shape& shape, const std::function<std::string(int64_t)>& text_of) {
  if (shape.elements() == 0) return "[]";
  return Layout(shape, is_summarized(shape), text_of).text(0, 0, " ", kLineWidth);
}

std::string format_numpy(const ArrayView& array) {
  if (array.shape.elements() == 0) return "[]";
  return visit_elements(array, [&](auto values) -> std::string {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    if constexpr (std::is_same_v<T, Bool>) {
      const char* yes = array.shape.rank() == 0 ? "True" : " True";
      return format_numpy(array.shape, [&](int64_t i) -> std::string {
        return values[static_cast<size_t>(i)] ? yes : "False";
      });
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      const std::vector<float> wide(values.begin(), values.end());
      return format_floats<float>(array.shape, wide);
    } else if constexpr (std::is_integral_v<T>) {
      return format_integers<T>(array.shape, values);
    } else {
      return format_floats<T>(array.shape, values);
    }
  });
}

std::string format_element(const ArrayView& array, int64_t index) {
  const ArrayView one = {array.dtype, Shape{},
                         array.data + static_cast<size_t>(index) * size_of(array.dtype)};
  return format_numpy(one);
}

std::string shape_tuple(const Shape& shape) {
  std::string text = shape.str();  // "[2, 3]"
  text.front() = '(';
  text.back() = ')';
  if (shape.rank() == 1) text.insert(text.size() - 1, 1, ',');
  return text;
}

}  // namespace flow::io
