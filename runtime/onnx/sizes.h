// Whole numbers that depend on sizes of a model's dimensions, and their values at other sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace flow::onnx {

/// A whole number. If it depends on variables, it has a value at the import and values at probes.
/// Probes are imports with other sizes, and are the same for all numbers.
struct Size {
  int64_t value = 0;
  // An expression of variables; empty if there is none, or if the number depends on no variables.
  std::string text = {};
  std::set<std::string> variables = {};                 // variables on which it depends
  int64_t least = std::numeric_limits<int64_t>::min();  // lower bound of all its values
  std::vector<int64_t> probes = {};                     // value at each probe

  bool is_fixed() const { return variables.empty(); }
  /// Returns true if the size is a number or has an expression.
  bool has_text() const { return is_fixed() || !text.empty(); }
};

using Sizes = std::vector<Size>;

/// The value at a probe at which it is unknown.
inline constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

Size fixed(int64_t value);
Sizes fixed(const std::vector<int64_t>& values);
std::vector<int64_t> values_of(const Sizes& sizes);
bool are_fixed(const Sizes& sizes);
/// Adds the variables on which the sizes depend.
void add_variables(std::set<std::string>& to, const Sizes& sizes);
int64_t at_probe(const Size& size, size_t probe);

/// Returns true if both are equal at every size.
bool are_same(const Size& a, const Size& b);

/// Returns the result of an ONNX operator for two integers, where an operator with one operand
/// ignores `b`. Returns nothing if the result is not an integer, or if flow does not know the
/// operator.
std::optional<int64_t> computed(std::string_view type, int64_t a, int64_t b);
/// Returns the result of an operator for sizes.
std::optional<Size> computed(std::string_view type, const Size& a, const Size& b);
/// Returns a size without an expression, which `of` computes from the values of other sizes.
template <typename Function>
std::optional<Size> without_text(const Sizes& sizes, Function of);
/// Returns one of two sizes, depending on a condition.
Size chosen(const Size& condition, const Size& a, const Size& b);
/// Returns the product of `above` divided by the product of `below`. REQUIRES: both products fit in
/// 64 bits, and the divisor is not 0.
Size quotient(const Sizes& above, const Sizes& below);
inline Size product(const Sizes& sizes) { return quotient(sizes, {}); }

/// Returns the size in the syntax of a job file: "4", "$batch" or "$(2 * seq)". REQUIRES: it has
/// text.
std::string job_text(const Size& size);
/// Returns the size in the syntax for use inside a longer text.
std::string inner_text(const Size& size);

template <typename Function>
std::optional<Size> without_text(const Sizes& sizes, Function of) {
  std::vector<int64_t> values = values_of(sizes);
  const std::optional<int64_t> value = of(values);
  if (!value) return {};
  Size result{.value = *value};
  add_variables(result.variables, sizes);
  size_t probes = 0;
  for (const Size& size : sizes) probes = std::max(probes, size.probes.size());
  for (size_t probe = 0; probe < probes; ++probe) {
    bool known = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      values[i] = at_probe(sizes[i], probe);
      known &= values[i] != kUnknown;
    }
    const auto there = known ? std::optional<int64_t>(of(values)) : std::nullopt;
    result.probes.push_back(there.value_or(kUnknown));
  }
  return result;
}

}  // namespace flow::onnx
