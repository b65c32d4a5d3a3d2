// Selects the tolerance of an array by its dtype, name and step. Finds constant arrays, and
// tolerances that are wider than the values that they judge. Measures the spreads of arrays over
// several runs, and derives tolerances from them.
#include "runtime/compare/tolerance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/display.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/io/elements.h"
#include "runtime/io/npy.h"

namespace flow::compare {
namespace {

template <typename T>
Spread spread_in(std::span<const T> values) {
  Spread spread;
  double sum = 0, magnitude = 0, squares = 0;
  spread.constant = values.size() >= 2;
  for (const T& element : values) {
    const auto value = static_cast<double>(element);
    spread.constant &= value == static_cast<double>(values.front());
    if (!std::isfinite(value)) continue;
    ++spread.finite;
    sum += value;
    magnitude += std::abs(value);
  }
  if (spread.finite == 0) return spread;
  const auto count = static_cast<double>(spread.finite);
  for (const T& element : values)
    if (const auto value = static_cast<double>(element); std::isfinite(value))
      squares += (value - sum / count) * (value - sum / count);
  spread.deviation = std::sqrt(squares / count);
  spread.mean_magnitude = magnitude / count;
  return spread;
}

// Errors above this mean that two trajectories have diverged: one flipped ReLU suffices for that,
// and rounding does not reach it.
constexpr double kChaotic = 1e-3;
// An error that rounding does not reach in one step if everything else agrees.
constexpr double kFar = 0.1;
// Another machine counts as one more setting, whose distance may exceed all distances that were
// measured.
constexpr double kMargin = 4;

/// Returns the least relative distance of results that were rounded at different places: two units
/// in the last place.
double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat64:
      return 0x1p-51;
    case DType::kFloat32:
      return 0x1p-22;
    case DType::kFloat16:
      return 0x1p-9;
    default:
      return 0;
  }
}

/// Rounds a bound up to one significant digit: 1.7e-6 becomes 2e-6.
double rounded_up(double bound) {
  if (bound <= 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(bound)));
  return std::ceil(bound / unit - 1e-9) * unit;
}

/// The errors of one array, separately for each slice: its steps, or the whole array.
class SpreadOfArray {
 public:
  SpreadOfArray(std::string name, const Array& reference, std::vector<int64_t> steps)
      : values_(doubles_of(reference.view())), steps_(std::move(steps)), dtype_(reference.dtype()) {
    spread_.name = std::move(name);
    errors_.resize(std::max<size_t>(1, steps_.size()));
  }

  void add(const std::string& setting, const Array& other) {
    const Doubles values = doubles_of(other.view());
    const size_t slice = slice_size();
    for (size_t i = 0; i < values.size(); ++i) {
      const double error = std::abs(values[i] - values_[i]);
      double& largest = errors_[i / slice];
      if (!(error > largest)) continue;
      largest = error;
      if (error > peak_) {
        peak_ = error;
        spread_.worst = setting;
      }
    }
  }

  bool is_far_at_once() const { return errors_[0] > kFar * scale_of(0); }

  /// Returns nothing for an array of integers with equal results.
  std::optional<ArraySpread> result() {
    if (peak_ == 0 && !is_float(dtype_)) return {};
    const double rounding = rounding_of(dtype_);
    size_t judged = 0;
    for (; judged < errors_.size(); ++judged) {
      const double scale = scale_of(judged);
      const double relative = scale > 0 ? errors_[judged] / scale : 0;
      if (relative > kChaotic) break;
      spread_.relative = std::max(spread_.relative, relative);
      spread_.spread = std::max({spread_.spread, errors_[judged], rounding * scale});
    }
    if (judged < errors_.size())
      spread_.last_step = judged > 0 ? steps_[judged - 1] : steps_.empty() ? -1 : steps_[0] - 1;
    spread_.tolerance = rounded_up(kMargin * spread_.spread);
    return std::move(spread_);
  }

 private:
  size_t slice_size() const { return std::max<size_t>(1, values_.size() / errors_.size()); }

  /// Returns the root mean square of the reference in a slice.
  double scale_of(size_t slice) const {
    const size_t size = slice_size();
    double squares = 0;
    size_t finite = 0;
    for (size_t i = slice * size; i < std::min((slice + 1) * size, values_.size()); ++i) {
      if (!std::isfinite(values_[i])) continue;
      squares += values_[i] * values_[i];
      ++finite;
    }
    return finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  }

  const Doubles values_;
  const std::vector<int64_t> steps_;
  const DType dtype_;
  Doubles errors_;
  double peak_ = 0;
  ArraySpread spread_;
};

