// Writes and reads learned values as JSON.
#include "runtime/data/sources/learned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "runtime/base/error.h"
#include "runtime/plan/json/json.h"

namespace flow::data {
namespace {

using Numbers = std::optional<std::vector<double>> LearnedColumn::*;

constexpr std::pair<const char*, Numbers> kNumbers[] = {
    {"mean", &LearnedColumn::mean}, {"std", &LearnedColumn::std}, {"fill", &LearnedColumn::fill}};

[[noreturn]] void refuse(const std::string& path, const std::string& column,
                         std::string_view problem) {
  throw RequestError(fmt::format("{}: column `{}`: {}", path, column, problem),
                     "load another checkpoint, or learn again with `--load none`");
}

std::vector<double> read_numbers(const Json& json, const std::string& path,
                                 const std::string& column, const char* key) {
  std::vector<double> numbers;
  if (!json.is_array() || json.empty())
    refuse(path, column, fmt::format("`{}` is not a list of numbers", key));
  for (const Json& item : json) {
    if (!item.is_number()) refuse(path, column, fmt::format("`{}` has {}", key, item.dump()));
    numbers.push_back(item.get<double>());
    if (!std::isfinite(numbers.back())) refuse(path, column, fmt::format("`{}` overflows", key));
  }
  return numbers;
}

LearnedColumn read_column(const Json& json, const std::string& path, const std::string& name) {
  LearnedColumn column;
  if (!json.is_object()) refuse(path, name, "expected an object");
  size_t known = 0;
  for (const auto& [key, numbers] : kNumbers) {
    if (!json.contains(key)) continue;
    column.*numbers = read_numbers(json[key], path, name, key);
    if (numbers == &LearnedColumn::std && std::ranges::min(*column.std) <= 0)
      refuse(path, name, "`std` has a value that is not positive");
    ++known;
  }
  if (const auto categories = json.find("categories"); categories != json.end()) {
    ++known;
    if (!categories->is_array()) refuse(path, name, "`categories` is not a list");
    column.categories.emplace();
    for (const Json& item : *categories) {
      if (!item.is_string()) refuse(path, name, "`categories` has a value that is not a text");
      column.categories->push_back(item.get<std::string>());
    }
  }
  if (known != json.size()) refuse(path, name, "unknown key");
  return column;
}

}  // namespace

std::string learned_text(const Learned& learned) {
  std::string text = "{";
  for (const auto& [name, column] : learned) {
    text += text.size() > 1 ? ",\n " : "\n ";
    text += plan::json_string(name) + ": {";
    const char* comma = "";
    const auto write = [&](const char* key, const auto& values, const auto& to_text) {
      text += fmt::format("{}\"{}\": [", comma, key);
      for (size_t i = 0; i < values.size(); ++i)
        text += (i > 0 ? ", " : "") + std::string(to_text(values[i]));
      text += "]";
      comma = ", ";
    };
    if (column.categories) write("categories", *column.categories, plan::json_string);
    for (const auto& [key, numbers] : kNumbers)
      if (column.*numbers) write(key, *(column.*numbers), plan::json_number);
    text += "}";
  }
  return text + "\n}\n";
}

Learned parse_learned(std::string_view text, const std::string& path) {
  const Json json = plan::parse_json(text, path);
  if (!json.is_object()) throw RequestError(fmt::format("{}: expected an object of columns", path));
  Learned learned;
  for (const auto& [name, column] : json.items()) learned[name] = read_column(column, path, name);
  return learned;
}

}  // namespace flow::data
