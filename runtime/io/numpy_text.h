// Arrays as NumPy 1.24 prints them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/array.h"

namespace flow::io {

/// An array as NumPy's str() prints it, on one line or several as it does: precision 8,
/// threshold 1000, line width 75. bfloat16 prints as the float32 it is delivered as.
std::string format_numpy(const ArrayView& array);

/// The same layout, each element as `text_of` (of its flat index) writes it.
std::string format_numpy(const Shape& shape, const std::function<std::string(int64_t)>& text_of);

/// The shortest decimal text that reads back as the same element: "0.1", "-3", "nan", "True".
/// A float is written as NumPy writes a scalar: "1.0", "1e-05".
std::string format_element(const ArrayView& array, int64_t index);

/// A shape as Python writes a tuple: "()", "(3,)", "(2, 3)".
std::string shape_tuple(const Shape& shape);

}  // namespace flow::io
