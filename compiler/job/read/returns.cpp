// Reads `returns:`: a value and its type, in the terms of OneFlow, and checks that they agree.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/plan.h"

namespace flow::job {
namespace {

using Kind = plan::ReturnValue::Kind;

/// The largest nesting depth of types and values.
constexpr int kDeepestReturn = 32;

/// A type: Numpy | ListNumpy | Tuple[R, ...] | List[R] | Dict[str, R] | Dict[int, R].
struct ReturnType {
  plan::ReturnValue::Kind kind = plan::ReturnValue::Kind::kNumpy;
  // A type for each item of a kTuple; one type for all items of a kList or kDict.
  std::vector<ReturnType> items;
  bool integer_keys = false;

  std::string str() const;
};

/// The value of `type:`: Callback | Callback[R] | R.
struct DeclaredReturn {
  bool callback = false;
  std::optional<ReturnType> type;  // if absent, the type is inferred
};

class ReturnTypeParser {
 public:
  explicit ReturnTypeParser(std::string_view text) : text_(text) {}

  /// Returns the type. If the text is invalid, returns nothing, and `wrong` describes what was
  /// found and expected.
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
    if (take_word("ListNumpy")) return ReturnType{Kind::kListNumpy, {}, false};
    if (take_word("Tuple")) return parse_items({Kind::kTuple, {}, false}, depth, true);
    if (take_word("List")) return parse_items({Kind::kList, {}, false}, depth, false);
    if (!take_word("Dict")) return fail("`Numpy`, `ListNumpy`, `Tuple`, `List` or `Dict`");
    ReturnType dict{Kind::kDict, {}, false};
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

/// Returns a text such as "Tuple[Numpy, Numpy]". `items` is empty for a leaf.
std::string type_text(Kind kind, const std::string& items) {
  constexpr std::string_view kNames[] = {"Numpy", "ListNumpy", "List", "Tuple", "Dict"};
  const std::string_view name = kNames[static_cast<size_t>(kind)];
  return items.empty() ? std::string(name) : fmt::format("{}[{}]", name, items);
}

std::string ReturnType::str() const {
  std::vector<std::string> parts;
  if (kind == Kind::kDict) parts.push_back(integer_keys ? "int" : "str");
  for (const ReturnType& item : items) parts.push_back(item.str());
  return type_text(kind, join(parts, ", "));
}

/// Returns the type. If the text is invalid, returns nothing, and `wrong` describes what was found
/// and expected.
std::optional<DeclaredReturn> parse_return_type(std::string_view text, std::string& wrong) {
  ReturnTypeParser parser(text);
  auto declared = parser.parse();
  wrong = parser.wrong();
  return declared;
}

/// Returns the first difference between two types, as the expected and the found type, or nothing
/// if they are equal.
std::optional<std::pair<std::string, std::string>> find_difference(const ReturnType& expected,
                                                                   const ReturnType& given) {
  if (expected.kind != given.kind || expected.items.size() != given.items.size() ||
      expected.integer_keys != given.integer_keys)
    return std::pair{expected.str(), given.str()};
  for (size_t i = 0; i < given.items.size(); ++i)
    if (auto found = find_difference(expected.items[i], given.items[i])) return found;
  return {};
}

std::string_view article_name(Kind kind) {
  if (kind == Kind::kDict) return "a mapping";
  return kind == Kind::kList || kind == Kind::kTuple ? "a list" : "a name";
}

/// Checks a key, which names a folder of the run directory.
bool check_dict_key(Reader& reader, const yaml::Entry& entry) {
  const std::string& key = entry.key;
  if (is_safe_key(key)) return true;
  reader.error(Diagnosis::kBadName, entry.key_span,
               "invalid key `{}`; expected the name of a folder", key);
  return false;
}

/// Reads the value as written. A list becomes a tuple unless the type declares a List.
std::optional<ReturnValue> read_value(Reader& reader, const yaml::Node& node, int depth = 0) {
  if (depth > kDeepestReturn) {
    reader.error(Diagnosis::kNesting, node, "a return value nested more than {} levels deep",
                 kDeepestReturn);
    return {};
  }
  ReturnValue value;
  value.span = node.span;
  bool good = true;
  const auto add = [&](const yaml::Node& item) {
    if (auto read = read_value(reader, item, depth + 1))
      value.items.push_back(std::move(*read));
    else
      good = false;
  };
  if (node.is_scalar()) {
    const auto name = read_text(reader, node, "`value`");
    if (!name) return {};
    value.name = *name;
    return value;
  }
  value.kind = node.is_list() ? Kind::kTuple : Kind::kDict;
  for (const yaml::Node& item : node.items) add(item);
  for (const yaml::Entry& entry : node.entries) {
    good = check_dict_key(reader, entry) && good;
    value.keys.push_back(entry.key);
    add(entry.value);
  }
  if (good && value.items.empty()) {
    reader.error(Diagnosis::kReturnMismatch, node, "the value is empty; expected a tensor");
    return {};
  }
  if (!good) return {};
  return value;
}

/// Infers the type: a list is a Tuple, and a mapping is a Dict with the type of its first item.
ReturnType infer(const ReturnValue& value) {
  ReturnType type{value.kind, {}, false};
  for (const ReturnValue& item : value.items) {
    type.items.push_back(infer(item));
    if (value.kind == Kind::kDict) break;
  }
  return type;
}

/// Returns the value as a type, including all types of the values of a mapping, such as "Dict[str,
/// Numpy | List[Numpy]]".
std::string type_text(const ReturnValue& value) {
  std::vector<std::string> items;
  for (const ReturnValue& item : value.items) {
    std::string text = type_text(item);
    const bool repeated =
        value.kind == Kind::kDict && std::ranges::find(items, text) != items.end();
    if (!repeated) items.push_back(std::move(text));
  }
  if (value.kind == Kind::kDict) return type_text(value.kind, "str, " + join(items, " | "));
  return type_text(value.kind == Kind::kList ? Kind::kTuple : value.kind, join(items, ", "));
}

/// Returns the first part of the value that does not match the type, or null. Sets `wrong` to the
/// message.
const ReturnValue* find_mismatch(const ReturnType& type, ReturnValue& value, std::string& wrong) {
  if (type.kind == Kind::kList && value.kind == Kind::kTuple) value.kind = Kind::kList;
  if (type.kind == Kind::kListNumpy && value.kind == Kind::kNumpy) value.kind = Kind::kListNumpy;
  if (type.kind != value.kind) {
    wrong = fmt::format("the value is {}; expected `{}`", article_name(value.kind), type.str());
    return &value;
  }
  if (type.kind == Kind::kTuple && type.items.size() != value.items.size()) {
    wrong = fmt::format("the value has {}; expected `{}`", counted(value.items.size(), "item"),
                        type.str());
    return &value;
  }
  for (const std::string& key : value.keys) {
    if (!type.integer_keys || parse_integer(key)) continue;
    wrong = fmt::format("the key `{}` is not an integer; expected `{}`", key, type.str());
    return &value;
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    const ReturnType& item = type.kind == Kind::kTuple ? type.items[i] : type.items[0];
    if (const ReturnValue* at = find_mismatch(item, value.items[i], wrong)) return at;
  }
  return nullptr;
}

std::optional<DeclaredReturn> read_type(Reader& reader, const yaml::Node& node,
                                        std::string_view what) {
  if (!reader.expect(node, yaml::Kind::kScalar, what)) return {};
  std::string wrong;
  auto type = parse_return_type(node.scalar, wrong);
  if (!type)
    reader.error(Diagnosis::kReturnType, node, "invalid return type `{}`; {}", node.scalar, wrong)
        .with_hint(
            "write `Numpy`, `ListNumpy`, `Tuple[R, ...]`, `List[R]`, `Dict[str, R]` or "
            "`Dict[int, R]`, in `Callback[...]` for an asynchronous job, or leave the type out");
  return type;
}

/// Reads the type that a command expects, in which `Callback` is not allowed.
std::optional<ReturnType> read_expected(Reader& reader, const yaml::Node& node) {
  const auto declared = read_type(reader, node, "`expects`");
  if (!declared || !declared->callback) return declared ? declared->type : std::nullopt;
  reader.error(Diagnosis::kReturnType, node,
               "unexpected `Callback` in `expects`; write it in `returns`");
  return {};
}

void check_expected_by(Reader& reader, const yaml::Node& sink, const ReturnType& given) {
  const yaml::Node* type = sink.is_mapping() ? sink.find("type") : nullptr;
  const yaml::Node* expects = type ? sink.find("expects") : nullptr;
  if (!expects || type->scalar != "command") return;
  const auto expected = read_expected(reader, *expects);
  if (!expected) return;
  const auto difference = find_difference(*expected, given);
  if (!difference) return;
  Diag& diag =
      reader.error(Diagnosis::kReturnMismatch, *expects,
                   "the command expects `{}` but receives `{}`", expected->str(), given.str());
  if (difference->first != expected->str())
    diag.with_note(fmt::format("first difference: expected `{}`, found `{}`", difference->first,
                               difference->second));
}

void check_expected(Reader& reader, const yaml::Node& to, const ReturnType& given) {
  for (const yaml::Node& sink : yaml::each_of(to)) check_expected_by(reader, sink, given);
}

void check_type(Reader& reader, const ReturnType& type, Span type_span, Returns& returns) {
  std::string wrong;
  const ReturnValue* at = find_mismatch(type, returns.value, wrong);
  if (!at) return;
  Diag& diag = reader.error(Diagnosis::kReturnMismatch, at->span, wrong);
  if (type_span.valid()) diag.label(type_span, "the declared type");
  diag.with_note(
      fmt::format("the {} type is {}", type_span.valid() ? "declared" : "inferred", type.str()));
  diag.with_note(fmt::format("the value has type {}", type_text(returns.value)));
}

}  // namespace

std::optional<Returns> read_returns(Reader& reader, const yaml::Node& node, Span key) {
  const Fields fields(reader, node, key, kReturnsSection);
  Returns returns;
  returns.span = key;
  const yaml::Node* to = fields.find("to");
  returns.sinks = read_sinks(reader, to);
  std::optional<DeclaredReturn> declared;
  const yaml::Node* type = fields.find("type");
  if (type) declared = read_type(reader, *type, "`type`");
  const yaml::Node* value = fields.require("value");
  auto read = value ? read_value(reader, *value) : std::nullopt;
  if (!read || (type && !declared)) return {};
  returns.value = std::move(*read);
  const bool has_type = declared && declared->type;
  const ReturnType agreed = has_type ? *declared->type : infer(returns.value);
  check_type(reader, agreed, has_type ? type->span : Span{}, returns);
  returns.callback = declared && declared->callback;
  returns.type = returns.callback ? fmt::format("Callback[{}]", agreed.str()) : agreed.str();
  if (to) check_expected(reader, *to, agreed);
  return returns;
}

std::optional<std::string> inferred_type(Reader& reader, const yaml::Node& value) {
  const auto read = read_value(reader, value);
  if (!read) return {};
  return infer(*read).str();
}

void check_expected(Reader& reader, const yaml::Node& to, plan::ReturnValue::Kind given) {
  check_expected(reader, to, ReturnType{given, {}, false});
}

}  // namespace flow::job
