// Reads the variant that `type:` selects, according to its table, and reads records from the
// mappings of a job file.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/job/text/reader.h"
#include "compiler/job/text/values.h"

namespace flow::job {

/// Returns true for a mapping. Otherwise reports an error with a hint such as "write `{type:
/// static, value: 8}`". `what` names the value, such as "`loss_scale`".
bool expect_variant(Reader& reader, const yaml::Node& node, std::string_view what,
                    const VariantKind& kind);

/// Returns the variant that `type:` of a mapping selects. Reports a missing or unknown type and
/// returns null. `what` names the value, such as "`optimizer`".
const Variant* pick_variant(Reader& reader, const yaml::Node& node, Span key, std::string_view what,
                            const VariantKind& kind);

/// Returns `type`, the keys of the variant (of all variants, if it is null) and the common keys.
std::vector<KeyDef> keys_of(const VariantKind& kind, const Variant* variant);

/// A variant in the file: a mapping, or a word if its kind allows that.
class ParsedVariant {
 public:
  /// Reads a variant. `what` is the name of the key in messages, and `owner` the place where a
  /// missing `type` is reported. variant() is null after an error.
  ParsedVariant(Reader& reader, const yaml::Node& node, Span owner, std::string_view what,
                const VariantKind& kind);

  /// Null after an error.
  const Variant* variant() const { return variant_; }
  /// REQUIRES: variant() is not null.
  const Fields& fields() const { return *fields_; }

 private:
  const Variant* variant_ = nullptr;
  std::optional<Fields> fields_;
};

/// Reads one pattern, or a list of patterns. `expected` describes the patterns in the error for
/// anything else.
std::optional<std::vector<Name>> read_globs(Reader& reader, const yaml::Node& node,
                                            std::string_view what,
                                            std::string_view expected = "a pattern");

/// Read a value that job files write in several forms. Return false after an error.
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Channels& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Replacement& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Categories& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Tokenizer& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::ImageSize& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, plan::Mix& out);
bool read_form(Reader& reader, const yaml::Node& node, const std::string& what,
               const Bounds& bounds, std::vector<plan::Augment>& out);

/// Reads a text of that form.
std::optional<std::string> read_text_of(Reader& reader, const yaml::Node& node,
                                        const std::string& what, plan::TextForm form);

/// Reads a list of exactly N numbers. If `one` is true, one number is also accepted, which is that
/// of all.
template <typename T, size_t N>
std::optional<std::array<T, N>> read_array(Reader& reader, const yaml::Node& node,
                                           const std::string& what, const Bounds& bounds,
                                           bool one) {
  std::optional<std::vector<T>> values;
  if constexpr (std::is_same_v<T, double>)
    values = read_numbers(reader, node, what, bounds);
  else
    values = read_integers(reader, node, what, bounds);
  if (!values) return {};
  std::array<T, N> made{};
  if (one && !node.is_list()) {
    made.fill(values->front());
    return made;
  }
  if (values->size() != N || !node.is_list()) {
    reader.error(Diagnosis::kBadScalar, node, "{} has {} number{}; expected {}", what,
                 values->size(), values->size() == 1 ? "" : "s", N);
    return {};
  }
  std::ranges::copy(*values, made.begin());
  return made;
}

template <typename V>
std::optional<V> read_value(Reader& reader, const yaml::Node& node, const std::string& what,
                            const Bounds& bounds, plan::TextForm form = {}) {
  if constexpr (std::is_same_v<V, double>) {
    return read_number(reader, node, what, bounds);
  } else if constexpr (std::is_same_v<V, int64_t>) {
    return read_integer(reader, node, what, bounds);
  } else if constexpr (std::is_same_v<V, bool>) {
    return read_bool(reader, node, what);
  } else if constexpr (std::is_same_v<V, std::vector<double>>) {
    return read_numbers(reader, node, what, bounds);
  } else if constexpr (std::is_same_v<V, std::vector<int64_t>>) {
    if (!reader.expect(node, yaml::Kind::kList, what)) return {};
    return read_integers(reader, node, what, bounds);
  } else if constexpr (std::is_same_v<V, std::array<int64_t, 2>>) {
    return read_array<int64_t, 2>(reader, node, what, bounds, true);
  } else if constexpr (std::is_same_v<V, std::array<double, 2>>) {
    return read_array<double, 2>(reader, node, what, bounds, false);
  } else if constexpr (std::is_same_v<V, std::array<int64_t, 3>>) {
    return read_array<int64_t, 3>(reader, node, what, bounds, false);
  } else if constexpr (std::is_same_v<V, std::vector<std::string>>) {
    const auto names = read_globs(reader, node, what, "a name");
    if (!names) return {};
    std::vector<std::string> texts;
    for (const Name& name : *names) texts.push_back(name.text);
    return texts;
  } else if constexpr (std::is_enum_v<V>) {
    const auto word = read_choice(reader, node, what, words_of<V>());
    return word ? std::optional(enumerator_of<V>(plan::EnumNames<V>::words, *word)) : std::nullopt;
  } else if constexpr (std::is_same_v<V, std::string>) {
    return read_text_of(reader, node, what, form);
  } else {
    V value;
    return read_form(reader, node, what, bounds, value) ? std::optional(std::move(value))
                                                        : std::nullopt;
  }
}

/// Returns the default of a number, flag, word, text or pair of numbers. The default of any other
/// type is that of its C++ type.
template <typename V>
V parse_default(std::string_view text) {
  if constexpr (std::is_same_v<V, double>) {
    return parse_number(text).value();
  } else if constexpr (std::is_same_v<V, int64_t>) {
    return parse_integer(text).value();
  } else if constexpr (std::is_same_v<V, bool>) {
    return text == "true";
  } else if constexpr (std::is_enum_v<V>) {
    return enumerator_of<V>(plan::EnumNames<V>::words, text);
  } else if constexpr (std::is_same_v<V, std::string>) {
    return V(text);
  } else if constexpr (std::is_same_v<V, std::array<double, 2>>) {  // "[3/4, 4/3]"
    const size_t comma = text.find(',');
    return {parse_number(text.substr(1, comma - 1)).value(),
            parse_number(text.substr(comma + 2, text.size() - comma - 3)).value()};
  } else {
    return V();
  }
}

/// Reads the members of a record. Reports errors, and returns the names of the members that have no
/// value because of an error.
template <typename T>
std::set<std::string_view> read_record(const Fields& fields, T& record) {
  std::set<std::string_view> unread;
  plan::for_each_field<T>([&](const auto& field) {
    using V = typename WithoutOptional<typename std::decay_t<decltype(field)>::Value>::Type;
    const bool required = field.fallback.empty();
    const yaml::Node* node = required ? fields.require(field.name) : fields.find(field.name);
    if (!node && field.fallback == plan::kNoDefault) return;  // the member keeps its value
    std::optional<V> value;
    if (node)
      value = read_value<V>(fields.reader(), *node, fmt::format("`{}`", field.name), field.bounds,
                            field.form);
    else if (!required)
      value = parse_default<V>(field.fallback);
    if (value)
      record.*field.member = *std::move(value);
    else
      unread.insert(field.name);
  });
  return unread;
}

/// Does the same for the record that `variant` names.
template <typename... T>
std::set<std::string_view> read_record(const Fields& fields, const Variant& variant,
                                       std::variant<T...>& out) {
  plan::set_type(out, variant.type);
  return std::visit([&](auto& record) { return read_record(fields, record); }, out);
}

}  // namespace flow::job
