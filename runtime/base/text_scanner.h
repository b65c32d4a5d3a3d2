// Reads symbols and words of a short text one after another: the part that parsers share.
#pragma once

#include <cstddef>
#include <string_view>

#include "runtime/base/text.h"

namespace flow {

/// A parser derives from it. Spaces and line breaks before what is read are skipped.
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
