// Arithmetic of sizes.
#include "runtime/onnx/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "runtime/base/names.h"

namespace flow::onnx {
namespace {

/// The most characters of an expression. A longer one is dropped, because sums of sums double their
/// length at each step.
constexpr size_t kLongestText = 160;

/// Returns the lowest possible result, if it follows from the lowest values of the operands.
int64_t least_of(std::string_view type, const Size& a, const Size& b) {
  const int64_t x = a.is_fixed() ? a.value : a.least, y = b.is_fixed() ? b.value : b.least;
  int64_t sum = 0;
  const bool positive = x >= 0 && y >= 0;
  if (type == "Sub" && b.is_fixed() && x > kUnknown && !__builtin_sub_overflow(x, y, &sum))
    return sum;
  if (type == "Add" && positive && !__builtin_add_overflow(x, y, &sum)) return sum;
  if (type == "Mul" && positive && !__builtin_mul_overflow(x, y, &sum)) return sum;
  if (type == "Div" && x >= 0 && y >= 1) return 0;
  if (type == "Mod" && y >= 1) return 0;
  if (type == "Max") return std::max(x, y);
  if (type == "Min") return std::min(x, y);
  return kUnknown;
}

/// Returns a size as an operand of an expression.
std::string operand_text(const Size& size) {
  if (size.is_fixed())
    return size.value < 0 ? fmt::format("({})", size.value) : std::to_string(size.value);
  return is_name(size.text) ? size.text : "(" + size.text + ")";
}

/// Returns an expression of flow, or an empty text if there is none. Division and remainder of
/// negative numbers differ in flow.
std::string text_of(std::string_view type, const Size& a, const Size& b) {
  const int64_t x = a.is_fixed() ? a.value : a.least, y = b.is_fixed() ? b.value : b.least;
  const std::string first = operand_text(a), second = operand_text(b);
  std::string text;
  if (type == "Add") text = fmt::format("{} + {}", first, second);
  if (type == "Sub") text = fmt::format("{} - {}", first, second);
  if (type == "Mul") text = fmt::format("{} * {}", first, second);
  if (type == "Div" && x >= 0 && y >= 1) text = fmt::format("{} // {}", first, second);
  if (type == "Mod" && y >= 1) text = fmt::format("{} % {}", first, second);
  if (type == "Max") text = fmt::format("max({}, {})", first, second);
  if (type == "Min") text = fmt::format("min({}, {})", first, second);
  return text.size() > kLongestText ? "" : text;
}

/// Returns the operand that equals the result, or the number that the result always is.
std::optional<Size> simplified(std::string_view type, const Size& a, const Size& b) {
  const auto is = [](const Size& size, int64_t value) {
    return size.is_fixed() && size.value == value;
  };
  if ((type == "Add" || type == "Sub") && is(b, 0)) return a;
  if (type == "Add" && is(a, 0)) return b;
  if (type == "Sub" && are_same(a, b)) return fixed(0);
  if ((type == "Mul" || type == "Div") && is(b, 1)) return a;
  if (type == "Mul" && is(a, 1)) return b;
  if (type == "Mul" && (is(a, 0) || is(b, 0))) return fixed(0);
  if (type == "Div" && are_same(a, b) && a.least >= 1) return fixed(1);
  if ((type == "Max" || type == "Min") && are_same(a, b)) return a;
  if (type == "Min" && b.is_fixed() && a.least >= b.value) return b;
  if (type == "Min" && a.is_fixed() && b.least >= a.value) return a;
  if (type == "Max" && b.is_fixed() && a.least >= b.value) return a;
  if (type == "Max" && a.is_fixed() && b.least >= a.value) return b;
  return {};
}

/// Decides a comparison that has the same result at every size.
std::optional<Size> decided(std::string_view type, const Size& a, const Size& b) {
  const bool equal = are_same(a, b);
  const bool above = b.is_fixed() && a.least > b.value, below = a.is_fixed() && b.least > a.value;
  if (type == "Equal" && (equal || above || below)) return fixed(equal ? 1 : 0);
  if (type == "Less" && (equal || above || below)) return fixed(below ? 1 : 0);
  if (type == "Greater" && (equal || above || below)) return fixed(above ? 1 : 0);
  if (type == "LessOrEqual" && (equal || above || below)) return fixed(above ? 0 : 1);
  if (type == "GreaterOrEqual" && (equal || above || below)) return fixed(below ? 0 : 1);
  return {};
}

std::optional<int64_t> compared(std::string_view type, int64_t a, int64_t b) {
  if (type == "Equal") return a == b;
  if (type == "Less") return a < b;
  if (type == "LessOrEqual") return a <= b;
  if (type == "Greater") return a > b;
  if (type == "GreaterOrEqual") return a >= b;
  if (type == "And") return a != 0 && b != 0;
  if (type == "Or") return a != 0 || b != 0;
  if (type == "Xor") return (a != 0) != (b != 0);
  if (type == "Not") return a == 0;
  return {};
}

}  // namespace

Size fixed(int64_t value) { return {.value = value, .least = value}; }

Sizes fixed(const std::vector<int64_t>& values) {
  Sizes sizes;
  for (const int64_t value : values) sizes.push_back(fixed(value));
  return sizes;
}

std::vector<int64_t> values_of(const Sizes& sizes) {
  std::vector<int64_t> values;
  for (const Size& size : sizes) values.push_back(size.value);
  return values;
}

bool are_fixed(const Sizes& sizes) { return std::ranges::all_of(sizes, &Size::is_fixed); }

void add_variables(std::set<std::string>& to, const Sizes& sizes) {
  for (const Size& size : sizes) to.insert(size.variables.begin(), size.variables.end());
}

int64_t at_probe(const Size& size, size_t probe) {
  return probe < size.probes.size() ? size.probes[probe] : size.value;
}

bool are_same(const Size& a, const Size& b) {
  if (a.is_fixed() || b.is_fixed()) return a.is_fixed() && b.is_fixed() && a.value == b.value;
  return !a.text.empty() && a.text == b.text;
}

std::optional<int64_t> computed(std::string_view type, int64_t a, int64_t b) {
  int64_t result = 0;
  bool overflows = true;
  if (type == "Add" || type == "Sum") overflows = __builtin_add_overflow(a, b, &result);
  if (type == "Sub") overflows = __builtin_sub_overflow(a, b, &result);
  if (type == "Mul") overflows = __builtin_mul_overflow(a, b, &result);
  if (type == "Neg") overflows = __builtin_sub_overflow(0, a, &result);
  if (!overflows) return result;
  if (type == "Abs" && a != kUnknown) return std::abs(a);
  if (type == "Div" && b != 0 && b != -1) return a / b;
  if (type == "Mod" && b != 0 && b != -1) {
    const int64_t rest = a % b;  // C++ gives it the sign of a
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  if (type == "Max") return std::max(a, b);
  if (type == "Min") return std::min(a, b);
  if (type == "Sign") return (a > 0) - (a < 0);
  return compared(type, a, b);
}

std::optional<Size> computed(std::string_view type, const Size& a, const Size& b) {
  if (a.is_fixed() && b.is_fixed()) {
    const auto value = computed(type, a.value, b.value);
    return value ? std::optional(fixed(*value)) : std::nullopt;
  }
  if (auto decision = decided(type, a, b)) return decision;
  if (auto operand = simplified(type, a, b)) return operand;
  auto result = without_text({a, b}, [&](const std::vector<int64_t>& values) {
    return computed(type, values[0], values[1]);
  });
  if (!result) return {};
  if (a.has_text() && b.has_text()) result->text = text_of(type, a, b);
  result->least = least_of(type, a, b);
  return result;
}

Size chosen(const Size& condition, const Size& a, const Size& b) {
  if (condition.is_fixed()) return condition.value != 0 ? a : b;
  if (are_same(a, b)) return a;
  return *without_text({condition, a, b}, [](const std::vector<int64_t>& values) {
    return std::optional(values[0] != 0 ? values[1] : values[2]);
  });
}

Size quotient(const Sizes& above, const Sizes& below) {
  Sizes left, right;
  int64_t number = 1, divisor = 1;
  for (const Size& size : above)
    size.is_fixed() ? void(number *= size.value) : left.push_back(size);
  for (const Size& size : below) {
    const auto same =
        std::ranges::find_if(left, [&](const Size& one) { return are_same(one, size); });
    if (same != left.end())
      left.erase(same);
    else
      size.is_fixed() ? void(divisor *= size.value) : right.push_back(size);
  }
  if (divisor != 0 && number % divisor == 0) number /= std::exchange(divisor, 1);
  std::optional<Size> result = fixed(number);
  if (!left.empty()) result = left[0];
  for (size_t i = 1; i < left.size() && result; ++i) result = computed("Mul", *result, left[i]);
  if (!left.empty() && result) result = computed("Mul", *result, fixed(number));
  right.push_back(fixed(divisor));
  for (const Size& size : right)
    if (result) result = computed("Div", *result, size);
  if (result) return *result;
  Size opaque;
  add_variables(opaque.variables, above);
  add_variables(opaque.variables, below);
  return opaque;
}

std::string inner_text(const Size& size) {
  return size.is_fixed() ? std::to_string(size.value) : "$(" + size.text + ")";
}

std::string job_text(const Size& size) {
  const std::string text = inner_text(size);
  if (text.find(',') != std::string::npos) return '"' + text + '"';
  return !size.is_fixed() && is_name(size.text) ? "$" + size.text : text;
}

}  // namespace flow::onnx
