// The patterns by which tokenizers cut text into pieces before they merge byte pairs.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace flow::data {

enum class Pattern {
  /// GPT-2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  kGpt2,
  /// GPT-4 and Llama 3 (cl100k): (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
  /// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
  kCl100k,
};

/// Returns the pattern that a regular expression denotes, or nothing for another expression.
std::optional<Pattern> pattern_of(std::string_view expression);

/// Returns the end of the piece that starts at `at`: the leftmost match of the first alternative
/// that matches. The end of `text` is the end for `(?!\S)` as well. REQUIRES: at < text.size(), and
/// the text is valid UTF-8.
size_t end_of_piece(Pattern pattern, std::string_view text, size_t at);

}  // namespace flow::data
