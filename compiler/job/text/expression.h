// Declares the arithmetic inside `$(...)`, which has the semantics of Python: 64-bit integers,
// floats, comparisons, `if else`, `min` and `max`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace flow::job {

using ExpressionValue = std::variant<bool, int64_t, double>;

/// Returns the value as a job file writes it, such as "true", "12" or "0.1".
std::string to_text(const ExpressionValue& value);

/// An error message, and its byte offset in the expression.
struct ExpressionError {
  size_t offset = 0;
  std::string message;  // empty if the lookup has reported the error
};

/// Returns the value of a name. If it has none, sets `error` and returns nothing.
using Lookup =
    std::function<std::optional<ExpressionValue>(std::string_view name, ExpressionError& error)>;

/// Evaluates `text`. `a/b` is an integer if b divides a, and otherwise a float. `//` and `%` round
/// down. Integer overflow, division by zero and a result that is not finite are errors.
std::optional<ExpressionValue> evaluate(std::string_view text, const Lookup& lookup,
                                        ExpressionError& error);

}  // namespace flow::job
