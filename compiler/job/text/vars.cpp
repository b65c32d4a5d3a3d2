// Substitutes variables in a part of the tree: `$name`, `$(expression)`, `$env(NAME)` and `$$`.
// Each declared variable can use the variables above it.
#include "compiler/job/text/vars.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/job/text/expression.h"
#include "compiler/job/text/values.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/environment_text.h"

namespace flow::job {
namespace {

// Limits the number of nodes, which grows exponentially if variables use other variables several
// times. No realistic job file reaches the limit.
constexpr size_t kMaxNodes = 1'000'000;

size_t size_of(const yaml::Node& node) {
  size_t size = 1 + node.scalar.size() / 64;
  for (const yaml::Node& item : node.items) size += size_of(item);
  for (const yaml::Entry& entry : node.entries) size += size_of(entry.value);
  return size;
}

/// Returns true for upper-case names, which environment variables have by convention.
bool is_environment_name(std::string_view name) {
  return std::ranges::none_of(name, [](char c) { return c >= 'a' && c <= 'z'; });
}

constexpr size_t kMaxText = 65'536;

/// Returns the end of the name that begins at `from`, or `from` if no name begins there.
size_t name_end(std::string_view text, size_t from) {
  return from + name_length(text.substr(std::min(from, text.size())));
}

/// Returns a hint for a dollar sign that is not followed by a name.
std::string hint_for_dollar(std::string_view rest) {
  const size_t end = name_end(rest, 1);
  if (rest.starts_with("{") && end > 1 && end < rest.size() && rest[end] == '}')
    return fmt::format("write `$({0})`, or `$env({0})` for an environment variable",
                       rest.substr(1, end - 1));
  return "write `$$` for a dollar sign";
}

/// Returns a hint for a text such as "$lr * 2". Returns an empty text for all others, including
/// "$folder/$name", which may be a path.
std::string hint_for_expression(std::string_view text) {
  std::string expression(text);
  std::erase(expression, '$');
  const Lookup any = [](std::string_view, ExpressionError&) { return ExpressionValue(int64_t{1}); };
  ExpressionError error;
  if (text.find_first_of("*+") == text.npos || !evaluate(expression, any, error)) return {};
  return fmt::format("write `$({})` to compute a number", expression);
}

class Substitution {
 public:
  /// If `optional` is true, environment variables may be unset.
  Substitution(Reader& reader, Variables& variables, const Locals& locals, bool optional)
      : reader_(reader), variables_(variables), locals_(locals), optional_(optional) {}

  void replace(yaml::Node& node) {
    if (node.resolved) return;
    if (node.is_scalar()) return replace_scalar(node);
    for (yaml::Node& item : node.items) replace(item);
    const bool command = is_command(node);
    for (yaml::Entry& entry : node.entries) {
      // `run` of a command sink stays unchanged, because the program may have its own variables.
      if (entry.key == "note" || (command && entry.key == "run")) continue;
      const bool before = std::exchange(optional_, optional_ || (command && entry.key == "env"));
      replace(entry.value);
      optional_ = before;
    }
  }

 private:
  void replace_scalar(yaml::Node& node) {
    if (node.scalar.find('$') == std::string::npos) return;
    const std::string_view text = node.scalar;
    if (text.size() > 1 && name_end(text, 1) == text.size())
      return replace_whole(node, text.substr(1));
    if (auto replaced = replaced_text(node)) {
      node.scalar = std::move(replaced->text);
      node.unexpanded = std::move(replaced->unexpanded);
      node.resolved = true;
    } else {
      // The error has been reported, and the text has no value.
      reader_.diags.silence(node.span);
    }
  }

  void replace_whole(yaml::Node& node, std::string_view name) {
    const yaml::Node* value = find(node, name, node.span);
    if (!value) return reader_.diags.silence(node.span);
    const Span use = node.span;
    const std::string variable = node.scalar;
    if (!variables_.may_copy(*value, use) || !require_set(*value))
      return reader_.diags.silence(use);
    // Copied before `node` changes, because the variable may contain `node` itself.
    yaml::Node copy = *value;
    reader_.origins.add(use, variable, changed_at(copy));
    node = std::move(copy);
    node.span = use;
    node.resolved = true;
  }

