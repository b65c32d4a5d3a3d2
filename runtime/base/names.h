// Names of the language, names that become paths in a run directory or a checkpoint, globs for
// names, and the scanner that parsers share.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flow {

/// Returns true if a tensor, a step or a file may have this name. A name consists of components
/// that are separated by `/`. Each is a nonempty text of letters, digits, `_`, `.` and `:` that
/// does not begin with a dot: "lenet/conv1/weight:diff.1".
bool is_safe_name(std::string_view name);

/// Returns true if a key of a returned Dict may have this name: one path component, without `/` and
/// zero bytes, that is neither `.` nor `..`.
bool is_safe_key(std::string_view key);

/// Returns the number of bytes at the start of `text` that are a name of the language,
/// [A-Za-z_][A-Za-z0-9_]*, or 0 if no name begins there.
size_t name_length(std::string_view text);
/// Returns true if the whole text is a name.
bool is_name(std::string_view name);

/// Matches a name with a glob: `*` stays inside a component, `**` crosses `/`, `**/x` also matches
/// `x`, and `{a,b}` matches any of its alternatives. A malformed glob matches nothing.
bool glob_match(std::string_view pattern, std::string_view name);
/// Returns true if the text contains a wildcard or braces.
bool is_glob(std::string_view text);
/// Returns the message for a glob that matches nothing, "no array matches `x`", or a description of
/// the error in its braces.
std::string no_match(std::string_view what, std::string_view glob);

/// Reads symbols and words of a short text one after another. Parsers derive from this class.
/// Spaces and line breaks before each symbol or word are skipped.
class TextScanner {
 protected:
  explicit TextScanner(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  /// Reads the symbol if it comes next. If one symbol begins with another, try the longer one
  /// first.
  bool take(std::string_view symbol) {
    skip_space();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }

  std::string_view peek_word() {
    skip_space();
    return text_.substr(at_, name_length(text_.substr(at_)));
  }

  bool take_word(std::string_view word) {
    if (peek_word() != word) return false;
    at_ += word.size();
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

}  // namespace flow
