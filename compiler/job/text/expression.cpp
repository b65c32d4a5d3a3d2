// Implements a recursive-descent evaluator for `$(...)`. The operators, from lowest to highest
// precedence, are `a if c else b`, `or`, `and`, `not`, comparisons (chained as in Python), `+ -`,
// `* / // %`, unary `+ -`, and `**`.
#include "compiler/job/text/expression.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "compiler/job/text/values.h"
#include "runtime/base/display.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using Value = ExpressionValue;
constexpr int kMaxNesting = 64;

bool is_float(const Value& value) { return std::holds_alternative<double>(value); }
double number(const Value& value) {
  return std::visit([](auto v) { return static_cast<double>(v); }, value);
}
/// REQUIRES: the value is not a float.
int64_t integer(const Value& value) {
  const bool* truth = std::get_if<bool>(&value);
  return truth ? *truth : std::get<int64_t>(value);
}
bool is_true(const Value& value) { return number(value) != 0; }

bool less(const Value& a, const Value& b) {
  return is_float(a) || is_float(b) ? number(a) < number(b) : integer(a) < integer(b);
}
bool equal(const Value& a, const Value& b) {
  return is_float(a) || is_float(b) ? number(a) == number(b) : integer(a) == integer(b);
}

class Evaluator : private TextScanner {
 public:
  Evaluator(std::string_view text, const Lookup& lookup, ExpressionError& error)
      : TextScanner(text), lookup_(lookup), error_(error) {}

  std::optional<Value> run() {
    Value value = conditional();
    skip_space();
    if (!failed_ && at_ < text_.size()) unexpected(at_);
    if (!failed_ && no_value_) error_ = *no_value_;
    if (failed_ || no_value_) return {};
    return value;
  }

 private:
  /// Records an error. The first error is kept, and the rest of the text is skipped, so that every
  /// caller returns.
  Value fail(size_t offset, std::string message) {
    if (!failed_) error_ = {offset, std::move(message)};
    failed_ = true;
    at_ = text_.size();
    return int64_t{0};
  }

  /// Reports an unexpected character, which may be a non-ASCII character that looks like an
  /// operator.
  Value unexpected(size_t at) {
    if (at == text_.size()) return fail(at, "unexpected end; expected a number");
    const std::string_view found = text_.substr(at, character_at(text_, at).bytes);
    const std::string ascii = with_ascii_punctuation(found);
    return fail(at, ascii == found ? fmt::format("unexpected `{}`", found)
                                   : fmt::format("unexpected `{}`; expected `{}`", found, ascii));
  }

  /// Records that a part of the expression is well-formed but has no value. This is an error unless
  /// `if else` does not use the part.
  Value no_value(size_t offset, std::string message) {
    if (!no_value_) no_value_ = ExpressionError{offset, std::move(message)};
    return int64_t{0};
  }

  Value conditional() {
    if (++depth_ > kMaxNesting) return fail(at_, "the expression is nested too deeply");
    const std::optional<ExpressionError> before = std::exchange(no_value_, {});
    Value value = disjunction();
    if (take_word("if")) {
      const auto of_value = std::exchange(no_value_, {});
      const Value condition = disjunction();
      if (!take_word("else")) return fail(at_, "`if` requires `else`");
      const auto of_condition = std::exchange(no_value_, {});
      const Value other = conditional();
      if (is_true(condition)) no_value_ = of_value;
      if (!is_true(condition)) value = other;
      if (of_condition) no_value_ = of_condition;
    }
    if (before) no_value_ = before;
    --depth_;
    return value;
  }

  Value disjunction() { return logical("or", &Evaluator::conjunction); }
  Value conjunction() { return logical("and", &Evaluator::negation); }

  /// Evaluates parts that the word joins. After the first part that determines the result, missing
  /// values of other parts are ignored.
  Value logical(std::string_view word, Value (Evaluator::*part)()) {
    Value left = (this->*part)();
    while (take_word(word)) {
      const bool decided = is_true(left) == (word == "or");
      const std::optional<ExpressionError> before = std::exchange(no_value_, {});
      const Value right = (this->*part)();
      if (decided || before) no_value_ = before;
      left = is_true(decided ? left : right);
    }
    return left;
  }