  /// A text with variables substituted, and the same text with references to the environment
  /// instead of their values.
  struct Replaced {
    std::string text, unexpanded;  // `unexpanded` is empty without such references
  };

  static Replaced plain(std::string text) { return {std::move(text), {}}; }

  std::optional<Replaced> replaced_text(const yaml::Node& node) {
    const std::string_view text = node.scalar;
    std::string out, unexpanded;
    bool environment = false;
    const auto add = [&](const Replaced& piece) {
      out += piece.text;
      environment |= !piece.unexpanded.empty();
      unexpanded +=
          piece.unexpanded.empty() ? plan::with_doubled_dollars(piece.text) : piece.unexpanded;
    };
    for (size_t i = 0; i < text.size();) {
      const size_t next = std::min(text.find('$', i), text.size());
      add(plain(std::string(text.substr(i, next - i))));
      i = next;
      if (i == text.size()) break;
      const auto piece = replaced_piece(node, i);
      if (!piece) return {};
      add(*piece);
      if (std::max(out.size(), unexpanded.size()) > kMaxText) {
        reader_.error(Diagnosis::kOutOfRange, node,
                      fmt::format("variables expand this text to more than {} bytes", kMaxText));
        return {};
      }
    }
    if (!environment) unexpanded.clear();
    return Replaced{std::move(out), std::move(unexpanded)};
  }

  /// Returns the replacement for the text that begins with the dollar sign at `i`. Moves `i` after
  /// this text.
  std::optional<Replaced> replaced_piece(const yaml::Node& node, size_t& i) {
    const std::string_view text = node.scalar;
    const size_t dollar = i;
    const std::string_view rest = text.substr(dollar + 1);
    if (rest.starts_with("$")) {
      i += 2;
      return plain("$");
    }
    const bool environment = rest.starts_with("env(");
    if (!environment && !rest.starts_with("(")) {
      const size_t end = name_end(text, dollar + 1);
      const std::string_view name = text.substr(dollar + 1, end - dollar - 1);
      if ((name == "epoch" || name == "step") && !variables_.declares(name)) {
        find(node, name, yaml::place_in(node, dollar, end));
        return {};
      }
      reader_
          .error(Diagnosis::kBadSubstitution, yaml::place_in(node, dollar, end),
                 name.empty() ? "unexpected `$`; expected `$name` or `$(...)`"
                              : fmt::format("`${}` inside text; expected `$({})`", name, name))
          .with_hint(name.empty() ? hint_for_dollar(rest) : fmt::format("write `$({})`", name))
          .with_hint(hint_for_expression(text));
      return {};
    }
    const size_t open = text.find('(', dollar), close = plan::closing_parenthesis(text, open);
    if (close == std::string_view::npos) {
      reader_
          .error(Diagnosis::kBadSubstitution, yaml::place_in(node, dollar, text.size()),
                 fmt::format("unclosed `{}`", text.substr(dollar)))
          .with_hint(node.quoted ? "" : "quote the value: in braces and brackets a comma ends it");
      return {};
    }
    i = close + 1;
    const Span span = yaml::place_in(node, dollar, i);
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    return environment ? from_environment(inside, span) : from_expression(node, inside, open + 1);
  }

  std::optional<Replaced> from_environment(std::string_view inside, Span span) {
    const auto reference = plan::read_reference(inside);
    if (!reference) {
      reader_
          .error(Diagnosis::kBadSubstitution, span,
                 fmt::format("invalid environment variable name `{}`",
                             shortened(inside.substr(0, inside.find(":-")))))
          .with_hint("write `$env(NAME)` or `$env(NAME:-default)`");
      return {};
    }
    const auto value = reference->value();
    if (!value && !optional_) {
      report_unset(reference->name, span);
      return {};
    }
    return Replaced{value.value_or(""), fmt::format("$env({})", inside)};
  }

