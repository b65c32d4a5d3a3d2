// printf formats that print one number.
#include "runtime/base/number_format.h"

#include <cstdio>

#include "runtime/base/check.h"

namespace flow {

namespace {

/// Takes up to two digits: nobody needs a field wider than 99.
void skip_digits(std::string_view& text) {
  for (int i = 0; i < 2 && !text.empty() && text[0] >= '0' && text[0] <= '9'; ++i)
    text.remove_prefix(1);
}

/// Takes "[flags][width][.precision]conversion"; false where it is no such thing.
bool skip_conversion(std::string_view& text) {
  constexpr std::string_view kFlags = "-+ #0", kConversions = "eEfFgGaA";
  while (!text.empty() && kFlags.find(text[0]) != kFlags.npos) text.remove_prefix(1);
  skip_digits(text);
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    skip_digits(text);
  }
  if (text.empty() || kConversions.find(text[0]) == kConversions.npos) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

bool is_number_format(std::string_view format) {
  int conversions = 0;
  while (!format.empty()) {
    const bool percent = format[0] == '%';
    if (format[0] == '\0') return false;
    format.remove_prefix(1);
    if (!percent) continue;
    if (format.starts_with('%')) {
      format.remove_prefix(1);
    } else if (skip_conversion(format)) {
      ++conversions;
    } else {
      return false;
    }
  }
  return conversions == 1;
}

std::string format_number(const std::string& format, double value) {
  FLOW_CHECK(is_number_format(format), "format `{}`", format);
  const int length = std::snprintf(nullptr, 0, format.c_str(), value);
  FLOW_CHECK(length >= 0);
  std::string text(static_cast<size_t>(length) + 1, '\0');
  std::snprintf(text.data(), text.size(), format.c_str(), value);
  text.pop_back();
  return text;
}

}  // namespace flow