SpreadOfArray errors_of(const Side& reference, const std::string& name, const Array& golden) {
  return {name, golden, steps_of(reference, name, golden.shape().rank() ? golden.shape()[0] : 0)};
}

std::string quoted_key(const std::string& name) {
  std::string text = "\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') text.push_back('\\');
    text.push_back(c);
  }
  text.push_back('"');
  return text;
}

std::string evidence_of(const ArraySpread& spread) {
  if (spread.worst.empty()) return "all settings agree; two units in the last place";
  if (spread.spread == 0) return fmt::format("more than {:g} of the root mean square", kChaotic);
  return fmt::format("largest error with {}, {:.2g} of the root mean square", spread.worst,
                     spread.relative);
}

}  // namespace

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

Tolerance ToleranceRule::at_step(int64_t step) const {
  Tolerance found = tolerance;
  for (const StepTolerance& range : steps)
    if (step >= range.first && step < range.end) found = range.tolerance;
  return found;
}

double ToleranceRule::widest_relative() const {
  double widest = tolerance.relative;
  for (const StepTolerance& range : steps) widest = std::max(widest, range.tolerance.relative);
  return widest;
}

ToleranceRule rule_of(const std::string& name, DType dtype, const ToleranceRules& rules) {
  ToleranceRule found;
  found.tolerance = default_tolerance(dtype);
  if (is_float(dtype)) {
    found.tolerance.relative = rules.relative.value_or(found.tolerance.relative);
    found.tolerance.absolute = rules.absolute.value_or(found.tolerance.absolute);
  }
  for (const ToleranceRule& rule : rules.rules)
    if (glob_match(rule.glob, name)) found = rule;
  return found;
}

Spread spread_of(const ArrayView& golden) {
  return io::visit_elements(golden, [](auto values) {
    using T = std::remove_const_t<typename decltype(values)::element_type>;
    return spread_in<T>(values);
  });
}

std::vector<std::string> doubts_of_values(const ArrayView& golden, const Spread& spread,
                                          const std::string& first) {
  if (!is_float(golden.dtype) || !spread.constant) return {};
  return {fmt::format("golden is constant: every element is {}", first)};
}

bool is_too_wide(const Tolerance& tolerance, const Spread& spread) {
  if (spread.finite < 2) return false;
  return tolerance.relative >= 1 || tolerance.at(spread.mean_magnitude) >= spread.deviation;
}

std::vector<ArraySpread> measure_spreads(const Side& reference,
                                         const std::vector<Setting>& settings) {
  std::vector<ArraySpread> spreads;
  for (const auto& [name, path] : reference.arrays) {
    const Array golden = io::read_npy(path);
    SpreadOfArray spread = errors_of(reference, name, golden);
    bool comparable = true;
    for (const Setting& setting : settings) {
      const auto other = setting.run.arrays.find(name);
      if (other == setting.run.arrays.end()) continue;
      const Array array = io::read_npy(other->second);
      comparable &= array.shape() == golden.shape();
      if (comparable) spread.add(setting.name, array);
    }
    if (!comparable) continue;
    if (auto found = spread.result()) spreads.push_back(*std::move(found));
  }
  return spreads;
}

bool computes_otherwise(const Side& reference, const std::vector<ArraySpread>& others,
                        const Setting& setting) {
  return std::ranges::any_of(others, [&](const ArraySpread& known) {
    const auto found = setting.run.arrays.find(known.name);
    if (known.last_step == -1 || found == setting.run.arrays.end()) return false;
    const Array golden = io::read_npy(reference.arrays.at(known.name));
    const Array value = io::read_npy(found->second);
    if (golden.shape() != value.shape()) return true;
    SpreadOfArray spread = errors_of(reference, known.name, golden);
    spread.add(setting.name, value);
    return spread.is_far_at_once();
  });
}

std::string tolerances_text(const std::vector<ArraySpread>& spreads,
                            const std::vector<std::string>& settings, const std::string& title) {
  std::string text = fmt::format("# {}\n# Measured over {}: {}.\narrays:\n", escaped(title),
                                 counted(settings.size(), "setting"), join(settings, ", "));
  for (const ArraySpread& spread : spreads) {
    if (spread.last_step == -1) {
      text += fmt::format("  # {}: chaotic from the start; skip it with --ignore\n",
                          escaped(spread.name));
      continue;
    }
    text += fmt::format("  {}:\n    atol: {:.3g}\n    spread: {:.3g}\n", quoted_key(spread.name),
                        spread.tolerance, spread.spread);
    if (spread.last_step) text += fmt::format("    last_step: {}\n", *spread.last_step);
    text += fmt::format("    reason: {}{}\n", spread.last_step ? "chaotic in later steps; " : "",
                        evidence_of(spread));
  }
  return text;
}

}  // namespace flow::compare
