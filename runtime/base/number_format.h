// printf formats that print one number: untrusted text, so it is read before printf sees it.
#pragma once

#include <string>
#include <string_view>

namespace flow {

/// True when `format` is text with exactly one conversion of a double: "%.6g", "%6.2f %%".
bool is_number_format(std::string_view format);

/// The number in that format. REQUIRES: is_number_format(format).
std::string format_number(const std::string& format, double value);

}  // namespace flow
