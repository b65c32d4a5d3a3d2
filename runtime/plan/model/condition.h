// When a hook fires: a condition on the statistics of its tensor, such as
// "max > 1e3 or not_finite > 0".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// Of the finite elements, but for the number of others, and the norm of all gradients of the job.
enum class Statistic { kMean, kStd, kMin, kMax, kZeros, kNotFinite, kNorm, kGradientNorm };

/// Their names in conditions.
inline constexpr std::array<std::string_view, 8> kStatistics = {
    "mean", "std", "min", "max", "zeros", "not_finite", "norm", "gradient_norm"};
/// The first of them, which are columns of the sink `stats`.
inline constexpr size_t kStatisticColumns = 6;
/// By Statistic.
using StatisticValues = std::array<double, kStatistics.size()>;

/// What is wrong with the text of a condition, and at which of its bytes.
struct ConditionError {
  size_t begin = 0, end = 0;
  std::string message, hint;
};

/// Comparisons of statistics and numbers, joined by `and`, `or` and `not`.
class Condition {
 public:
  /// As IEEE 754 compares: a NaN differs from every number, and is neither less nor greater.
  bool holds(const StatisticValues& values) const;
  bool reads(Statistic statistic) const;

 private:
  friend class ConditionParser;

  struct Operand {
    std::optional<Statistic> statistic;  // nothing: a number
    double number = 0;
    double value(const StatisticValues& values) const {
      return statistic ? values[static_cast<size_t>(*statistic)] : number;
    }
  };
  enum class Op { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual, kAnd, kOr, kNot };
  /// In postfix order: comparisons have operands, the others take earlier results.
  struct Term {
    Op op;
    Operand left = {}, right = {};
  };
  std::vector<Term> terms_;
};

/// Nothing after `error` has been filled.
std::optional<Condition> parse_condition(std::string_view text, ConditionError& error);

}  // namespace flow::plan
