// Small texts: joining, suggestions, numbers as people read them.
#include "runtime/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "runtime/base/display.h"

namespace flow {

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
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

/// Insertions, deletions, substitutions and swaps of neighbours that lead from a to b.
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
  // Distances are quadratic; nobody mistypes a word this long for another.
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

/// As one word of a shell; where a terminal would obey a character of it, in bash's form $'\x1b'.
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

/// Where a line that is folded goes on.
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
      // A word that is too long for a line has one of its own.
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

size_t name_length(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  if (text.empty() || !letter(text[0])) return 0;
  const auto in_name = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return static_cast<size_t>(std::ranges::find_if_not(text, in_name) - text.begin());
}

bool is_name(std::string_view name) { return !name.empty() && name_length(name) == name.size(); }

namespace {

/// Globs with braces: follows all ways to match at once, so that many alternatives take no longer.
class BraceGlob {
 public:
  explicit BraceGlob(std::string_view glob) : glob_(glob), groups_(glob.size()) {
    std::vector<size_t> open;
    for (size_t i = 0; i < glob.size() && fault_.empty(); ++i) {
      if (glob[i] == '{') {
        open.push_back(i);
        groups_[i].starts.push_back(i + 1);
        if (++count_ > kMostGroups)
          fault_ = fmt::format("more than {} pairs of braces", kMostGroups);
      } else if (glob[i] == '}' && open.empty()) {
        fault_ = "`}` without `{`";
      } else if (glob[i] == ',' && !open.empty()) {
        groups_[open.back()].starts.push_back(i + 1);
        groups_[open.back()].ends.push_back(i);
      } else if (glob[i] == '}') {
        Group& group = groups_[open.back()];
        if (open.back() + 1 == i) fault_ = "empty braces";
        group.ends.push_back(i);
        for (const size_t end : group.ends) groups_[end].after = i + 1;
        open.pop_back();
      }
    }
    if (fault_.empty() && !open.empty()) fault_ = "`{` without `}`";
  }

  const std::string& fault() const { return fault_; }

  bool matches(std::string_view name) {
    std::vector<bool> now(glob_.size() + 1), next(now.size());
    enter(now, 0, true);
    for (const char c : name) {
      std::fill(next.begin(), next.end(), false);
      for (size_t at = 0; at < glob_.size(); ++at)
        if (now[at]) step(next, at, c);
      now.swap(next);
    }
    return now.back();
  }

 private:
  static constexpr size_t kMostGroups = 100;
  struct Group {
    std::vector<size_t> starts, ends;  // of a `{`: its alternatives; their ends
    size_t after = 0;                  // of the end of an alternative: what follows the group
  };

  bool is_deep(size_t at) const { return glob_.substr(at).starts_with("**"); }

  /// Adds a place of the glob and those that nothing needs to be read for.
  void enter(std::vector<bool>& places, size_t place, bool at_start) {
    std::vector<size_t> waiting{place};
    while (!waiting.empty()) {
      const size_t at = waiting.back();
      waiting.pop_back();
      if (places[at]) continue;
      places[at] = true;
      if (at == glob_.size()) continue;
      if (glob_[at] == '*') waiting.push_back(at + (is_deep(at) ? 2 : 1));
      if (at_start && glob_.substr(at).starts_with("**/")) waiting.push_back(at + 3);
      if (glob_[at] == '{')
        waiting.insert(waiting.end(), groups_[at].starts.begin(), groups_[at].starts.end());
      if (groups_[at].after > 0) waiting.push_back(groups_[at].after);
    }
  }

  void step(std::vector<bool>& places, size_t at, char c) {
    const char expected = glob_[at];
    if (expected == '*') {
      if (c != '/' || is_deep(at)) enter(places, at, false);
    } else if (expected == c && expected != '{' && groups_[at].after == 0) {
      enter(places, at + 1, false);
    }
  }

  std::string_view glob_;
  std::vector<Group> groups_;  // by place
  size_t count_ = 0;
  std::string fault_;
};

}  // namespace

bool is_glob(std::string_view text) { return text.find_first_of("*{}") != text.npos; }

std::string no_match(std::string_view what, std::string_view glob) {
  const BraceGlob braces(glob);
  return braces.fault().empty() ? fmt::format("no {} matches `{}`", what, glob)
                                : fmt::format("invalid glob `{}`: {}", glob, braces.fault());
}

bool glob_match(std::string_view pattern, std::string_view name) {
  if (pattern.find_first_of("{}") != pattern.npos) {
    BraceGlob glob(pattern);
    return glob.fault().empty() && glob.matches(name);
  }
  // Backtracks to the last star of each kind only: linear for `*`, quadratic at worst for `**`.
  if (pattern.starts_with("**/") && glob_match(pattern.substr(3), name)) return true;
  constexpr size_t kNone = std::string_view::npos;
  size_t p = 0, n = 0, star = kNone, star_at = 0, deep = kNone, deep_at = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      if (pattern.substr(p).starts_with("**")) {
        deep = p += 2;
        deep_at = n;
        star = kNone;
      } else {
        star = ++p;
        star_at = n;
      }
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != kNone && name[star_at] != '/') {
      p = star;
      n = ++star_at;
    } else if (deep != kNone) {
      p = deep;
      n = ++deep_at;
      star = kNone;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace flow
