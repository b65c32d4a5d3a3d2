// Records of typed values. A record defines once how job files and plans name a struct and its
// members. The keys of job files with their documentation, the reader of job files, the JSON of
// plans, and the checks of both are derived from it. A struct defines its record in a function:
//
//   struct Constant {
//     double value = 0;
//     static constexpr auto record() {
//       return Record{"constant", "The same value for every element.", "",
//                     std::tuple{Field{"value", &Constant::value, "", "value of every element"}}};
//     }
//   };
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

namespace flow::plan {

/// The range of a number. It is unbounded on a side whose limits are absent.
struct Bounds {
  std::optional<double> min = {}, max = {};      // both included
  std::optional<double> below = {}, above = {};  // both excluded
};

inline constexpr Bounds kNotNegative{.min = 0}, kPositive{.above = 0};

constexpr bool is_within(double number, const Bounds& bounds) {
  return (!bounds.min || number >= *bounds.min) && (!bounds.max || number <= *bounds.max) &&
         (!bounds.below || number < *bounds.below) && (!bounds.above || number > *bounds.above);
}

/// The names of the enumerators of E, in their order.
template <typename E>
struct EnumNames;

template <typename E>
constexpr std::string_view enum_name(E value) {
  return EnumNames<E>::words[static_cast<size_t>(value)];
}

/// What a member of type std::string contains.
enum class TextForm {
  kText,             // any text that is not empty
  kTextOrNone,       // the word `none` means that the member is empty
  kCharacter,        // one ASCII character
  kCharacterOrNone,  // one ASCII character; `none` means that the member is empty
  kElementType       // one of kElementTypes
};

/// Returns true for one ASCII character that can separate fields. A line end cannot.
constexpr bool is_character(std::string_view text) {
  return text.size() == 1 && text[0] > 0 && text[0] != '\n' && text[0] != '\r';
}

/// The element types of raw binary files. They include types that no tensor has.
inline constexpr std::array<std::string_view, 13> kElementTypes = {
    "uint8", "int8",    "uint16",   "int16",   "uint32",  "int32", "uint64",
    "int64", "float16", "bfloat16", "float32", "float64", "bool"};

/// nvcc puts parentheses around types of pointers to members, which makes GCC warn. It does not do
/// so for an alias of the type.
template <typename T, typename V>
using MemberPointer = V T::*;

/// A member of T.
template <typename T, typename V>
struct Field {
  using Value = V;

  std::string_view name;
  MemberPointer<T, V> member;
  /// The default value, written as in a job file. If it is empty, the field is required.
  std::string_view fallback;
  std::string_view doc;
  Bounds bounds = {};  // the range of each number
  TextForm form = {};  // the form of a text
};
template <typename T, typename V>
Field(std::string_view, V T::*, std::string_view, std::string_view, Bounds = {}, TextForm = {})
    -> Field<T, V>;

/// The default of a member that has none. It is the empty text, 0 or an empty std::optional or
/// list if it is absent.
inline constexpr std::string_view kNoDefault = "none";

template <typename... F>
struct Record {
  std::string_view type;     // the name that `type:` selects
  std::string_view doc;      // one sentence
  std::string_view formula;  // the formula that the type computes
  std::tuple<F...> fields;
};
template <typename... F>
Record(std::string_view, std::string_view, std::string_view, std::tuple<F...>) -> Record<F...>;

/// A struct that defines a record.
template <typename T>
concept HasRecord = requires {
  T::record();
};

template <typename T, typename Visit>
constexpr void for_each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, T::record().fields);
}

/// Calls visit(name, number, bounds) for each number and flag of a record; flags are 0 or 1.
template <typename T, typename Visit>
void for_each_number(const T& record, const Visit& visit) {
  for_each_field<T>([&](const auto& field) {
    if constexpr (std::is_arithmetic_v<typename std::decay_t<decltype(field)>::Value>)
      visit(field.name, static_cast<double>(record.*field.member), field.bounds);
  });
}

/// Returns the type of the record in a variant.
template <typename... T>
std::string_view type_name(const std::variant<T...>& value) {
  return std::visit([](const auto& record) { return record.record().type; }, value);
}

/// Puts a default-constructed record of that type into a variant. Returns false if the type is
/// unknown.
template <typename... T>
bool set_type(std::variant<T...>& value, std::string_view type) {
  return ((T::record().type == type && (value.template emplace<T>(), true)) || ...);
}

}  // namespace flow::plan