  Value negation() {
    bool negated = false, any = false;
    for (; take_word("not"); any = true) negated = !negated;
    const Value value = comparison();
    return any ? Value(is_true(value) != negated) : value;
  }

  Value comparison() {
    Value left = sum();
    bool any = false, holds = true;
    for (;;) {
      const size_t from = at_;
      bool result = false;
      Value right;
      if (take("<="))
        right = sum(), result = !less(right, left);
      else if (take(">="))
        right = sum(), result = !less(left, right);
      else if (take("=="))
        right = sum(), result = equal(left, right);
      else if (take("!="))
        right = sum(), result = !equal(left, right);
      else if (take("<"))
        right = sum(), result = less(left, right);
      else if (take(">"))
        right = sum(), result = less(right, left);
      else if (take("="))
        return fail(from, "unexpected `=`; expected `==`");
      else
        break;
      any = true;
      holds = holds && result;
      left = right;
    }
    return any ? Value(holds) : left;
  }

  Value sum() {
    Value left = product();
    for (;;) {
      skip_space();
      const size_t from = at_;
      if (take("+"))
        left = arithmetic(from, '+', left, product());
      else if (take("-"))
        left = arithmetic(from, '-', left, product());
      else
        return left;
    }
  }

  Value product() {
    Value left = unary();
    for (;;) {
      skip_space();
      const size_t from = at_;
      if (take("//"))
        left = floored(from, left, unary(), true);
      else if (take("*"))
        left = arithmetic(from, '*', left, unary());
      else if (take("/"))
        left = quotient(from, left, unary());
      else if (take("%"))
        left = floored(from, left, unary(), false);
      else
        return left;
    }
  }

  Value unary() {
    if (++depth_ > kMaxNesting) return fail(at_, "the expression is nested too deeply");
    skip_space();
    const size_t from = at_;
    Value value;
    if (take("-"))
      value = arithmetic(from, '-', int64_t{0}, unary());
    else if (take("+"))
      value = arithmetic(from, '+', int64_t{0}, unary());
    else
      value = power();
    --depth_;
    return value;
  }

  Value power() {
    const Value base = atom();
    skip_space();
    const size_t from = at_;
    return take("**") ? raised(from, base, unary()) : base;
  }

  Value atom() {
    skip_space();
    const size_t from = at_;
    if (at_ >= text_.size()) return fail(at_, "the expression ends too early");
    if (take("(")) {
      const Value value = conditional();
      return take(")") ? value : fail(from, "unclosed parenthesis");
    }
    if (const std::string_view word = peek_word(); !word.empty()) {
      at_ += word.size();
      if (word == "min" || word == "max") return extreme(from, word == "min");
      if (word == "true" || word == "false") return word == "true";
      if (take("("))
        return fail(from, fmt::format("unknown function `{}`; expected `min` or `max`", word));
      ExpressionError missing{from, {}};
      const auto value = lookup_(word, missing);
      return value ? *value : fail(from, missing.message);
    }
    return literal();
  }

  Value literal() {
    const size_t from = at_;
    const auto part_of_number = [this](size_t i) {
      const char c = text_[i];
      return (c >= '0' && c <= '9') || c == '.' || c == 'e' || c == 'E' || c == '_' ||
             ((c == '-' || c == '+') && (text_[i - 1] == 'e' || text_[i - 1] == 'E'));
    };
    size_t end = from;
    while (end < text_.size() &&
           (end == from ? text_[end] == '.' || std::isdigit(static_cast<unsigned char>(text_[end]))
                        : part_of_number(end)))
      ++end;
    const std::string_view word = text_.substr(from, end - from);
    if (word.empty()) return unexpected(from);
    const auto value = parse_number(word);
    if (!value) return fail(from, fmt::format("unexpected `{}`; expected a number", word));
    at_ = end;
    if (word.find_first_of(".eE") != std::string_view::npos) return *value;
    if (const auto whole = parse_integer(word)) return *whole;
    return fail(from, fmt::format("`{}` is too large for 64 bits", word));
  }

