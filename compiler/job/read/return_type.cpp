// Types of returns, read and compared.
#include "compiler/job/read/return_type.h"

#include <fmt/format.h>

#include "runtime/base/text.h"

namespace flow::job {
namespace {

using ReturnKind = plan::ReturnValue::Kind;

class ReturnTypeParser {
 public:
  explicit ReturnTypeParser(std::string_view text) : text_(text) {}

  /// The type; or nothing, and `wrong` describes what was found and expected.
  std::optional<DeclaredReturn> parse() {
    DeclaredReturn declared;
    declared.callback = take_word("Callback");
    const bool inner = declared.callback && take('[');
    if (inner || !declared.callback) {
      declared.type = parse_type(0);
      if (!declared.type) return {};
    }
    if (inner && !take(']')) return fail("`]`");
    if (skip_space(), at_ < text_.size()) return fail("no more text");
    return declared;
  }
  const std::string& wrong() const { return wrong_; }

 private:
  std::nullopt_t fail(std::string_view expected) {
    skip_space();
    if (wrong_.empty())
      wrong_ = at_ < text_.size() ? fmt::format("expected {} at `{}`", expected, text_.substr(at_))
                                  : fmt::format("expected {} at the end", expected);
    return std::nullopt;
  }

  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, name_length(text_.substr(at_))) != word) return false;
    at_ += word.size();
    return true;
  }

  std::optional<ReturnType> parse_type(int depth) {
    if (depth > kDeepestReturn) return fail("less nesting");
    if (take_word("Numpy")) return ReturnType{};
    if (take_word("ListNumpy")) return ReturnType{ReturnKind::kListNumpy, {}, false};
    if (take_word("Tuple")) return parse_items({ReturnKind::kTuple, {}, false}, depth, true);
    if (take_word("List")) return parse_items({ReturnKind::kList, {}, false}, depth, false);
    if (!take_word("Dict")) return fail("`Numpy`, `ListNumpy`, `Tuple`, `List` or `Dict`");
    ReturnType dict{ReturnKind::kDict, {}, false};
    if (!take('[')) return fail("`[`");
    dict.integer_keys = take_word("int");
    if (!dict.integer_keys && !take_word("str")) return fail("`str` or `int`");
    if (!take(',')) return fail("`,`");
    return parse_rest(std::move(dict), depth, false);
  }

  std::optional<ReturnType> parse_items(ReturnType type, int depth, bool several) {
    if (!take('[')) return fail("`[`");
    return parse_rest(std::move(type), depth, several);
  }

  std::optional<ReturnType> parse_rest(ReturnType type, int depth, bool several) {
    do {
      auto item = parse_type(depth + 1);
      if (!item) return {};
      type.items.push_back(std::move(*item));
    } while (several && take(','));
    if (!take(']')) return fail(several ? "`,` or `]`" : "`]`");
    return type;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string wrong_;
};

}  // namespace

std::string ReturnType::str() const {
  std::vector<std::string> parts;
  if (kind == ReturnKind::kDict) parts.push_back(integer_keys ? "int" : "str");
  for (const ReturnType& item : items) parts.push_back(item.str());
  switch (kind) {
    case ReturnKind::kNumpy:
      return "Numpy";
    case ReturnKind::kListNumpy:
      return "ListNumpy";
    case ReturnKind::kList:
      return fmt::format("List[{}]", join(parts, ", "));
    case ReturnKind::kTuple:
      return fmt::format("Tuple[{}]", join(parts, ", "));
    case ReturnKind::kDict:
      return fmt::format("Dict[{}]", join(parts, ", "));
  }
  return {};
}

std::optional<DeclaredReturn> parse_return_type(std::string_view text, std::string& wrong) {
  ReturnTypeParser parser(text);
  auto declared = parser.parse();
  wrong = parser.wrong();
  return declared;
}

std::optional<std::pair<std::string, std::string>> find_difference(const ReturnType& expected,
                                                                   const ReturnType& given) {
  if (expected.kind != given.kind || expected.items.size() != given.items.size() ||
      expected.integer_keys != given.integer_keys)
    return std::pair{expected.str(), given.str()};
  for (size_t i = 0; i < given.items.size(); ++i)
    if (auto found = find_difference(expected.items[i], given.items[i])) return found;
  return {};
}

}  // namespace flow::job
