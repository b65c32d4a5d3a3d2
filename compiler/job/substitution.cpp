// `$name`, `$(expression)`, `$env(NAME)` and `$$` in a part of the tree.
#include "compiler/job/vars.h"

#include <fmt/format.h>

#include <cstdlib>

#include "compiler/job/expression.h"
#include "compiler/job/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

constexpr size_t kMaxText = 65'536;

/// Where the name that begins at `from` ends; `from` where none begins.
size_t name_end(std::string_view text, size_t from) {
  return from + name_length(text.substr(std::min(from, text.size())));
}

/// The parenthesis that closes the one at `open`, or npos.
size_t closing(std::string_view text, size_t open) {
  int depth = 0;
  for (size_t i = open; i < text.size(); ++i) {
    if (text[i] == '(') ++depth;
    if (text[i] == ')' && --depth == 0) return i;
  }
  return std::string_view::npos;
}

/// For a dollar sign that no name follows.
std::string hint_for_dollar(std::string_view rest) {
  const size_t end = name_end(rest, 1);
  if (rest.starts_with("{") && end > 1 && end < rest.size() && rest[end] == '}')
    return fmt::format("write `$({0})`, or `$env({0})` for what the environment has",
                       rest.substr(1, end - 1));
  return "a dollar sign is written `$$`";
}

/// For "$lr * 2"; else empty, also for "$folder/$name", which may be a path.
std::string hint_for_expression(std::string_view text) {
  std::string expression(text);
  std::erase(expression, '$');
  const Lookup any = [](std::string_view, ExpressionError&) { return ExpressionValue(int64_t{1}); };
  ExpressionError error;
  if (text.find_first_of("*+") == text.npos || !evaluate(expression, any, error)) return {};
  return fmt::format("a number is worked out as `$({})`", expression);
}

class Substitution {
 public:
  Substitution(Reader& reader, Variables& variables, const Locals& locals)
      : reader_(reader), variables_(variables), locals_(locals) {}

  void replace(yaml::Node& node) {
    if (node.resolved) return;
    if (node.is_scalar()) return replace_scalar(node);
    for (yaml::Node& item : node.items) replace(item);
    const bool command = is_command(node);
    for (yaml::Entry& entry : node.entries)
      if (entry.key != "note" && !(command && entry.key == "run")) replace(entry.value);
  }

 private:
  /// The sink's `run` belongs to a program that has variables of its own: it is left as written.
  static bool is_command(const yaml::Node& node) {
    const yaml::Node* type = node.find("type");
    return type && type->is_scalar() && type->scalar == "command";
  }

  void replace_scalar(yaml::Node& node) {
    if (node.scalar.find('$') == std::string::npos) return;
    const std::string_view text = node.scalar;
    if (text.size() > 1 && name_end(text, 1) == text.size())
      return replace_whole(node, text.substr(1));
    if (auto replaced = replaced_text(node)) {
      node.scalar = std::move(*replaced);
      node.resolved = true;
    } else {
      reader_.diags.silence(node.span);  // the error has been told, the text means nothing
    }
  }

  void replace_whole(yaml::Node& node, std::string_view name) {
    const yaml::Node* value = find(node, name, node.span);
    if (!value) return reader_.diags.silence(node.span);
    const Span use = node.span;
    const std::string variable = node.scalar;
    if (!variables_.may_copy(*value, use)) return reader_.diags.silence(use);
    yaml::Node copy = *value;  // before `node` changes: it may be a part of a variable itself
    reader_.origins.add(use, variable, copy.span);
    node = std::move(copy);
    node.span = use;
    node.resolved = true;
  }

  std::optional<std::string> replaced_text(const yaml::Node& node) {
    const std::string_view text = node.scalar;
    std::string out;
    for (size_t i = 0; i < text.size();) {
      const size_t next = std::min(text.find('$', i), text.size());
      out += text.substr(i, next - i);
      i = next;
      if (i == text.size()) break;
      const auto piece = replaced_piece(node, i);
      if (!piece) return {};
      out += *piece;
      if (out.size() > kMaxText) {
        reader_.error(Diagnosis::kOutOfRange, node,
                      fmt::format("variables grow this text to more than {} bytes", kMaxText));
        return {};
      }
    }
    return out;
  }

