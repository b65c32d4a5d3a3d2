// Finds special tokens by narrowing a range of a sorted list byte by byte.
#include "runtime/data/text/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "runtime/base/error.h"
#include "runtime/base/text.h"

namespace flow::data {

namespace {

constexpr size_t kLongestToken = 1024;  // bytes; the search takes this long per byte of the text

}  // namespace

SpecialTokens::SpecialTokens(std::vector<std::pair<std::string, int32_t>> tokens)
    : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const auto& token) { return token.first.empty(); });
  std::ranges::sort(tokens_);
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end()), tokens_.end());
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& text = tokens_[i].first;
    if (text.size() > kLongestToken)
      throw RunError(fmt::format("special token `{}` has {} bytes; expected at most {}",
                                 shortened(text), text.size(), kLongestToken));
    if (i > 0 && text == tokens_[i - 1].first)
      throw RunError(fmt::format("special token `{}` has the ids {} and {}", shortened(text),
                                 tokens_[i - 1].second, tokens_[i].second));
    begins_[static_cast<unsigned char>(text[0])] = true;
  }
}

SpecialTokens::Match SpecialTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    if (const Match match = longest_at(text, at); match.length > 0) return match;
  }
  return {};
}

SpecialTokens::Match SpecialTokens::longest_at(std::string_view text, size_t at) const {
  Match match;
  std::span<const std::pair<std::string, int32_t>> rest(tokens_);  // those that begin like text
  for (size_t length = 0; !rest.empty(); ++length) {
    // Of the texts with a common prefix, the shortest is sorted first.
    if (length > 0 && rest.front().first.size() == length) {
      match = {at, length, rest.front().second};
      rest = rest.subspan(1);
    }
    if (at + length == text.size()) break;
    const auto next = static_cast<unsigned char>(text[at + length]);
    const auto byte_of = [length](const auto& token) {
      return static_cast<unsigned char>(token.first[length]);
    };
    rest = {std::ranges::lower_bound(rest, next, {}, byte_of),
            std::ranges::upper_bound(rest, next, {}, byte_of)};
  }
  return match;
}

}  // namespace flow::data
