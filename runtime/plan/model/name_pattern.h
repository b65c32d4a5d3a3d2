// Patterns of array names: "h.*.attn.weight" matches, "gpt/{1}/qkv/weight" names what `*` matched.
// Either reads in both directions, so a list of rules also turns variables back into arrays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// No name has more wildcards.
inline constexpr size_t kMaxCaptures = 9;

/// What the wildcards of a pattern stand for, the first one first; nothing: not known.
using Captures = std::array<std::optional<std::string>, kMaxCaptures>;

/// A name whose components, between `.` or `/`, may have a wildcard each.
class NamePattern {
 public:
  /// The captures of a name; nothing where the name does not match. Known captures that the
  /// pattern names twice are equal.
  std::optional<Captures> match(std::string_view name) const;
  /// The name with these captures; nothing where one is not known, or is not a number that
  /// something can be added to.
  std::optional<std::string> fill(const Captures& captures) const;

 private:
  friend class NamePatternParser;

  struct Component {
    char separator = 0;  // before it; 0: the first one
    std::string prefix, suffix;
    std::optional<size_t> capture;          // between them
    int64_t offset = 0;                     // added to its number
    bool deep = false;                      // matches several components
    char within = 0;                        // of a deep one: the separator between these
    std::vector<std::string> choices = {};  // the texts that it can be; none: any

    bool takes(std::string_view text) const;
  };

  std::vector<Component> components_;
};

/// What is wrong with the text of a pattern.
struct NamePatternError {
  std::string message, hint;
};

/// How many wildcards a name has, and which of them is `**`.
struct Wildcards {
  size_t count = 0;
  size_t deep = kMaxCaptures;  // none
  friend bool operator==(const Wildcards&, const Wildcards&) = default;
};

/// A name that matches: `*` is a part of one component or all of it, `**` one component or more,
/// and `{a,b}` one of these texts. What `**` matches is written with the separators of the name
/// that is filled: `/` in a template. Nothing after `error` has been filled.
std::optional<NamePattern> parse_pattern(std::string_view text, Wildcards& wildcards,
                                         NamePatternError& error);
/// A name to fill: `{1}` is what the first wildcard matched, `{1+2}` a number that is larger by 2.
std::optional<NamePattern> parse_template(std::string_view text, const Wildcards& wildcards,
                                          NamePatternError& error);

}  // namespace flow::plan