  /// The text that stands for what begins with the dollar sign at `i`, which is moved behind it.
  std::optional<std::string> replaced_piece(const yaml::Node& node, size_t& i) {
    const std::string_view text = node.scalar;
    const size_t dollar = i;
    const std::string_view rest = text.substr(dollar + 1);
    if (rest.starts_with("$")) {
      i += 2;
      return "$";
    }
    const bool environment = rest.starts_with("env(");
    if (!environment && !rest.starts_with("(")) {
      const size_t end = name_end(text, dollar + 1);
      const std::string_view name = text.substr(dollar + 1, end - dollar - 1);
      if ((name == "epoch" || name == "step") && !variables_.declares(name)) {
        find(node, name, place(node, dollar, end));
        return {};
      }
      reader_
          .error(Diagnosis::kBadSubstitution, place(node, dollar, end),
                 name.empty() ? "`$` begins neither `$name` nor `$(...)`"
                              : fmt::format("`${}` stands inside text", name))
          .with_hint(name.empty() ? hint_for_dollar(rest)
                                  : fmt::format("inside text it is `$({})`", name))
          .with_hint(hint_for_expression(text));
      return {};
    }
    const size_t open = text.find('(', dollar), close = closing(text, open);
    if (close == std::string_view::npos) {
      reader_
          .error(Diagnosis::kBadSubstitution, place(node, dollar, text.size()),
                 fmt::format("`{}` is not closed", text.substr(dollar)))
          .with_hint(node.quoted ? "" : "in braces and brackets a comma ends a value: quote it");
      return {};
    }
    i = close + 1;
    const Span span = place(node, dollar, i);
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    return environment ? from_environment(inside, span) : from_expression(node, inside, open + 1);
  }

  std::optional<std::string> from_environment(std::string_view inside, Span span) {
    const size_t split = inside.find(":-");
    const std::string name(inside.substr(0, split));
    if (!is_name(name)) {
      reader_
          .error(Diagnosis::kBadSubstitution, span,
                 fmt::format("`{}` is not the name of an environment variable", name))
          .with_hint("write `$env(NAME)` or `$env(NAME:-default)`");
      return {};
    }
    if (const char* value = std::getenv(name.c_str())) return value;
    if (split != std::string_view::npos) return std::string(inside.substr(split + 2));
    reader_
        .error(Diagnosis::kUnsetEnvironment, span, fmt::format("the environment has no `{}`", name))
        .with_hint(fmt::format("set it, or give a default: `$env({}:-default)`", name));
    return {};
  }

  std::optional<std::string> from_expression(const yaml::Node& node, std::string_view inside,
                                             size_t offset) {
    const bool truth = inside == "true" || inside == "false";
    if (is_name(inside) && !truth)
      return text_of(node, inside, place(node, offset, offset + inside.size()));
    ExpressionError error;
    const Lookup lookup = [&](std::string_view name, ExpressionError& missing) {
      const size_t at = offset + missing.offset;
      return number_of(node, name, place(node, at, at + name.size()), missing);
    };
    if (const auto value = evaluate(inside, lookup, error)) return to_text(*value);
    if (!error.message.empty()) {
      const size_t at = offset + error.offset;
      reader_.error(Diagnosis::kBadExpression, place(node, at, at + 1),
                    fmt::format("`$({})`: {}", shortened(inside), error.message));
    }
    return {};
  }

  std::optional<std::string> text_of(const yaml::Node& node, std::string_view name, Span span) {
    const yaml::Node* value = find(node, name, span);
    if (!value) return {};
    if (value->is_scalar()) return value->scalar;
    reader_
        .error(Diagnosis::kVariableInText, span,
               fmt::format("`{}` is {}, which cannot stand inside text", name,
                           yaml::name_of(value->kind)))
        .caused_by(value->span, name)
        .with_hint(fmt::format("`${}` alone takes it whole", name));
    return {};
  }

  std::optional<ExpressionValue> number_of(const yaml::Node& node, std::string_view name, Span span,
                                           ExpressionError& error) {
    const yaml::Node* value = find(node, name, span);
    if (!value) return {};
    const std::string& text = value->scalar;
    if (value->is_scalar() && (text == "true" || text == "false")) return text == "true";
    const auto number = value->is_scalar() ? parse_number(text) : std::nullopt;
    if (!number) {
      error.message = value->is_scalar()
                          ? fmt::format("`{}` is `{}`, which is not a number", name, text)
                          : fmt::format("`{}` is {}", name, yaml::name_of(value->kind));
      return {};
    }
    if (text.find_first_of(".eE/") == std::string::npos)
      if (const auto whole = parse_integer(text)) return *whole;
    return *number;
  }

  /// The value of the local or variable; null where it has none, which has been reported.
  const yaml::Node* find(const yaml::Node& node, std::string_view name, Span span) {
    for (const Local& local : locals_)
      if (local.name == name) return local.value ? &*local.value : nullptr;
    std::vector<std::string> visible;
    for (const Local& local : locals_) visible.push_back(local.name);
    return variables_.find(name, span, std::move(visible), node.scalar == "$" + std::string(name));
  }

  /// The place of bytes [begin, end) of a scalar; the whole scalar where escapes or line breaks
  /// make its text differ from the source.
  static Span place(const yaml::Node& node, size_t begin, size_t end) {
    const size_t quotes = node.quoted ? 2 : 0;
    if (node.span.end - node.span.begin != node.scalar.size() + quotes) return node.span;
    const auto start = static_cast<uint32_t>(node.span.begin + quotes / 2);
    return {node.span.source, start + static_cast<uint32_t>(begin),
            start + static_cast<uint32_t>(std::min(end, node.scalar.size()))};
  }

  Reader& reader_;
  Variables& variables_;
  const Locals& locals_;
};

}  // namespace

void Variables::substitute(yaml::Node& node, const Locals& locals) {
  Substitution(reader_, *this, locals).replace(node);
}

}  // namespace flow::job
