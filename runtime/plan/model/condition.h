// Conditions that decide when a hook fires. A condition tests statistics of the hook's tensor: "max
// > 1e3 or not_finite > 0".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// Statistics of the finite elements of a tensor, except for kNotFinite, the number of non-finite
/// elements, and kGradientNorm, the norm of all gradients of the job.
enum class Statistic { kMean, kStd, kMin, kMax, kZeros, kNotFinite, kNorm, kGradientNorm };

/// The names of the statistics in conditions.
inline constexpr std::array<std::string_view, 8> kStatistics = {
    "mean", "std", "min", "max", "zeros", "not_finite", "norm", "gradient_norm"};
/// The number of statistics, from the first one on, that are columns of the sink `stats`.
inline constexpr size_t kStatisticColumns = 6;
/// Indexed by Statistic.
using StatisticValues = std::array<double, kStatistics.size()>;

/// An error in the text of a condition, with the range of bytes where it is.
struct ConditionError {
  size_t begin = 0, end = 0;
  std::string message, hint;
};

/// Comparisons of statistics and numbers, joined by `and`, `or` and `not`.
class Condition {
 public:
  /// Evaluates the condition. Comparisons follow IEEE 754: a NaN differs from every number, and is
  /// neither less nor greater.
  bool holds(const StatisticValues& values) const;
  bool reads(Statistic statistic) const;

 private:
  friend class ConditionParser;

  struct Operand {
    std::optional<Statistic> statistic;  // nothing for a number
    double number = 0;
    double value(const StatisticValues& values) const {
      return statistic ? values[static_cast<size_t>(*statistic)] : number;
    }
  };
  enum class Op { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual, kAnd, kOr, kNot };
  /// A term in postfix order. A comparison has operands; the other terms use earlier results.
  struct Term {
    Op op;
    Operand left = {}, right = {};
  };
  std::vector<Term> terms_;
};

/// Parses a condition. Returns nothing, and fills `error`, if the text is wrong.
std::optional<Condition> parse_condition(std::string_view text, ConditionError& error);

}  // namespace flow::plan
