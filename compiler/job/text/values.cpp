// Reads typed scalars. Has a hint for each spelling that other YAML readers accept.
#include "compiler/job/text/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "compiler/job/suggest/vocabulary.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the number of digits at the start of `text`.
size_t digits(std::string_view text) {
  return static_cast<size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
}

/// Returns true for an unsigned decimal without leading zeros: "0", "12", "0.5", ".5", "1e-3".
bool is_decimal(std::string_view text) {
  const size_t whole = digits(text);
  if (whole > 1 && text[0] == '0') return false;
  text.remove_prefix(whole);
  size_t fraction = 0;
  if (!text.empty() && text[0] == '.') {
    fraction = digits(text.substr(1));
    if (fraction == 0) return false;
    text.remove_prefix(1 + fraction);
  }
  if (whole + fraction == 0) return false;
  if (text.empty()) return true;
  if (text[0] != 'e' && text[0] != 'E') return false;
  text.remove_prefix(1);
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && digits(text) == text.size();
}

std::optional<double> parse_decimal(std::string_view text) {
  const bool negative = !text.empty() && text[0] == '-';
  if (!is_decimal(text.substr(negative))) return {};
  // Unlike from_chars, strtod distinguishes underflow (0) from overflow.
  const double value = std::strtod(std::string(text).c_str(), nullptr);
  const std::string_view digits_of = text.substr(0, text.find_first_of("eE"));
  const bool vanished = value == 0 && digits_of.find_first_of("123456789") != text.npos;
  if (!std::isfinite(value) || vanished) return {};
  return value;
}

std::optional<int64_t> whole(double value) {
  constexpr double kLimit = 9223372036854775808.0;
  if (value != std::floor(value) || value < -kLimit || value >= kLimit) return {};
  return static_cast<int64_t>(value);
}

/// Removes decimal points without a digit after them: "1./255." -> "1/255".
std::string without_bare_points(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '.' || (i + 1 < text.size() && is_digit(text[i + 1]))) plain += text[i];
  return plain;
}

/// Returns true for an expression that contains `/` but not `//`.
bool divides(std::string_view written) {
  const size_t slash = written.find('/');
  return written.starts_with("$(") && slash != written.npos &&
         !written.substr(slash + 1).starts_with('/');
}

/// Returns a text such as "at least 1", "a value from 0 to 1", "at most 5", or "more than 0 and
/// less than 1".
std::string range_text(Bounds bounds) {
  if (bounds.min && bounds.max)
    return fmt::format("a value from {} to {}", shortest(*bounds.min), shortest(*bounds.max));
  std::vector<std::string> parts;
  const auto add = [&](const char* words, std::optional<double> bound) {
    if (bound) parts.push_back(fmt::format("{} {}", words, shortest(*bound)));
  };
  add("at least", bounds.min);
  add("more than", bounds.above);
  add("at most", bounds.max);
  add("less than", bounds.below);
  return join(parts, " and ");
}

bool in_range(Reader& reader, const yaml::Node& node, std::string_view what, double value,
              Bounds bounds) {
  if (plan::is_within(value, bounds)) return true;
  reader.error(Diagnosis::kOutOfRange, node,
               fmt::format("{} is {}; expected {}", what, node.scalar, range_text(bounds)));
  return false;
}

/// Reads one value, or each value of a list.
template <typename T, typename Read>
std::optional<std::vector<T>> read_list(Reader& reader, const yaml::Node& node,
                                        std::string_view what, Read read) {
  std::vector<T> values;
  bool good = true;
  for (const yaml::Node& item : yaml::each_of(node)) {
    if (const auto value = read(reader, item, what))
      values.push_back(*value);
    else
      good = false;
  }
  if (!good) return {};
  return values;
}

/// Returns true for a dimension that other tools determine at run time.
bool is_open_extent(const yaml::Node& extent) {
  constexpr std::string_view kOpen[] = {"-1", "?", "*", "None", "none"};
  return extent.is_scalar() && std::ranges::count(kOpen, extent.scalar) > 0;
}

}  // namespace