  void report_unset(const std::string& name, Span span) {
    reader_
        .error(Diagnosis::kUnsetEnvironment, span,
               fmt::format("environment variable `{}` is not set", name))
        .with_hint(fmt::format("set it, or write a default: `$env({}:-default)`", name));
  }

  /// Checks the value of a variable where it is used: all environment variables that it reads must
  /// be set, except for those that become the environment of a command.
  bool require_set(const yaml::Node& value) {
    if (optional_) return true;
    if (value.is_scalar()) {
      const auto missing = plan::missing_variable(value.unexpanded);
      if (!missing) return true;
      const std::string reference = fmt::format("$env({})", *missing);
      const size_t at = value.unexpanded.find(reference), end = at + reference.size();
      report_unset(*missing, yaml::place_in(value, value.unexpanded, at, end));
      reader_.diags.silence(value.span);
      return false;
    }
    bool good =
        std::ranges::all_of(value.items, [&](const auto& item) { return require_set(item); });
    const bool command = is_command(value);
    for (const yaml::Entry& entry : value.entries)
      good = good && ((command && entry.key == "env") || require_set(entry.value));
    return good;
  }

  std::optional<Replaced> from_expression(const yaml::Node& node, std::string_view inside,
                                          size_t offset) {
    const bool truth = inside == "true" || inside == "false";
    if (is_name(inside) && !truth)
      return text_of(node, inside, yaml::place_in(node, offset, offset + inside.size()));
    ExpressionError error;
    const Lookup lookup = [&](std::string_view name, ExpressionError& missing) {
      const size_t at = offset + missing.offset;
      return number_of(node, name, yaml::place_in(node, at, at + name.size()), missing);
    };
    if (const auto value = evaluate(inside, lookup, error)) return plain(to_text(*value));
    if (!error.message.empty()) {
      const size_t at = offset + error.offset;
      reader_.error(Diagnosis::kBadExpression, yaml::place_in(node, at, at + 1),
                    fmt::format("`$({})`: {}", shortened(inside), error.message));
    }
    return {};
  }

  std::optional<Replaced> text_of(const yaml::Node& node, std::string_view name, Span span) {
    const yaml::Node* value = find(node, name, span);
    if (!value || !require_set(*value)) return {};
    if (value->is_scalar()) return Replaced{value->scalar, value->unexpanded};
    reader_
        .error(Diagnosis::kVariableInText, span,
               fmt::format("`{}` is {}; expected a string or number inside text", name,
                           yaml::name_of(value->kind)))
        .caused_by(value->span, name)
        .with_hint(fmt::format("write only `${}` to insert it whole", name));
    return {};
  }

  std::optional<ExpressionValue> number_of(const yaml::Node& node, std::string_view name, Span span,
                                           ExpressionError& error) {
    const yaml::Node* value = find(node, name, span);
    const bool before = std::exchange(optional_, false);  // an unset value is not a number
    const bool set = value && require_set(*value);
    optional_ = before;
    if (!set) return {};
    const std::string& text = value->scalar;
    if (value->is_scalar() && (text == "true" || text == "false")) return text == "true";
    const auto number = value->is_scalar() ? parse_number(text) : std::nullopt;
    if (!number) {
      error.message =
          value->is_scalar()
              ? fmt::format("`{}` is `{}`; expected a number", name, text)
              : fmt::format("`{}` is {}; expected a number", name, yaml::name_of(value->kind));
      return {};
    }
    if (text.find_first_of(".eE/") == std::string::npos)
      if (const auto whole = parse_integer(text)) return *whole;
    return *number;
  }

  /// Returns the value of the local or variable. Returns null if it has no value; the error has
  /// then been reported.
  const yaml::Node* find(const yaml::Node& node, std::string_view name, Span span) {
    for (const Local& local : locals_)
      if (local.name == name) return local.value ? &*local.value : nullptr;
    std::vector<std::string> visible;
    for (const Local& local : locals_) visible.push_back(local.name);
    return variables_.find(name, span, std::move(visible), node.scalar == "$" + std::string(name));
  }

