// Checks the numbers of generators.
#include "runtime/plan/model/generators.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "runtime/base/array.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/named_values.h"

namespace flow::plan {
namespace {

using Kind = GeneratorFault::Kind;

constexpr double kWords = 0x1p32;     // an integer is drawn with one 32-bit word
constexpr double kDeviations = 5.77;  // no normal draw is farther from the mean: sqrt(48 ln 2)

class Examination {
 public:
  Examination(const FromGenerator& from, DType dtype, const Shape& shape,
              const std::set<std::string_view>& missing)
      : from_(from), dtype_(dtype), shape_(shape), numbers_(named_values(from).numbers) {
    std::erase_if(numbers_, [&](const auto& number) { return missing.contains(number.first); });
  }

  std::vector<GeneratorFault> faults() && {
    const bool fractions = is_a<generators::Uniform>() || is_a<generators::Normal>();
    if (fractions && !is_float(dtype_))
      add(Kind::kFractions, "",
          fmt::format("`{}` produces fractions, not {}", type_name(from_), name_of(dtype_)),
          "use random_int for integers");
    else
      for (const auto& [name, value] : numbers_) check_number(name, value);
    if (is_a<generators::Iota>()) check_count();
    if (has("low") && has("high")) check_range();
    if (has("mean") && has("stddev")) check_normal();
    return std::move(faults_);
  }

 private:
  template <typename T>
  bool is_a() const {
    return std::holds_alternative<T>(from_);
  }
  bool has(const char* number) const { return numbers_.contains(number); }
  double value(const char* number) const { return numbers_.at(number); }
  void add(Kind kind, std::string number, std::string message, std::string hint = {}) {
    faults_.push_back({kind, std::move(number), std::move(message), std::move(hint)});
  }

  void check_number(const std::string& name, double value) {
    const std::string is = fmt::format("`{}` is {}", name, shortest(value));
    const bool constant = is_a<generators::Constant>(), integers = is_a<generators::Integers>();
    if (!std::isfinite(value)) {  // allowed as an element, because the command line asks for it
      if (!constant || !is_float(dtype_))
        add(Kind::kMisfit, name, is + "; expected a finite number", holds(dtype_));
    } else if (name == "stddev" && value < 0) {
      add(Kind::kMisfit, name, is + "; expected at least 0");
    } else if (integers && value != std::floor(value)) {
      add(Kind::kMisfit, name, is + "; expected a whole number",
          "use random_uniform for fractions, with a float dtype");
    } else if ((integers || dtype_ == DType::kInt64) && std::abs(value) > kLastExact) {
      add(Kind::kMisfit, name,
          fmt::format("{}; expected {} to {}", is, shortest(-kLastExact), shortest(kLastExact)),
          "numbers are doubles, which are exact only up to that size");
    } else if (integers && name == "high") {
      const bool none = has("low") && value <= numbers_.at("low");
      if (!none && !can_hold(dtype_, value - 1))
        add(Kind::kMisfit, name,
            fmt::format("{}, so {} can occur, which is not a valid {}", is, shortest(value - 1),
                        name_of(dtype_)),
            holds(dtype_));
    } else if (!can_hold(dtype_, value)) {
      add(Kind::kMisfit, name, fmt::format("{}, which is not a valid {}", is, name_of(dtype_)),
          holds(dtype_));
    }
  }

  void check_count() {
    const auto last = static_cast<double>(shape_.elements() - 1);
    if (!can_hold(dtype_, last))
      add(Kind::kMisfit, "",
          fmt::format("`iota` counts the elements of {} up to {}, which is not a valid {}",
                      shape_.str(), shortest(last), name_of(dtype_)),
          holds(dtype_));
  }

  /// Checks `low` and `high` together.
  void check_range() {
    const double low = value("low"), high = value("high"), range = high - low;
    const std::string are = fmt::format("`low` is {} and `high` {}", shortest(low), shortest(high));
    if (is_a<generators::Integers>() && range > kWords)
      add(Kind::kMisfit, "",
          fmt::format("{}; expected `high - low` of at most {}", are, shortest(kWords)),
          "each integer uses 32 random bits");
    else if (low >= high)
      add(Kind::kOrder, "", are + "; expected `low` < `high`");
    else if (faults_.empty() && !std::isfinite(range))
      add(Kind::kMisfit, "", are + "; `high - low` is too large for float64",
          holds(DType::kFloat64));
  }

  void check_normal() {
    if (!faults_.empty()) return;
    const double mean = value("mean"), stddev = value("stddev");
    const double far = std::abs(mean) + kDeviations * stddev;
    if (!can_hold(dtype_, far))
      add(Kind::kMisfit, "",
          fmt::format(
              "`mean` is {} and `stddev` {}; values {} deviations from the mean do not fit {}",
              shortest(mean), shortest(stddev), shortest(kDeviations), name_of(dtype_)),
          holds(dtype_));
  }

  const FromGenerator& from_;
  DType dtype_;
  const Shape& shape_;
  std::map<std::string, double> numbers_;
  std::vector<GeneratorFault> faults_;
};

}  // namespace

std::vector<GeneratorFault> faults_of(const FromGenerator& from, DType dtype, const Shape& shape,
                                      const std::set<std::string_view>& missing) {
  return Examination(from, dtype, shape, missing).faults();
}

}  // namespace flow::plan