std::string number_hint(const std::string& text) {
  const auto reads = [](const std::string& fixed) { return parse_number(fixed).has_value(); };
  if (is_decimal(std::string_view(text).substr(text.starts_with('-'))))
    return "write a 64-bit float, with a magnitude of about 5e-324 to 1.8e308";
  // A comma before exactly three digits separates thousands. In other positions it is usually a
  // decimal comma.
  if (const size_t comma = text.find(','); comma != text.npos && comma + 4 != text.size()) {
    std::string point = text;
    point[comma] = '.';
    if (reads(point)) return fmt::format("write `{}`, with a decimal point", point);
  }
  for (const char extra : {'_', ',', ' '}) {
    std::string plain = text;
    std::erase(plain, extra);
    if (plain != text && reads(plain))
      return fmt::format("write `{}`, without {}", plain,
                         extra == ' ' ? "spaces" : fmt::format("`{}`", extra));
  }
  if (text.starts_with("+") && reads(text.substr(1)))
    return fmt::format("write `{}`, without `+`", text.substr(1));
  if (const std::string plain = without_bare_points(text); plain != text && reads(plain))
    return fmt::format("write `{}`: a decimal point needs digits after it", plain);
  if (std::string hint = respelling_hint(text, reads); !hint.empty()) return hint;
  if (text.starts_with("(")) return "write a list in brackets: `[3, 3]`";
  if (text.starts_with("0x") || text.starts_with("0X") || text.starts_with("0o") ||
      text.starts_with("0b"))
    return "write a decimal number";
  const size_t zeros = std::min(text.find_first_not_of('0'), text.size() - 1);
  if (text.size() > 1 && zeros > 0 && reads(text.substr(zeros)))
    return fmt::format("write `{}`: numbers are decimal, without leading zeros",
                       text.substr(zeros));
  if (text.ends_with("%") && reads(text.substr(0, text.size() - 1)))
    return fmt::format("write `{}/100`", text.substr(0, text.size() - 1));
  if (text.find_first_of("*+%", 1) != std::string::npos && text.find('$') == std::string::npos)
    return fmt::format("write `$({})` to compute the value", text);
  return {};
}

std::optional<double> parse_number(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return parse_decimal(text);
  const auto above = parse_decimal(text.substr(0, slash));
  const auto below = parse_decimal(text.substr(slash + 1));
  if (!above || !below || *below == 0 || !std::isfinite(*above / *below)) return {};
  return *above / *below;
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool negative = !text.empty() && text[0] == '-';
  if (error == std::errc() && end == text.data() + text.size() && is_decimal(text.substr(negative)))
    return value;
  const auto number = parse_number(text);
  return number ? whole(*number) : std::nullopt;
}

std::optional<int64_t> parse_bound(std::string_view text) {
  return text.find('/') == std::string_view::npos ? parse_integer(text) : std::nullopt;
}

std::optional<double> read_number(Reader& reader, const yaml::Node& node, std::string_view what,
                                  Bounds bounds, std::string_view instead) {
  if (!reader.expect(node, yaml::Kind::kScalar, what, std::string(instead))) return {};
  const auto value = parse_number(node.scalar);
  if (!value) {
    const std::string hint = number_hint(node.scalar);
    reader
        .error(Diagnosis::kBadScalar, node,
               fmt::format("{} is `{}`; expected a number", what, node.scalar))
        .with_hint(hint.empty() ? std::string(instead) : hint);
    return {};
  }
  if (!in_range(reader, node, what, *value, bounds)) return {};
  return value;
}

std::optional<int64_t> read_integer(Reader& reader, const yaml::Node& node, std::string_view what,
                                    Bounds bounds) {
  if (!reader.expect(node, yaml::Kind::kScalar, what)) return {};
  const auto value = parse_integer(node.scalar);
  if (!value) {
    const auto number = parse_number(node.scalar);
    const bool too_large = number && *number == std::floor(*number);
    reader
        .error(Diagnosis::kBadScalar, node,
               fmt::format("{} is `{}`; expected an integer{}", what, node.scalar,
                           too_large ? " of at most 64 bits" : ""))
        .with_hint(number ? std::string() : number_hint(node.scalar))
        .with_hint(divides(reader.sources.text(node.span)) ? "use `//` to divide and round down"
                                                           : "");
    return {};
  }
  if (!in_range(reader, node, what, static_cast<double>(*value), bounds)) return {};
  return value;
}

