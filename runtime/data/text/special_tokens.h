// Finds the special tokens of a tokenizer in a text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace flow::data {

/// Texts that become one id wherever they occur, before the text around them is cut into pieces.
class SpecialTokens {
 public:
  SpecialTokens() = default;
  /// Empty texts are ignored. Throws RunError if a text occurs twice with different ids, or is
  /// longer than 1024 bytes.
  explicit SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens);

  /// Calls on_text(part) for the text between tokens and on_token(id) for each token, in order:
  /// the earliest token first and, of several at one place, the longest. Stops if a call returns
  /// false.
  template <typename OnText, typename OnToken>
  bool split(std::string_view text, OnText on_text, OnToken on_token) const {
    size_t begin = 0;
    for (Match match = find(text, 0); match.length > 0; match = find(text, begin)) {
      if (match.at > begin && !on_text(text.substr(begin, match.at - begin))) return false;
      if (!on_token(match.id)) return false;
      begin = match.at + match.length;
    }
    return begin == text.size() || on_text(text.substr(begin));
  }

 private:
  struct Match {
    size_t at = 0, length = 0;  // length 0: there is no token
    int32_t id = 0;
  };
  Match find(std::string_view text, size_t from) const;
  Match longest_at(std::string_view text, size_t at) const;

  std::vector<std::pair<std::string, int32_t>> tokens_;  // sorted by text
  std::array<bool, 256> begins_{};                       // true for the first bytes of tokens
};

}  // namespace flow::data
