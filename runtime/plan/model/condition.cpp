// A recursive-descent parser of conditions. Operators by precedence, loosest first: `or`, `and`,
// `not`, comparisons. Comparisons chain as in Python.
#include "runtime/plan/model/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"

namespace flow::plan {
namespace {

constexpr int kMostNesting = 16;
/// The largest number of intermediate results while a condition is evaluated.
constexpr size_t kMostWaiting = 64;

/// Names that other tools use for a statistic.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"nan", "not_finite"},
    {"nans", "not_finite"},
    {"inf", "not_finite"},
    {"infs", "not_finite"},
    {"nonfinite", "not_finite"},
    {"average", "mean"},
    {"avg", "mean"},
    {"stddev", "std"},
    {"sparsity", "zeros"},
    {"grad_norm", "gradient_norm"}};

std::string hint_for_name(std::string_view name) {
  for (const auto& [other, ours] : kOtherNames)
    if (same_but_for_case(name, other)) return fmt::format("did you mean `{}`?", ours);
  const std::vector<std::string> names(kStatistics.begin(), kStatistics.end());
  const std::vector<std::string> near = suggest(name, names);
  if (!near.empty()) return fmt::format("did you mean {}?", quoted_alternatives(near));
  return fmt::format("available statistics: {}", join(names, ", "));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

bool Condition::holds(const StatisticValues& values) const {
  uint64_t results = 0;  // a stack of bits; the lowest bit is the top
  const auto push = [&results](bool result) { results = results << 1 | uint64_t{result}; };
  const auto pop = [&results] { return std::exchange(results, results >> 1) & 1; };
  for (const Term& term : terms_) {
    const double a = term.left.value(values), b = term.right.value(values);
    switch (term.op) {
      case Op::kLess:
        push(a < b);
        break;
      case Op::kLessEqual:
        push(a <= b);
        break;
      case Op::kGreater:
        push(a > b);
        break;
      case Op::kGreaterEqual:
        push(a >= b);
        break;
      case Op::kEqual:
        push(a == b);
        break;
      case Op::kNotEqual:
        push(a != b);
        break;
      case Op::kAnd: {
        const bool last = pop() != 0;
        push(pop() != 0 && last);
        break;
      }
      case Op::kOr: {
        const bool last = pop() != 0;
        push(pop() != 0 || last);
        break;
      }
      case Op::kNot:
        push(pop() == 0);
        break;
    }
  }
  return (results & 1) != 0;
}

bool Condition::reads(Statistic statistic) const {
  return std::ranges::any_of(terms_, [=](const Term& term) {
    return term.left.statistic == statistic || term.right.statistic == statistic;
  });
}

class ConditionParser : private TextScanner {
 public:
  ConditionParser(std::string_view text, ConditionError& error)
      : TextScanner(text), error_(error) {}

  std::optional<Condition> run() {
    disjunction();
    skip_space();
    if (!failed_ && at_ < text_.size()) refuse_rest();
    if (failed_) return {};
    FLOW_CHECK(waiting_ == 1);
    return std::move(condition_);
  }

 private:
  using Op = Condition::Op;
  using Operand = Condition::Operand;

  /// Records the first error only. The rest of the text is then skipped, so that every caller
  /// returns.
  void fail(size_t begin, size_t end, std::string message, std::string hint = {}) {
    if (!failed_) error_ = {begin, std::max(end, begin), std::move(message), std::move(hint)};
    failed_ = true;
    at_ = text_.size();
  }

  /// Returns the whole character at `at`, which has one byte or more.
  std::string_view character_at(size_t at) const {
    size_t end = at + 1;
    while (end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0) == 0x80) ++end;
    return text_.substr(at, end - at);
  }

  void add(Op op, const Operand& left = {}, const Operand& right = {}) {
    condition_.terms_.push_back({op, left, right});
    if (op <= Op::kNotEqual) ++waiting_;
    if (op == Op::kAnd || op == Op::kOr) --waiting_;
    if (waiting_ > kMostWaiting && !failed_) fail_nesting();
  }

  void fail_nesting() { fail(at_, at_ + 1, "the condition is nested too deeply"); }

  void disjunction() {
    conjunction();
    while (take_word("or")) {
      conjunction();
      add(Op::kOr);
    }
  }

  void conjunction() {
    negation();
    while (take_word("and")) {
      negation();
      add(Op::kAnd);
    }
  }

  void negation() {
    bool negated = false;
    while (take_word("not")) negated = !negated;
    skip_space();
    const size_t open = at_;
    if (take("("))
      parenthesized(open);
    else
      comparison();
    if (negated) add(Op::kNot);
  }

  void parenthesized(size_t open) {
    if (++nesting_ > kMostNesting) return fail_nesting();
    disjunction();
    --nesting_;
    if (!failed_ && !take(")")) {
      skip_space();
      if (at_ == text_.size()) return fail(open, open + 1, "unclosed parenthesis");
      refuse_rest();
    }
  }

  void comparison() {
    const size_t begin = (skip_space(), at_);
    Operand left = operand();
    size_t end = at_;
    int comparisons = 0;
    while (const auto op = comparison_op()) {
      const Operand right = operand();
      if (!failed_ && !left.statistic && !right.statistic)
        return fail(begin, at_, "two numbers are compared; expected a statistic on one side",
                    fmt::format("available statistics: {}", fmt::join(kStatistics, ", ")));
      add(*op, left, right);
      if (++comparisons > 1) add(Op::kAnd);
      left = right;
      end = at_;
    }
    if (failed_ || comparisons > 0) return;
    if (const std::string_view found = peek_operator(); !found.empty())
      return fail(at_, at_ + found.size(), fmt::format("unexpected `{}`", found),
                  "compare by `<`, `<=`, `>`, `>=`, `==` or `!=`");
    const std::string_view given = text_.substr(begin, end - begin);
    fail(begin, end, fmt::format("`{}` is a number; expected a comparison", given),
         left.statistic ? fmt::format("write `{} > 0`", given) : "write such as `max > 1e3`");
  }

  /// Returns the text where a comparison operator is expected, or an empty text at an end.
  std::string_view peek_operator() {
    const std::string_view word = peek_word();
    if (at_ == text_.size() || text_[at_] == ')' || word == "and" || word == "or") return {};
    return word.empty() ? character_at(at_) : word;
  }

  std::optional<Op> comparison_op() {
    skip_space();
    const size_t from = at_;
    constexpr std::pair<std::string_view, Op> kOps[] = {
        {"<=", Op::kLessEqual}, {">=", Op::kGreaterEqual}, {"==", Op::kEqual},
        {"!=", Op::kNotEqual},  {"<", Op::kLess},          {">", Op::kGreater}};
    for (const auto& [symbol, op] : kOps)
      if (take(symbol)) return op;
    if (take("=")) fail(from, from + 1, "unexpected `=`", "write `==`");
    return {};
  }

  Operand operand() {
    skip_space();
    const size_t from = at_;
    const std::string_view word = peek_word();
    if (word.empty()) return number();
    at_ += word.size();
    const auto found = std::ranges::find(kStatistics, word);
    if (found != kStatistics.end()) return {static_cast<Statistic>(found - kStatistics.begin()), 0};
    if (word == "and" || word == "or" || word == "not")
      fail(from, at_, fmt::format("unexpected `{}`; expected a statistic or a number", word));
    else
      fail(from, at_, fmt::format("unknown statistic `{}`", word), hint_for_name(word));
    return {};
  }

  Operand number() {
    const size_t from = at_;
    const bool negative = take("-");
    if (!negative) take("+");
    size_t end = at_;
    while (end < text_.size() && is_in_number(end)) ++end;
    const std::string_view digits = text_.substr(at_, end - at_);
    if (digits.empty() || !(is_digit(digits[0]) || digits[0] == '.')) {
      refuse_operand(from);
      return {};
    }
    Operand made;
    const auto [stop, code] =
        std::from_chars(digits.data(), digits.data() + digits.size(), made.number);
    at_ = end;
    const std::string_view shown = text_.substr(from, end - from);
    if (stop != digits.data() + digits.size() || code == std::errc::invalid_argument)
      fail(from, end, fmt::format("invalid number `{}`", shown), "write such as 1e-3");
    else if (code != std::errc())
      fail(from, end, fmt::format("`{}` does not fit a float64", shown));
    if (negative) made.number = -made.number;
    return made;
  }

  /// Letters count as well, so that "10k" is one invalid number.
  bool is_in_number(size_t i) const {
    const char c = text_[i];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return is_digit(c) || c == '.' || (letter && i > at_) ||
           ((c == '-' || c == '+') && i > at_ && (text_[i - 1] == 'e' || text_[i - 1] == 'E'));
  }

  void refuse_operand(size_t from) {
    if (from >= text_.size())
      return fail(text_.size(), text_.size(),
                  "the condition ends too early; expected a statistic or a number");
    const std::string_view found = character_at(from);
    fail(from, from + found.size(),
         fmt::format("unexpected `{}`; expected a statistic or a number", found),
         found == "!" ? "write `not`" : "");
  }

  void refuse_rest() {
    constexpr std::pair<std::string_view, std::string_view> kWords[] = {
        {"&&", "write `and`"}, {"||", "write `or`"}, {"&", "write `and`"}, {"|", "write `or`"}};
    for (const auto& [symbol, hint] : kWords)
      if (text_.substr(at_).starts_with(symbol))
        return fail(at_, at_ + symbol.size(), fmt::format("unexpected `{}`", symbol),
                    std::string(hint));
    const std::string_view word = peek_word();
    const std::string_view found = word.empty() ? character_at(at_) : word;
    fail(at_, at_ + found.size(),
         fmt::format("unexpected `{}`; expected `and`, `or` or the end", found));
  }

  ConditionError& error_;
  Condition condition_;
  size_t waiting_ = 0;
  int nesting_ = 0;
  bool failed_ = false;
};

std::optional<Condition> parse_condition(std::string_view text, ConditionError& error) {
  return ConditionParser(text, error).run();
}

}  // namespace flow::plan
