// Checks the members of a record by the bounds and forms that the record defines.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/plan/check/check.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

/// Refuses a number that is not finite or out of its range.
inline void check_number(std::string_view name, double number, const Bounds& bounds,
                         const Location& location) {
  location.require(std::isfinite(number), "`{}` is {}; expected a finite number", name, number);
  location.require(is_within(number, bounds), "`{}` is {}, which is out of range", name, number);
}

/// Refuses a text that does not have the form. An empty text is only valid for optional members.
inline void check_text(std::string_view name, const std::string& text, TextForm form, bool optional,
                       const Location& location) {
  using enum TextForm;
  const bool character = form == kCharacter || form == kCharacterOrNone;
  const bool may_be_empty = optional || form == kTextOrNone || form == kCharacterOrNone;
  location.require(!text.empty() || may_be_empty, "`{}` is empty", name);
  location.require(text.find('\0') == text.npos, "`{}` contains a NUL character", name);
  location.require(!character || text.empty() || is_character(text),
                   "`{}` is `{}`; expected one ASCII character", name, text);
  location.require(form != kElementType || std::ranges::count(kElementTypes, text) > 0,
                   "unknown type `{}` of numbers", text);
}

/// Refuses a record with a member that does not have the value that its field allows. Members that
/// are neither numbers nor texts, nor lists of them, are not checked.
template <typename T>
void check_record(const T& record, const Location& location) {
  for_each_field<T>([&](const auto& field) {
    using V = typename std::decay_t<decltype(field)>::Value;
    const V& value = record.*field.member;
    const auto check = [&](double number) {
      check_number(field.name, number, field.bounds, location);
    };
    const bool optional = field.fallback == kNoDefault;
    if constexpr (std::is_arithmetic_v<V>) {
      if (!optional || value != 0) check(static_cast<double>(value));
    } else if constexpr (std::is_same_v<V, std::optional<int64_t>>) {
      if (value) check(static_cast<double>(*value));
    } else if constexpr (std::is_same_v<V, std::string>) {
      check_text(field.name, value, field.form, optional, location);
    } else if constexpr (std::is_same_v<V, std::vector<std::string>>) {
      location.require(optional || !value.empty(), "`{}` is empty", field.name);
      for (const std::string& text : value)
        check_text(field.name, text, TextForm::kText, false, location);
    } else if constexpr (std::is_same_v<V, std::array<int64_t, 2>> ||
                         std::is_same_v<V, std::array<double, 2>>) {
      for (const auto number : value) check(static_cast<double>(number));
    } else if constexpr (std::is_same_v<V, std::optional<std::array<int64_t, 3>>>) {
      if (value)
        for (const int64_t number : *value) check(static_cast<double>(number));
    }
  });
}

}  // namespace flow::plan