  Reader& reader_;
  Variables& variables_;
  const Locals& locals_;
  bool optional_;
};

}  // namespace

Variables::Variables(Reader& reader, yaml::Node& file) : reader_(reader) {
  const yaml::Node* seed = file.find("seed");
  seed_ = seed ? *seed : yaml::scalar_node("0");
  if (yaml::Node* vars = file.find("vars"))
    if (reader.expect(*vars, yaml::Kind::kMapping, "`vars`")) declare(*vars);
}

void Variables::declare(yaml::Node& vars) {
  for (const yaml::Entry& entry : vars.entries)
    if (!reader_.take_note(entry)) order_.push_back({entry.key, entry.key_span});
  for (yaml::Entry& entry : vars.entries) {
    if (entry.key == "note") continue;
    if (entry.key == "seed")
      reader_.error(Diagnosis::kNameTaken, entry.key_span,
                    "cannot declare `seed`: `$seed` is the seed of the file");
    else if (reader_.check_name({entry.key, entry.key_span}))
      substitute_declared(entry.value);
    // The variable is always declared, so that its uses cause no further errors.
    declared_[entry.key] = &entry.value;
  }
}

const yaml::Node* Variables::find(std::string_view name, Span span,
                                  std::vector<std::string> visible, bool whole) {
  used_.emplace(name);
  if (name == "seed") {
    if (!seed_read_) {
      seed_read_ = true;
      substitute(seed_);
    }
    return &seed_;
  }
  if (const auto found = declared_.find(name); found != declared_.end())
    return reader_.diags.is_silenced(found->second->span) ? nullptr : found->second;
  for (const Name& later : order_) {
    if (later.text != name) continue;
    reader_
        .error(Diagnosis::kVariableOrder, span,
               fmt::format("variable `{}` is used before its declaration", name))
        .label(later.span, "declared here")
        .with_hint("declare it above the variable that uses it");
    return nullptr;
  }
  if (name == "epoch" || name == "step") {
    reader_
        .error(Diagnosis::kUndeclaredVariable, span, fmt::format("undeclared variable `{}`", name))
        .with_hint(
            "use the epoch and step in the events of a hook: variables are fixed before the run");
    return nullptr;
  }
  for (const Name& other : order_) visible.push_back(other.text);
  reader_.error(Diagnosis::kUndeclaredVariable, span, fmt::format("undeclared variable `{}`", name))
      .with_hint(visible.empty() ? fmt::format("declare it: `vars: {{{}: ...}}`", name)
                                 : suggestion(name, visible, "available variables:"))
      .with_hint(name == "index" ? "use `$index` in the entry with `repeat`, and pass it to a "
                                   "network as a param: `number: $index`"
                                 : "")
      .with_hint(is_environment_name(name)
                     ? fmt::format("write `$env({})` to read the environment variable", name)
                     : "")
      .with_hint(name == "env" ? "write `$env(NAME)` to read the environment" : "")
      .with_hint(whole ? "" : "write `$$` for a dollar sign");
  return nullptr;
}

bool Variables::declares(std::string_view name) const {
  return name == "seed" || std::ranges::count(order_, name, &Name::text) > 0;
}

bool Variables::may_copy(const yaml::Node& copy, Span use) {
  if (too_many_) return false;
  nodes_ += size_of(copy);
  too_many_ = nodes_ > kMaxNodes;
  if (too_many_)
    reader_.error(
        Diagnosis::kOutOfRange, use,
        fmt::format("variables and copies expand the file to more than {} values", kMaxNodes));
  return !too_many_;
}

void Variables::warn_of_unused() const {
  for (const Name& name : order_)
    if (!used_.contains(name.text))
      reader_.diags.warning(Diagnosis::kUnusedDeclaration, name.span,
                            fmt::format("unused variable `{}`", name.text));
}

bool is_command(const yaml::Node& node) {
  const yaml::Node* type = node.find("type");
  return type && type->is_scalar() && type->scalar == "command";
}

void Variables::substitute(yaml::Node& node, const Locals& locals) {
  Substitution(reader_, *this, locals, false).replace(node);
}

void Variables::substitute_declared(yaml::Node& value) {
  Substitution(reader_, *this, {}, true).replace(value);
}

}  // namespace flow::job
