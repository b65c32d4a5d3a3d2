// Names of the language, names that become paths, and globs for names.
#include "runtime/base/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace flow {

bool is_safe_name(std::string_view name) {
  bool at_start = true;
  for (const char c : name) {
    const bool word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == ':';
    if (!word && (at_start || (c != '.' && c != '/'))) return false;
    at_start = c == '/';
  }
  return !at_start;
}

bool is_safe_key(std::string_view key) {
  // For the system, a zero byte would end the path.
  constexpr std::string_view kForbidden("/\0", 2);
  return !key.empty() && key != "." && key != ".." &&
         key.find_first_of(kForbidden) == std::string_view::npos;
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

/// Matches a glob. All ways to match are followed at the same time, so many stars and alternatives
/// do not slow it down.
class Glob {
 public:
  explicit Glob(std::string_view glob) : glob_(glob), groups_(glob.size()) {
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
    std::vector<size_t> starts, ends;  // for a `{`: the starts and ends of its alternatives
    size_t after = 0;                  // for the end of an alternative: the place after the group
  };

  bool is_deep(size_t at) const { return glob_.substr(at).starts_with("**"); }

  /// Adds a place of the glob, and all places that can be reached from it without reading a
  /// character.
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
  std::vector<Group> groups_;  // indexed by place
  size_t count_ = 0;
  std::string fault_;
};

}  // namespace

bool is_glob(std::string_view text) { return text.find_first_of("*{}") != text.npos; }

std::string no_match(std::string_view what, std::string_view glob) {
  const Glob braces(glob);
  return braces.fault().empty() ? fmt::format("no {} matches `{}`", what, glob)
                                : fmt::format("invalid glob `{}`: {}", glob, braces.fault());
}

bool glob_match(std::string_view pattern, std::string_view name) {
  Glob glob(pattern);
  return glob.fault().empty() && glob.matches(name);
}

}  // namespace flow
