// Formats arrays as NumPy 1.24 prints them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/array.h"

namespace flow::io {

/// Returns the text of NumPy's str() for an array, which may have several lines: precision 8,
/// threshold 1000, line width 75. bfloat16 is printed as float32, the dtype in which it is
/// delivered.
std::string format_numpy(const ArrayView& array);

/// Formats an array in the same layout; `text_of` returns the text of an element for its flat
/// index.
std::string format_numpy(const Shape& shape, const std::function<std::string(int64_t)>& text_of);

/// Returns the shortest decimal text that reads back as the same element: "0.1", "-3", "nan",
/// "True". A float has the form of a NumPy scalar: "1.0", "1e-05".
std::string format_element(const ArrayView& array, int64_t index);

/// Returns a shape as Python writes a tuple: "()", "(3,)", "(2, 3)".
std::string shape_tuple(const Shape& shape);

}  // namespace flow::io
