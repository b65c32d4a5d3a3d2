// Parses and matches patterns of names. Names are compared component by component. A component has
// at most one wildcard and a name has at most one `**`, so that a match is unique and needs no
// search.
#include "runtime/plan/model/name_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/text.h"

namespace flow::plan {
namespace {

/// A component of a name with the separator before it.
struct NamePiece {
  char separator;  // 0 for the first component
  std::string_view text;
};

std::vector<NamePiece> pieces_of(std::string_view name) {
  std::vector<NamePiece> pieces;
  char separator = 0;
  for (;;) {
    const size_t end = name.find_first_of("./");
    pieces.push_back({separator, name.substr(0, end)});
    if (end == name.npos) return pieces;
    separator = name[end];
    name.remove_prefix(end + 1);
  }
}

/// Returns the text with `separator` between all components.
std::string separated_by(char separator, std::string_view text) {
  std::string made(text);
  for (char& c : made)
    if (c == '.' || c == '/') c = separator;
  return made;
}

/// Returns the capture that becomes `text` when `offset` is added to it.
std::optional<std::string> without_offset(std::string_view text, int64_t offset) {
  if (offset == 0) return std::string(text);
  const auto number = whole_number(text);
  if (!number || *number < 0 || *number < offset) return {};
  if (offset < 0 && *number > INT64_MAX + offset) return {};
  return std::to_string(*number - offset);
}

}  // namespace

bool NamePattern::Component::takes(std::string_view text) const {
  return choices.empty() || std::ranges::count(choices, text) > 0;
}

std::optional<Captures> NamePattern::match(std::string_view name) const {
  const std::vector<NamePiece> pieces = pieces_of(name);
  const auto deep = std::ranges::find(components_, true, &Component::deep);
  const bool any = deep != components_.end();
  if (pieces.size() < components_.size() || (!any && pieces.size() > components_.size())) return {};
  const size_t extra = pieces.size() - components_.size();
  Captures captures;
  size_t at = 0;
  for (const Component& component : components_) {
    const NamePiece& piece = pieces[at];
    std::string_view text = piece.text;
    if (component.deep) {
      const NamePiece& last = pieces[at += extra];
      text = {text.data(), static_cast<size_t>(last.text.data() + last.text.size() - text.data())};
    }
    ++at;
    if (piece.separator != component.separator) return {};
    if (!component.capture) {
      if (text != component.prefix) return {};
      continue;
    }
    if (text.size() <= component.prefix.size() + component.suffix.size() ||
        !text.starts_with(component.prefix) || !text.ends_with(component.suffix))
      return {};
    text.remove_prefix(component.prefix.size());
    text.remove_suffix(component.suffix.size());
    if (!component.takes(text)) return {};
    const auto value =
        component.deep ? separated_by('/', text) : without_offset(text, component.offset);
    std::optional<std::string>& capture = captures[*component.capture];
    if (!value || capture.value_or(*value) != *value) return {};
    capture = value;
  }
  return captures;
}

std::optional<std::string> NamePattern::fill(const Captures& captures) const {
  std::string name;
  for (const Component& component : components_) {
    if (component.separator) name += component.separator;
    name += component.prefix;
    if (!component.capture) continue;
    const std::optional<std::string>& capture = captures[*component.capture];
    const auto text = capture ? without_offset(*capture, -component.offset) : capture;
    if (!text || !component.takes(*text)) return {};
    name += component.deep ? separated_by(component.within, *text) : *text;
    name += component.suffix;
  }
  return name;
}

/// Reads the text of a name, component by component.
class NamePatternParser {
 public:
  NamePatternParser(std::string_view text, NamePatternError& error) : text_(text), error_(error) {}

  /// The separators next to `**` are also the ones within it.
  std::optional<NamePattern> pattern(Wildcards& wildcards) {
    auto made = parse([&](std::string_view text, NamePattern::Component& component) {
      return read_wildcard(text, component, wildcards);
    });
    if (!made) return made;
    std::vector<NamePattern::Component>& components = made->components_;
    for (size_t i = 0; i < components.size(); ++i)
      components[i].within = i > 0                   ? components[i].separator
                             : components.size() > 1 ? components[1].separator
                                                     : '.';
    return made;
  }

  std::optional<NamePattern> filled(const Wildcards& wildcards) {
    return parse([&](std::string_view text, NamePattern::Component& component) {
      component.within = '/';
      return read_capture(text, component, wildcards);
    });
  }

 private:
  template <typename Read>
  std::optional<NamePattern> parse(const Read& read) {
    if (text_.empty()) {
      fail("a name is empty", "write the name of an array or a variable");
      return {};
    }
    NamePattern pattern;
    for (const NamePiece& piece : pieces_of(text_)) {
      NamePattern::Component component{
          .separator = piece.separator, .prefix = {}, .suffix = {}, .capture = {}};
      if (!read(piece.text, component)) return {};
      pattern.components_.push_back(std::move(component));
    }
    return pattern;
  }

  bool fail(std::string message, std::string hint) {
    error_ = {std::move(message), std::move(hint)};
    return false;
  }

