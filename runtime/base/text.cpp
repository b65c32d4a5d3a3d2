// Functions for small texts: joining, suggestions, and numbers as people read them and as printf
// formats write them.
#include "runtime/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runtime/base/display.h"
#include "runtime/base/error.h"

namespace flow {

std::string join(std::span<const std::string> parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(kBlank) - first + 1));
}

std::string shortened(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string line(text.substr(0, text.find('\n')));
  if (line.size() > kLongest) line.replace(kLongest - 3, std::string::npos, "...");
  return line;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end == text.npos ? text.npos : end - begin));
    if (end == text.npos) return parts;
    begin = end + 1;
  }
}

namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// Returns the smallest number of insertions, deletions, substitutions and swaps of neighbors that
/// turn a into b.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] =
          std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

bool same_but_for_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}

std::vector<std::string> suggest(std::string_view word, std::span<const std::string> candidates) {
  // The distance takes quadratic time. Words of this length are not typos of one another.
  constexpr size_t kLongest = 200;
  constexpr size_t kMost = 3;
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongest || word.size() > kLongest) continue;
    const size_t distance = same_but_for_case(word, candidate) ? 0 : edit_distance(word, candidate);
    if (distance <= std::max<size_t>(1, word.size() / 3)) near.emplace_back(distance, candidate);
  }
  std::ranges::stable_sort(near, {}, &std::pair<size_t, std::string>::first);
  std::vector<std::string> words;
  for (auto& [distance, candidate] : near)
    if (words.size() < kMost) words.push_back(std::move(candidate));
  return words;
}

std::string quoted_alternatives(std::span<const std::string> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += "`" + words[i] + "`";
  }
  return text;
}

namespace {

/// Quotes a word for a shell. If it contains characters that a terminal would act on, the form is
/// that of bash: $'\x1b'.
std::string in_quotes(const std::string& word) {
  const bool printable = escaped(word) == word;
  std::string quoted;
  for (const char c : word) {
    if (c == '\'')
      quoted += printable ? "'\\''" : "\\'";
    else if (c == '\\' && !printable)
      quoted += "\\\\";
    else
      quoted += c;
  }
  return printable ? "'" + quoted + "'" : "$'" + escaped(quoted) + "'";
}

}  // namespace

std::string command_line(std::span<const std::string> words) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
  std::vector<std::string> typed;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    typed.push_back(plain ? word : in_quotes(word));
  }
  return join(typed, " ");
}

namespace {

/// Returns the indentation of the continuation of a folded line.
size_t hanging_indent(std::string_view line, size_t columns) {
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.find("  ", first);
  const size_t second = gap == line.npos ? line.npos : line.find_first_not_of(' ', gap);
  return second == line.npos ? first : second <= columns * 2 / 3 ? second : first + 4;
}

}  // namespace

std::string folded(std::string_view text, size_t columns) {
  std::vector<std::string> lines;
  for (std::string line : split(text, '\n')) {
    line.erase(line.find_last_not_of(' ') + 1);
    const size_t indent = hanging_indent(line, columns);
    while (line.size() > columns) {
      size_t blank = line.rfind(' ', columns);
      // A word that is too long for a line is put on its own line.
      if (blank == line.npos || line.find_first_not_of(' ') > blank || blank < indent)
        blank = line.find(' ', std::max(indent, line.find_first_not_of(' ')));
      if (blank == line.npos) break;
      lines.push_back(line.substr(0, line.find_last_not_of(' ', blank) + 1));
      line = std::string(indent, ' ') + line.substr(line.find_first_not_of(' ', blank));
    }
    lines.push_back(std::move(line));
  }
  return join(lines, "\n");
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [behind, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && behind == end ? std::optional(number) : std::nullopt;
}

std::string counted(uint64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string human_bytes(uint64_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

std::string human_count(double count) {
  constexpr std::array kPrefixes = {"", " k", " M", " G", " T", " P", " E"};
  size_t prefix = 0;
  for (; count >= 999.5 && prefix + 1 < kPrefixes.size(); ++prefix) count /= 1000;
  const int digits = prefix == 0 || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, digits, kPrefixes[prefix]);
}

std::string grouped_digits(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string human_number(double value) {
  return std::isnan(value) ? "nan" : fmt::format("{:.4g}", value);
}

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  return fmt::format("{}", value);
}

namespace {

/// Skips up to two digits, because a useful field is not wider than 99.
void skip_digits(std::string_view& text) {
  for (int i = 0; i < 2 && !text.empty() && text[0] >= '0' && text[0] <= '9'; ++i)
    text.remove_prefix(1);
}

/// Skips "[flags][width][.precision]conversion". Returns false if the text does not begin with one.
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
