// The values of a record by name, as the JSON of plans contains them, and their conversion from and
// to records.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

struct NamedValues {
  std::string type;
  std::map<std::string, double> numbers;  // flags are 0 or 1
  // The values that are not numbers. A record has at most one member of each of these types.
  std::vector<int64_t> boundaries;
  std::vector<double> rates;
  std::string path;
};

/// Writes the type and the numbers: "random_normal mean=0 stddev=1".
inline std::string text_of(const NamedValues& values) {
  std::string text = values.type;
  for (const auto& [name, number] : values.numbers)
    text += fmt::format(" {}={}", name, shortest(number));
  return text;
}

/// Returns the field of `values` for a member of type V.
template <typename V, typename Named>
auto& place_of(Named& values) {
  if constexpr (std::is_same_v<V, std::string>)
    return values.path;
  else if constexpr (std::is_same_v<V, std::vector<int64_t>>)
    return values.boundaries;
  else
    return values.rates;
}

template <typename T>
NamedValues named_values(const T& record) {
  NamedValues values;
  values.type = T::record().type;
  for_each_field<T>([&](const auto& field) {
    using V = typename std::decay_t<decltype(field)>::Value;
    if constexpr (std::is_arithmetic_v<V>)
      values.numbers.emplace(field.name, static_cast<double>(record.*field.member));
    else
      place_of<V>(values) = record.*field.member;
  });
  return values;
}

template <typename... T>
NamedValues named_values(const std::variant<T...>& value) {
  return std::visit([](const auto& record) { return named_values(record); }, value);
}

/// Puts values into the record of their type. Calls refuse(problem), which throws, if a value is
/// missing or no member takes it. `owner` names the record in messages: "learning rate cosine".
template <typename T, typename Refuse>
void set_members(T& record, const NamedValues& values, std::string_view owner,
                 const Refuse& refuse) {
  for_each_field<T>([&](const auto& field) {
    using V = typename std::decay_t<decltype(field)>::Value;
    if constexpr (std::is_arithmetic_v<V>) {
      const auto found = values.numbers.find(std::string(field.name));
      if (found == values.numbers.end()) refuse(fmt::format("{}: missing `{}`", owner, field.name));
      if (!is_representable(found->second, DTypeOf<V>::value))
        refuse(fmt::format("{}: `{}` is {}, out of range", owner, field.name, found->second));
      record.*field.member = static_cast<V>(found->second);
    } else {
      record.*field.member = place_of<V>(values);
    }
  });
  const NamedValues taken = named_values(record);
  if (taken.numbers.size() != values.numbers.size())
    refuse(fmt::format("{}: expected {} numbers, found {}", owner, taken.numbers.size(),
                       values.numbers.size()));
  if (taken.boundaries.size() != values.boundaries.size())
    refuse(fmt::format("{} takes no boundaries", owner));
  if (taken.rates.size() != values.rates.size()) refuse(fmt::format("{} takes no rates", owner));
  if (taken.path != values.path) refuse(fmt::format("{} takes no path", owner));
}

/// Sets a variant of records in the same way. `noun` is the word for it in messages, "learning
/// rate", or is empty.
template <typename... T, typename Refuse>
void set_values(std::variant<T...>& out, const NamedValues& values, std::string_view noun,
                const Refuse& refuse) {
  if (!set_type(out, values.type))
    refuse(fmt::format("unknown {} `{}`", noun.empty() ? "type" : noun, values.type));
  const std::string owner = fmt::format("{}{}{}", noun, noun.empty() ? "" : " ", values.type);
  std::visit([&](auto& record) { set_members(record, values, owner, refuse); }, out);
}

}  // namespace flow::plan