  bool read_wildcard(std::string_view text, NamePattern::Component& component,
                     Wildcards& wildcards) {
    const size_t star = text.find_first_of("*{}");
    component.prefix = text.substr(0, star);
    if (star == text.npos) return true;
    if (wildcards.count == kMaxCaptures)
      return fail(fmt::format("`{}` has more than {} wildcards", text_, kMaxCaptures),
                  "write a rule for each group of names");
    component.deep = text == "**";
    component.suffix = text.substr(star + (component.deep ? 2 : 1));
    if (text[star] != '*' && !read_choices(text, star, component)) return false;
    if (component.suffix.find_first_of("*{}") != component.suffix.npos)
      return fail(fmt::format("`{}` has two wildcards in one component, `{}`", text_, text),
                  "use one `*` between two separators (`.` or `/`), or `**` by itself");
    if (component.deep && wildcards.deep < kMaxCaptures)
      return fail(fmt::format("`{}` has two `**`; expected at most one", text_),
                  "write `*` for each component");
    if (component.deep) wildcards.deep = wildcards.count;
    component.capture = wildcards.count++;
    return true;
  }

  /// Reads the alternatives between the braces that begin at `open`.
  bool read_choices(std::string_view text, size_t open, NamePattern::Component& component) {
    const size_t close = text.find('}', open);
    if (text[open] == '}' || close == text.npos)
      return fail(fmt::format("`{}` has an unmatched brace in `{}`", text_, text),
                  "write alternatives within one component: `{q,k,v}`");
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    NamePattern::Component reference;
    if (read_reference(inside, reference))
      return fail(fmt::format("`{}` has a capture; expected `*`", text_),
                  "captures such as `{1}` belong in `to`");
    component.choices = split(inside, ',');
    component.suffix = text.substr(close + 1);
    const bool plain = std::ranges::none_of(component.choices, [](const std::string& choice) {
      return choice.empty() || choice.find_first_of("*{") != choice.npos;
    });
    if (plain && component.choices.size() > 1) return true;
    return fail(fmt::format("`{{{}}}` in `{}` is not a list of alternatives", inside, text_),
                "write plain texts, as in `{q,k,v}`");
  }

  bool read_capture(std::string_view text, NamePattern::Component& component,
                    const Wildcards& wildcards) {
    if (text.find('*') != text.npos)
      return fail(fmt::format("`{}` has a wildcard; expected a capture", text_),
                  "write `{1}` for what the first `*` of `from` matched");
    const size_t open = text.find('{');
    const size_t close = text.find('}', open == text.npos ? 0 : open);
    component.prefix = text.substr(0, open);
    if (open == text.npos && close == text.npos) return true;
    if (open == text.npos || close == text.npos || text.find_first_of("{}", close + 1) != text.npos)
      return fail(fmt::format("`{}` has an invalid component, `{}`", text_, text),
                  "use one capture between two separators (`.` or `/`): `{1}` or `{1+2}`");
    component.suffix = text.substr(close + 1);
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    if (!read_reference(inside, component))
      return fail(fmt::format("`{{{}}}` in `{}` is not a capture", inside, text_),
                  "write `{1}`, or `{1+2}` to add to a number");
    return check_reference(text, component, wildcards);
  }

  /// Reads a reference such as "2" or "2+1".
  static bool read_reference(std::string_view text, NamePattern::Component& component) {
    const size_t sign = text.find_first_of("+-", 1);
    const auto number = digits(text.substr(0, sign));
    const auto offset = sign == text.npos ? 0 : digits(text.substr(sign + 1));
    if (!number || !offset) return false;
    component.capture = static_cast<size_t>(*number - 1);  // a capture of 0 wraps to a huge number
    component.offset = sign != text.npos && text[sign] == '-' ? -*offset : *offset;
    return true;
  }

  static std::optional<int64_t> digits(std::string_view text) {
    constexpr size_t kMostDigits = 6;
    return is_digits(text) && text.size() <= kMostDigits ? whole_number(text) : std::nullopt;
  }

  bool check_reference(std::string_view text, NamePattern::Component& component,
                       const Wildcards& wildcards) {
    const size_t capture = *component.capture;
    if (capture >= wildcards.count)
      return fail(fmt::format("`{}` names capture {}, but `from` has {}", text_, capture + 1,
                              flow::counted(wildcards.count, "wildcard")),
                  "captures are numbered from 1, in the order of `*` in `from`");
    component.deep = capture == wildcards.deep;
    if (component.deep && std::exchange(deep_, true))
      return fail(fmt::format("`{}` names `**` twice", text_), "name it once");
    const bool whole = component.prefix.empty() && component.suffix.empty();
    if (component.deep && (!whole || component.offset != 0))
      return fail(fmt::format("`{}` has `**` within a component, `{}`", text_, text),
                  fmt::format("write `{{{}}}` between two separators", capture + 1));
    return true;
  }

  std::string_view text_;
  NamePatternError& error_;
  bool deep_ = false;  // true once a component was `**`
};

std::optional<NamePattern> parse_pattern(std::string_view text, Wildcards& wildcards,
                                         NamePatternError& error) {
  return NamePatternParser(text, error).pattern(wildcards);
}

std::optional<NamePattern> parse_template(std::string_view text, const Wildcards& wildcards,
                                          NamePatternError& error) {
  return NamePatternParser(text, error).filled(wildcards);
}

}  // namespace flow::plan
