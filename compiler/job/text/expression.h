// Arithmetic inside `$(...)`, with Python's meaning: integers of 64 bits, floats, comparisons,
// `if else`, `min` and `max`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace flow::job {

using ExpressionValue = std::variant<bool, int64_t, double>;

/// As a job file writes it: "true", "12", "0.1".
std::string to_text(const ExpressionValue& value);

/// What went wrong, and at which byte of the expression.
struct ExpressionError {
  size_t offset = 0;
  std::string message;  // empty: the lookup has reported it
};

/// The value of a name, or nothing after `error` has been filled.
using Lookup =
    std::function<std::optional<ExpressionValue>(std::string_view name, ExpressionError& error)>;

/// Evaluates `text`. `a/b` is an integer where it divides, else a float; `//` and `%` floor;
/// overflow of integers, division by zero and a result that is not finite are errors.
std::optional<ExpressionValue> evaluate(std::string_view text, const Lookup& lookup,
                                        ExpressionError& error);

}  // namespace flow::job