std::optional<bool> read_bool(Reader& reader, const yaml::Node& node, std::string_view what) {
  if (!reader.expect(node, yaml::Kind::kScalar, what)) return {};
  if (node.scalar == "true" || node.scalar == "false") return node.scalar == "true";
  std::string lower = node.scalar;
  std::ranges::transform(lower, lower.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::string hint = respelling_hint(
      lower, [](const std::string& word) { return word == "true" || word == "false"; });
  for (const auto& [boolean, words] :
       {std::pair("true", "yes on 1 true y t"), std::pair("false", "no off 0 false n f none")})
    if (std::ranges::count(split(words, ' '), lower) > 0)
      hint = fmt::format("write `{}`: YAML readers disagree on other words", boolean);
  reader
      .error(Diagnosis::kBadScalar, node,
             fmt::format("{} is `{}`; expected `true` or `false`", what, node.scalar))
      .with_hint(hint);
  return {};
}

std::optional<std::string> read_text(Reader& reader, const yaml::Node& node,
                                     std::string_view what) {
  if (!reader.expect(node, yaml::Kind::kScalar, what)) return {};
  if (!node.scalar.empty()) return node.scalar;
  reader.error(Diagnosis::kBadScalar, node, fmt::format("{} is empty; expected a string", what));
  return {};
}

std::optional<std::string> read_choice(Reader& reader, const yaml::Node& node,
                                       std::string_view what,
                                       const std::vector<std::string_view>& choices) {
  if (!reader.expect(node, yaml::Kind::kScalar, what)) return {};
  if (std::ranges::find(choices, node.scalar) != choices.end()) return node.scalar;
  const std::vector<std::string> words(choices.begin(), choices.end());
  reader
      .error(Diagnosis::kUnknownChoice, node,
             fmt::format("{} is `{}`; expected {}", what, node.scalar, quoted_alternatives(words)))
      .with_hint(suggestion(node.scalar, words));
  return {};
}

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> names;
  for (const DType dtype : all_dtypes()) names.push_back(name_of(dtype));
  return names;
}

std::optional<DType> read_dtype(Reader& reader, const yaml::Node& node, std::string_view what) {
  const auto name = read_choice(reader, node, what, dtype_names());
  return name ? parse_dtype(*name) : std::nullopt;
}

std::optional<std::vector<int64_t>> read_integers(Reader& reader, const yaml::Node& node,
                                                  std::string_view what, Bounds bounds) {
  return read_list<int64_t>(reader, node, what, [bounds](Reader& r, const auto& n, auto w) {
    return read_integer(r, n, w, bounds);
  });
}

std::optional<std::vector<double>> read_numbers(Reader& reader, const yaml::Node& node,
                                                std::string_view what, Bounds bounds) {
  return read_list<double>(reader, node, what, [bounds](Reader& r, const auto& n, auto w) {
    return read_number(r, n, w, bounds);
  });
}

std::optional<Shape> read_shape(Reader& reader, const yaml::Node& node, std::string_view what) {
  if (!reader.expect(node, yaml::Kind::kList, what)) return {};
  const auto open = std::ranges::find_if(node.items, is_open_extent);
  if (open != node.items.end()) {
    reader
        .error(Diagnosis::kBadScalar, *open,
               fmt::format("{} contains `{}`; expected fixed dimensions", what, open->scalar))
        .with_hint(
            "fix the batch size too: train jobs drop an incomplete last batch, predict jobs pad "
            "it");
    return {};
  }
  const auto extents = read_integers(reader, node, what, {.min = 1});
  if (!extents) return {};
  const Shape shape(*extents);
  if (shape.rank() > plan::kMaxRank) {
    reader.error(Diagnosis::kOutOfRange, node,
                 fmt::format("{} has {} dimensions; expected at most {}", what, shape.rank(),
                             plan::kMaxRank));
    return {};
  }
  if (shape.checked_elements()) return shape;
  reader.error(Diagnosis::kTensorTooLarge, node,
               fmt::format("{} {} has too many elements for 64-bit indices", what, shape.str()));
  return {};
}

}  // namespace flow::job
