// Decodes integers and JSON values.
#include "runtime/data/files/tar_field.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/plan/json/json.h"

namespace flow::data {

FieldKind kind_of_field(std::string_view field) {
  constexpr std::array<std::pair<std::string_view, FieldKind>, 7> kKinds = {{
      {"png", FieldKind::kImage},
      {"jpg", FieldKind::kImage},
      {"jpeg", FieldKind::kImage},
      {"cls", FieldKind::kInteger},
      {"npy", FieldKind::kArray},
      {"txt", FieldKind::kText},
      {"json", FieldKind::kJson},
  }};
  const size_t dot = field.rfind('.');
  const std::string_view last = dot == field.npos ? field : field.substr(dot + 1);
  const auto* const found = std::ranges::find(kKinds, last, &decltype(kKinds)::value_type::first);
  return found == kKinds.end() ? FieldKind::kUnknown : found->second;
}

Expected<int64_t> decode_integer(std::span<const std::byte> bytes) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  std::string_view number = text;
  if (number.starts_with('+') && !number.starts_with("+-")) number.remove_prefix(1);
  int64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error == std::errc() && end == number.data() + number.size()) return value;
  if (text.empty()) return RunError("the field is empty; expected an integer");
  return RunError(fmt::format("\"{}\" is not an integer of 64 bits", shortened(text)));
}

namespace {

/// Returns a step of a pointer with `~1` and `~0` replaced by `/` and `~`.
std::string unescaped(std::string_view step, std::string_view pointer) {
  std::string out;
  for (size_t i = 0; i < step.size(); ++i) {
    const bool escape = step[i] == '~';
    const char next = escape && i + 1 < step.size() ? step[i + 1] : '\0';
    if (escape && next != '0' && next != '1')
      throw RequestError(fmt::format("`{}` is not a JSON pointer: `~` without 0 or 1", pointer),
                         "write `~0` for `~` and `~1` for `/`");
    out += escape ? (next == '0' ? '~' : '/') : step[i];
    i += escape;
  }
  return out;
}

/// Returns the member or element, or null if there is none.
const Json* member_of(const Json& json, const std::string& step) {
  if (json.is_object()) {
    const auto found = json.find(step);
    return found == json.end() ? nullptr : &*found;
  }
  const auto index = whole_number(step);
  const bool canonical = is_digits(step) && (step == "0" || step[0] != '0');
  if (!json.is_array() || !canonical || !index) return nullptr;
  return static_cast<uint64_t>(*index) < json.size() ? &json[static_cast<size_t>(*index)] : nullptr;
}

Expected<JsonValue> value_of(const Json& json, const JsonPointer& pointer) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return JsonValue(json.get<bool>());
    case Json::value_t::number_integer:
      return JsonValue(json.get<int64_t>());
    case Json::value_t::number_unsigned:
      if (std::in_range<int64_t>(json.get<uint64_t>())) return JsonValue(json.get<int64_t>());
      return JsonValue(json.get<double>());
    case Json::value_t::number_float:
      return JsonValue(json.get<double>());
    case Json::value_t::string:
      return JsonValue(json.get<std::string>());
    default:
      return RunError(fmt::format("the value at `{}` is {}; expected a number, a bool or a string",
                                  pointer.text(), json.type_name()));
  }
}

}  // namespace

JsonPointer::JsonPointer(std::string_view text) : text_(text) {
  if (text.empty()) return;
  if (!text.starts_with('/'))
    throw RequestError(fmt::format("`{}` is not a JSON pointer", text_),
                       fmt::format("write `/{}`", text_));
  for (const std::string& step : split(text.substr(1), '/'))
    steps_.push_back(unescaped(step, text));
}

Expected<JsonValue> decode_json(std::span<const std::byte> bytes, const JsonPointer& pointer) {
  constexpr size_t kMost = size_t{1} << 24;
  if (bytes.size() > kMost)
    return RunError(
        fmt::format("the JSON text has {} bytes; expected at most {}", bytes.size(), kMost));
  Json json;
  try {
    json = plan::parse_foreign_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                                    "JSON");
  } catch (const RunError& error) {
    return error;
  }
  const Json* at = &json;
  for (const std::string& step : pointer.steps()) {
    at = member_of(*at, step);
    if (!at) return RunError(fmt::format("the JSON text has no value at `{}`", pointer.text()));
  }
  return value_of(*at, pointer);
}

}  // namespace flow::data
