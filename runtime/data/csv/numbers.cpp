// Parses numbers of CSV files. Short numbers are computed with one exact multiplication or
// division; std::from_chars rounds the others.
#include "runtime/data/csv/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/data/csv/plain_number.h"

namespace flow::data {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// A number of any length. The mantissa has its first 19 significant digits, which fit in 64 bits.
struct Decimal : PlainNumber {
  bool dropped = false;  // true if a nonzero digit follows those of the mantissa
  int digits = 0;        // significant digits in the mantissa
};

constexpr int64_t kExponentLimit = 1'000'000'000;  // more than a field has digits

class DecimalParser {
 public:
  DecimalParser(std::string_view text, char decimal)
      : at_(text.data()), end_(at_ + text.size()), decimal_(decimal) {}

  /// Returns false if the text is not a number.
  bool parse(Decimal& result) {
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) result.negative = *at_++ == '-';
    const bool whole = take_digits(result, 0);
    bool fraction = false;
    if (at_ != end_ && *at_ == decimal_) {
      ++at_;
      fraction = take_digits(result, -1);
    }
    return (whole || fraction) && take_exponent(result) && at_ == end_;
  }

 private:
  /// Appends digits to the mantissa, each of which changes the exponent by `step`. Returns true if
  /// there is one.
  bool take_digits(Decimal& result, int step) {
    const char* const begin = at_;
    for (; at_ != end_ && is_digit(*at_); ++at_) {
      if (result.digits == kMantissaDigits) {
        result.dropped |= *at_ != '0';
        result.exponent += step + 1;
        continue;
      }
      result.mantissa = result.mantissa * 10 + static_cast<uint64_t>(*at_ - '0');
      result.digits += result.mantissa != 0;
      result.exponent += step;
    }
    return at_ != begin;
  }

  bool take_exponent(Decimal& result) {
    if (at_ == end_ || (*at_ != 'e' && *at_ != 'E')) return true;
    ++at_;
    const bool negative = at_ != end_ && *at_ == '-';
    if (at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
    const char* const begin = at_;
    int64_t exponent = 0;
    for (; at_ != end_ && is_digit(*at_); ++at_)
      exponent = std::min(exponent * 10 + (*at_ - '0'), kExponentLimit);
    result.exponent += negative ? -exponent : exponent;
    return at_ != begin;
  }

  const char* at_;
  const char* end_;
  char decimal_;
};

/// Rounds a text of the grammar, in which `decimal` is the decimal mark.
NumberFault round_text(std::string_view text, char decimal, const Decimal& number, double& value) {
  std::string copy;
  if (decimal != '.') {
    copy = text;
    std::ranges::replace(copy, decimal, '.');
    text = copy;
  }
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec == std::errc() && std::isfinite(value)) return NumberFault::kNone;
  // std::from_chars also refuses numbers that round to zero.
  if (number.mantissa != 0 && number.digits + number.exponent > 0) return NumberFault::kRange;
  value = number.negative ? -0.0 : 0.0;
  return NumberFault::kNone;
}

/// Returns the length of the digits at the start of a text.
size_t leading_digits(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

/// Removes thousands marks between groups of three digits. Returns nothing if groups are wrong.
std::optional<std::string> without_groups(std::string_view text, char mark) {
  std::string plain;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    plain += text[0];
    text.remove_prefix(1);
  }
  size_t group = leading_digits(text);
  if (group < 1 || group > 3) return {};
  plain += text.substr(0, group);
  for (text.remove_prefix(group); text.starts_with(mark); text.remove_prefix(1 + group)) {
    group = leading_digits(text.substr(1));
    if (group != 3) return {};
    plain += text.substr(1, group);
  }
  return plain.append(text);
}

/// Calls `parse` with the text without blanks and thousands marks.
template <typename Parse>
NumberFault with_plain_text(std::string_view text, const CsvMarks& marks, Parse parse) {
  text = without_blanks(text);
  if (!marks.thousands || text.find(*marks.thousands) == text.npos) return parse(text);
  const auto plain = without_groups(text, *marks.thousands);
  return plain ? parse(*plain) : NumberFault::kSyntax;
}

/// Returns the exact value of a whole number.
NumberFault whole_value(Decimal number, int64_t& value) {
  if (number.mantissa == 0) return value = 0, NumberFault::kNone;
  // At least 19 digits precede a dropped digit.
  if (number.dropped) return number.exponent > 0 ? NumberFault::kRange : NumberFault::kFraction;
  for (; number.exponent < 0; ++number.exponent, number.mantissa /= 10)
    if (number.mantissa % 10 != 0) return NumberFault::kFraction;
  const uint64_t limit =
      static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (number.negative ? 1 : 0);
  for (; number.exponent > 0; --number.exponent, number.mantissa *= 10)
    if (number.mantissa > limit / 10) return NumberFault::kRange;
  if (number.mantissa > limit) return NumberFault::kRange;
  value = static_cast<int64_t>(number.negative ? 0 - number.mantissa : number.mantissa);
  return NumberFault::kNone;
}

}  // namespace

std::string_view without_blanks(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

double round_any_plain_number(const PlainNumber& number) {
  const std::string text =
      fmt::format("{}{}e{}", number.negative ? "-" : "", number.mantissa, number.exponent);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

NumberFault parse_csv_number(std::string_view text, const CsvMarks& marks, double& value) {
  return with_plain_text(text, marks, [&](std::string_view plain) {
    Decimal number;
    if (!DecimalParser(plain, marks.decimal).parse(number)) return NumberFault::kSyntax;
    if (!number.dropped && round_plain_number(number, value)) return NumberFault::kNone;
    return round_text(plain, marks.decimal, number, value);
  });
}

NumberFault parse_csv_integer(std::string_view text, const CsvMarks& marks, int64_t& value) {
  return with_plain_text(text, marks, [&](std::string_view plain) {
    Decimal number;
    if (!DecimalParser(plain, marks.decimal).parse(number)) return NumberFault::kSyntax;
    return whole_value(number, value);
  });
}

std::optional<bool> parse_csv_bool(std::string_view text) {
  constexpr std::array<std::string_view, 6> kTrue = {"true", "yes", "t", "y", "on", "1"};
  constexpr std::array<std::string_view, 6> kFalse = {"false", "no", "f", "n", "off", "0"};
  const auto is_text = [text = without_blanks(text)](std::string_view word) {
    return same_but_for_case(text, word);
  };
  if (std::ranges::any_of(kTrue, is_text)) return true;
  if (std::ranges::any_of(kFalse, is_text)) return false;
  return {};
}

}  // namespace flow::data
