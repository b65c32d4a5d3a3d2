// Reads vocab.json and merges.txt.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/data/text/byte_pairs.h"
#include "runtime/data/text/tokenizer_json.h"
#include "runtime/data/text/utf8.h"

namespace flow::data {

Vocabulary read_vocabulary(const Json& json, const std::string& name) {
  if (!json.is_object()) throw RunError(fmt::format("{}: expected an object of ids", name));
  Vocabulary vocabulary;
  vocabulary.reserve(json.size());
  for (const auto& [symbol, id] : json.items())
    vocabulary.emplace_back(symbol, read_id(id, fmt::format("{}: `{}`", name, shortened(symbol))));
  return vocabulary;
}

int32_t read_id(const Json& json, const std::string& place) {
  constexpr int64_t kLargest = INT32_MAX - 1;
  if (json.is_number_unsigned() && json.get<uint64_t>() <= kLargest) return json.get<int32_t>();
  throw RunError(fmt::format("{}: expected an id from 0 to {}, found {}", place, kLargest,
                             json.is_structured() ? json.type_name() : shortened(json.dump())));
}

std::optional<Merge> parse_merge(std::string_view text, size_t place) {
  const size_t space = text.find(' ');
  if (space == text.npos || space == 0 || space + 1 == text.size()) return {};
  if (text.find(' ', space + 1) != text.npos) return {};
  return Merge{std::string(text.substr(0, space)), std::string(text.substr(space + 1)), place};
}

Vocabulary parse_vocabulary(const NamedText& file) {
  return read_vocabulary(plan::parse_foreign_json(file.text, file.name), file.name);
}

std::vector<Merge> parse_merges(const NamedText& file) {
  if (const auto at = find_invalid_utf8(file.text))
    throw RunError(fmt::format("{} is not UTF-8 at byte {}", file.name, *at));
  std::vector<Merge> merges;
  std::string_view rest = file.text;
  for (size_t line = 1; !rest.empty(); ++line) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view text = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || (line == 1 && text.starts_with("#version"))) continue;
    auto merge = parse_merge(text, line);
    if (!merge)
      throw RunError(fmt::format("{}:{}: expected two symbols and one space, found `{}`", file.name,
                                 line, shortened(text)));
    merges.push_back(std::move(*merge));
  }
  return merges;
}

std::unique_ptr<Tokenizer> byte_pair_tokenizer(const NamedText& vocab, const NamedText& merges,
                                               std::span<const std::string> special) {
  BytePairs parts{.vocab_name = vocab.name,
                  .merges_name = merges.name + ":",
                  .vocabulary = parse_vocabulary(vocab),
                  .merges = parse_merges(merges),
                  .special = {},
                  .patterns = {Pattern::kGpt2},
                  .note = {}};
  const std::unordered_map<std::string_view, int32_t> ids(parts.vocabulary.begin(),
                                                          parts.vocabulary.end());
  for (const std::string& token : special) {
    const auto found = ids.find(token);
    if (found == ids.end())
      throw RunError(fmt::format("special token `{}` is not in {}", shortened(token), vocab.name),
                     "list special tokens as the vocabulary spells them");
    parts.special.push_back({token, found->second});
  }
  return make_byte_pair_tokenizer(std::move(parts));
}

}  // namespace flow::data
