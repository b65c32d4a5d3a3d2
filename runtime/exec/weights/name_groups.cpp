// Groups names that differ only in numbers, and compares the words in names.
#include "runtime/exec/weights/name_map.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"

namespace flow::exec {
namespace {

constexpr const char* kNameSeparators = "./";

/// Words that programs use for the same thing. The first word of a row represents all words of the
/// row.
constexpr std::array<std::array<std::string_view, 6>, 18> kSynonyms = {{
    {"weight", "kernel", "gamma", "w", "scale"},
    {"bias", "beta", "b"},
    {"mean", "avg"},
    {"variance", "var"},
    {"running", "moving"},
    {"attention", "attn", "self"},
    {"mlp", "ffn", "perceptron", "feedforward", "ff"},
    {"norm", "ln", "layernorm", "rmsnorm", "bn", "batchnorm"},
    {"embedding", "embed", "embeddings", "wte", "emb", "tokens"},
    {"out", "o", "proj", "project", "output"},
    {"query", "q"},
    {"key", "k"},
    {"value", "v"},
    {"blocks", "h", "layers", "layer", "block"},
    {"1", "before", "input"},
    {"2", "after", "post"},
    {"encoder", "enc", "src", "source"},
    {"decoder", "dec", "tgt", "target"},
}};

std::string plain_word(const std::string& word) {
  for (const auto& row : kSynonyms)
    if (std::ranges::count(row, word) > 0) return std::string(row[0]);
  return word;
}

/// Splits a name into words: "norm1" into "norm" and "1", "c_attn" into "c" and "attn".
std::vector<std::string> words_in(const std::string& name) {
  std::vector<std::string> words;
  const auto kind = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return std::isdigit(byte) ? 2 : std::isalpha(byte) ? 1 : 0;
  };
  for (size_t i = 0; i < name.size(); ++i) {
    const int now = kind(name[i]);
    if (now == 0) continue;
    if (i == 0 || kind(name[i - 1]) != now) words.emplace_back();
    words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  for (std::string& word : words) word = plain_word(word);
  std::ranges::sort(words);
  return words;
}

/// Replaces the numbers in a name: returns "h.*.attn" for "h.11.attn", and appends "11" to
/// `numbers`.
std::string without_numbers(const std::string& name, std::vector<std::string>& numbers) {
  std::string pattern;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find_first_of(kNameSeparators, at), name.size());
    const std::string part = name.substr(at, end - at);
    if (is_digits(part)) numbers.push_back(part);
    pattern += is_digits(part) ? "*" : part;
    if (end < name.size()) pattern += name[end];
    at = end + 1;
  }
  return pattern;
}

NameGroup group_of(const std::string& pattern, const Shape& shape,
                   std::set<std::vector<std::string>> numbers) {
  const std::string parent = parent_of(pattern);
  const std::string last = leaf_of(parent) + "." + leaf_of(pattern);
  return {pattern, shape, std::move(numbers), words_in(pattern), words_in(last), parent};
}

/// Returns the number of words that are in both lists. REQUIRES: the lists are sorted.
double common_words(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<std::string> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return static_cast<double>(both.size());
}

}  // namespace

std::vector<NameGroup> group_names(std::span<const NamedShape> names) {
  struct Members {
    std::set<std::vector<std::string>> numbers;
    std::vector<const NamedShape*> names;
  };
  std::map<std::string, Members> by_pattern;
  std::vector<std::string> order;
  for (const NamedShape& one : names) {
    std::vector<std::string> numbers;
    const std::string pattern = without_numbers(one.name, numbers);
    Members& members = by_pattern[pattern];
    if (members.names.empty()) order.push_back(pattern);
    members.numbers.insert(std::move(numbers));
    members.names.push_back(&one);
  }
  std::vector<NameGroup> groups;
  for (const std::string& pattern : order) {
    const Members& members = by_pattern.at(pattern);
    const Shape& shape = members.names[0]->shape;
    const bool alike =
        members.names.size() > 1 && members.numbers.begin()->size() <= plan::kMaxCaptures &&
        std::ranges::all_of(members.names,
                            [&](const NamedShape* one) { return one->shape == shape; });
    if (alike)
      groups.push_back(group_of(pattern, shape, members.numbers));
    else
      for (const NamedShape* one : members.names)
        groups.push_back(group_of(one->name, one->shape, {std::vector<std::string>()}));
  }
  return groups;
}

double similarity(const NameGroup& array, const NameGroup& variable) {
  constexpr double kLastWord = 2;
  const double common = common_words(array.words, variable.words);
  return common + kLastWord * common_words(array.last_words, variable.last_words) +
         common / static_cast<double>(variable.words.size() + 1);
}

std::string parent_of(const std::string& name) {
  const size_t end = name.find_last_of(kNameSeparators);
  return end == name.npos ? "" : name.substr(0, end);
}

std::string leaf_of(const std::string& name) {
  const size_t end = name.find_last_of(kNameSeparators);
  return end == name.npos ? name : name.substr(end + 1);
}

size_t common_components(const std::string& a, const std::string& b) {
  const size_t length = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  return static_cast<size_t>(std::count_if(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(length),
      [](char c) { return std::string_view(kNameSeparators).find(c) != std::string_view::npos; }));
}

}  // namespace flow::exec
