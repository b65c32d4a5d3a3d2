// Patterns and templates of array names. The pattern "h.*.attn.weight" matches names; the template
// "gpt/{1}/qkv/weight" contains the text that `*` matched. Both can be matched and filled, so that
// a list of rules also converts variables back into arrays.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// The largest number of wildcards in a name.
inline constexpr size_t kMaxCaptures = 9;

/// The texts that the wildcards of a pattern matched, in their order. An element is nothing if its
/// text is unknown.
using Captures = std::array<std::optional<std::string>, kMaxCaptures>;

/// A name with components that are separated by `.` or `/`. Each component may have one wildcard.
class NamePattern {
 public:
  /// Returns the captures of a name, or nothing if the name does not match. If the pattern refers
  /// to a capture twice, both texts must be equal.
  std::optional<Captures> match(std::string_view name) const;
  /// Returns the name with these captures, or nothing if one of them is unknown, or is not a number
  /// although the pattern adds an offset to it.
  std::optional<std::string> fill(const Captures& captures) const;

 private:
  friend class NamePatternParser;

  struct Component {
    char separator = 0;  // the character before the component; 0 for the first component
    std::string prefix, suffix;
    std::optional<size_t> capture;          // the capture between prefix and suffix
    int64_t offset = 0;                     // added to the number that was captured
    bool deep = false;                      // true if the component matches several components
    char within = 0;                        // the separator between the components of a deep one
    std::vector<std::string> choices = {};  // the alternatives; empty if any text matches

    bool takes(std::string_view text) const;
  };

  std::vector<Component> components_;
};

/// An error in the text of a pattern.
struct NamePatternError {
  std::string message, hint;
};

/// The number of wildcards in a name, and the index of the one that is `**`.
struct Wildcards {
  size_t count = 0;
  size_t deep = kMaxCaptures;  // the default means that there is no `**`
  friend bool operator==(const Wildcards&, const Wildcards&) = default;
};

/// Parses a pattern. `*` matches part of a component or a whole one, `**` matches one or more
/// components, and `{a,b}` matches one of these texts. When a name is filled, the text that `**`
/// matched is written with the separators of that name, which is `/` in a template. Returns
/// nothing, and fills `error`, if the text is wrong.
std::optional<NamePattern> parse_pattern(std::string_view text, Wildcards& wildcards,
                                         NamePatternError& error);
/// Parses a template, which is a name to fill: `{1}` stands for the text that the first wildcard
/// matched, and `{1+2}` for a number that is larger by 2.
std::optional<NamePattern> parse_template(std::string_view text, const Wildcards& wildcards,
                                          NamePatternError& error);

}  // namespace flow::plan
