// Whole numbers that follow from sizes of a model's dimensions, and what they are at other sizes.
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

/// A whole number. One that follows from variables has a value at the import, and others at probes:
/// imports with other sizes, the same ones for all numbers.
struct Size {
  int64_t value = 0;
  std::string text = {};                 // as an expression of variables; "": none, or no variables
  std::set<std::string> variables = {};  // that it follows from
  int64_t least = std::numeric_limits<int64_t>::min();  // it is never below this
  std::vector<int64_t> probes = {};                     // its value at each probe

  bool is_fixed() const { return variables.empty(); }
  /// Is it a number or an expression?
  bool has_text() const { return is_fixed() || !text.empty(); }
};

using Sizes = std::vector<Size>;

/// The value at a probe that is not known.
inline constexpr int64_t kUnknown = std::numeric_limits<int64_t>::min();

Size fixed(int64_t value);
Sizes fixed(const std::vector<int64_t>& values);
std::vector<int64_t> values_of(const Sizes& sizes);
bool are_fixed(const Sizes& sizes);
/// Adds what the sizes follow from.
void add_variables(std::set<std::string>& to, const Sizes& sizes);
int64_t at_probe(const Size& size, size_t probe);

/// Are both the same at every size?
bool are_same(const Size& a, const Size& b);

/// What an operator of ONNX computes of two integers, or of one and itself; nothing where that is
/// not one, or flow does not know the operator.
std::optional<int64_t> computed(std::string_view type, int64_t a, int64_t b);
/// The same of sizes.
std::optional<Size> computed(std::string_view type, const Size& a, const Size& b);
/// A size that `of` computes from the values of others, and that has no expression.
template <typename Function>
std::optional<Size> without_text(const Sizes& sizes, Function of);
/// One of two, by a condition.
Size chosen(const Size& condition, const Size& a, const Size& b);
/// The product of some, divided by that of others. REQUIRES: both products fit, the divisor is not
/// 0.
Size quotient(const Sizes& above, const Sizes& below);
inline Size product(const Sizes& sizes) { return quotient(sizes, {}); }

/// As a job file has it: "4", "$batch" or "$(2 * seq)". REQUIRES: it has text.
std::string job_text(const Size& size);
/// The same inside of text.
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
