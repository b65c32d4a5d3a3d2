// Names of the language, names that become paths of a run directory or a checkpoint, globs on
// names, and the scanner of parsers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace flow {

/// May a tensor, a step or a file be called so? Components of letters, digits, `_`, `.` and `:`,
/// separated by `/`, none of them empty or beginning with a dot: "lenet/conv1/weight:diff.1".
bool is_safe_name(std::string_view name);

/// May a key of a returned Dict be called so? One path component of any characters but `/`, and
/// not `.` or `..`.
bool is_safe_key(std::string_view key);

/// How many bytes at the start of `text` make a name of the language: [A-Za-z_][A-Za-z0-9_]*;
/// 0 where none begins there.
size_t name_length(std::string_view text);
/// Is all of it a name?
bool is_name(std::string_view name);

/// Glob match on names: `*` stays inside a component, `**` crosses `/`, `**/x` is `x` too, and
/// `{a,b}` is one of these. A glob with a fault matches nothing.
bool glob_match(std::string_view pattern, std::string_view name);
/// Does it have a wildcard or braces?
bool is_glob(std::string_view text);
/// "no array matches `x`", of a glob that matches none; or what is wrong with its braces.
std::string no_match(std::string_view what, std::string_view glob);

/// Reads symbols and words of a short text one after another: the part that parsers share. They
/// derive from it. Spaces and line breaks before what is read are skipped.
class TextScanner {
 protected:
  explicit TextScanner(std::string_view text) : text_(text) {}

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  /// Takes the symbol if it comes next. Where one begins with another, ask for the longer one
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