  Value extreme(size_t from, bool smallest) {
    if (!take("(")) return fail(from, "`min` and `max` require values in parentheses");
    Value best = conditional();
    while (take(",")) {
      const Value next = conditional();
      if (smallest ? less(next, best) : less(best, next)) best = next;
    }
    return take(")") ? best : fail(from, "unclosed parenthesis");
  }

  Value finite(size_t from, double value) {
    return std::isfinite(value) ? Value(value)
                                : no_value(from, "the result is not a finite number");
  }

  Value arithmetic(size_t from, char op, const Value& a, const Value& b) {
    if (is_float(a) || is_float(b)) {
      const double x = number(a), y = number(b);
      return finite(from, op == '+' ? x + y : op == '-' ? x - y : x * y);
    }
    int64_t result = 0;
    const int64_t x = integer(a), y = integer(b);
    const bool overflow = op == '+'   ? __builtin_add_overflow(x, y, &result)
                          : op == '-' ? __builtin_sub_overflow(x, y, &result)
                                      : __builtin_mul_overflow(x, y, &result);
    return overflow ? no_value(from, "the result is too large for 64 bits") : Value(result);
  }

  Value quotient(size_t from, const Value& a, const Value& b) {
    if (failed_) return a;
    if (!is_true(b)) return no_value(from, "division by zero");
    const bool whole =
        !is_float(a) && !is_float(b) && integer(b) != -1 && integer(a) % integer(b) == 0;
    if (whole) return integer(a) / integer(b);
    if (!is_float(a) && !is_float(b) && integer(b) == -1)
      return arithmetic(from, '-', int64_t{0}, a);
    return finite(from, number(a) / number(b));
  }

  /// Returns a // b, or a % b, which has the sign of b.
  Value floored(size_t from, const Value& a, const Value& b, bool division) {
    if (failed_) return a;
    if (!is_true(b)) return no_value(from, "division by zero");
    if (is_float(a) || is_float(b)) {
      const double x = number(a), y = number(b);
      double remainder = std::fmod(x, y);
      if (remainder != 0 && (remainder < 0) != (y < 0)) remainder += y;
      return finite(from, division ? std::round((x - remainder) / y) : remainder);
    }
    const int64_t x = integer(a), y = integer(b);
    if (y == -1) return division ? arithmetic(from, '-', int64_t{0}, a) : Value(int64_t{0});
    const bool below = x % y != 0 && (x % y < 0) != (y < 0);
    return division ? x / y - below : x % y + (below ? y : 0);
  }

  Value raised(size_t from, const Value& a, const Value& b) {
    if (failed_) return a;
    if (is_float(a) || is_float(b) || integer(b) < 0) {
      if (!is_true(a) && number(b) < 0) return no_value(from, "division by zero");
      return finite(from, std::pow(number(a), number(b)));
    }
    Value result = int64_t{1}, square = a;
    for (int64_t n = integer(b); n > 0 && !failed_ && !no_value_; n >>= 1) {
      if (n & 1) result = arithmetic(from, '*', result, square);
      if (n > 1) square = arithmetic(from, '*', square, square);
    }
    return result;
  }

  const Lookup& lookup_;
  ExpressionError& error_;
  int depth_ = 0;
  bool failed_ = false;
  std::optional<ExpressionError> no_value_;  // the first one among the parts that are used
};

}  // namespace

std::string to_text(const ExpressionValue& value) {
  if (const bool* truth = std::get_if<bool>(&value)) return *truth ? "true" : "false";
  if (const int64_t* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  return shortest(std::get<double>(value));
}

std::optional<ExpressionValue> evaluate(std::string_view text, const Lookup& lookup,
                                        ExpressionError& error) {
  return Evaluator(text, lookup, error).run();
}

}  // namespace flow::job
