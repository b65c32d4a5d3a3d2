// How a variable starts: `zeros`, `0.1`, or `{type: truncated_normal, stddev: 0.1}`.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

struct Number {
  std::string_view key;
  std::optional<double> fallback = {};  // absent: required
  Bounds bounds = {};
};
/// One of a few words, the default first. The word becomes a key of `values`.
struct Word {
  std::string_view key;
  std::vector<std::string> choices;
};
struct Variety {
  std::string_view type;
  std::vector<Number> numbers = {};
  std::vector<Word> words = {};
};

const std::vector<Variety>& varieties() {
  static const Bounds kNotNegative{.min = 0};
  static const std::vector<Number> kNormal = {{"mean", 0}, {"stddev", 1, kNotNegative}};
  static const Word kMode = {"mode", {"fan_in", "fan_out", "fan_avg"}};
  static const std::vector<Variety> kAll = {
      {"zeros"},
      {"ones"},
      {"constant", {{"value"}}},
      {"random_uniform", {{"min"}, {"max"}}},
      {"random_normal", kNormal},
      {"truncated_normal", kNormal},
      {"variance_scaling",
       {{"scale", 1, kNotNegative}},
       {kMode, {"distribution", {"truncated_normal", "random_normal", "random_uniform"}}}},
      {"glorot_uniform"},
      {"xavier_uniform"},
      {"glorot_normal"},
      {"xavier_normal"},
      {"kaiming",
       {{"negative_slope", 0}},
       {kMode,
        {"distribution", {"random_normal", "truncated_normal", "random_uniform"}},
        {"nonlinearity", {"relu", "leaky_relu", "linear"}}}},
      {"npy"}};
  return kAll;
}

const Variety* find_variety(Reader& reader, const yaml::Node& node, std::string_view what) {
  std::vector<std::string> names;
  for (const Variety& variety : varieties()) {
    if (node.scalar == variety.type) return &variety;
    names.emplace_back(variety.type);
  }
  reader
      .error(Diagnosis::kUnknownChoice, node,
             fmt::format("{} is `{}`, which is no initializer", what, node.scalar))
      .with_hint(suggestion(node.scalar, names, "there are"));
  return nullptr;
}

void read_words(Reader& reader, const Fields& fields, const Variety& variety,
                plan::Initializer& made) {
  for (const Word& word : variety.words) {
    const yaml::Node* given = fields.find(word.key);
    const auto text = given
                          ? read_choice(reader, *given, fmt::format("`{}`", word.key), word.choices)
                          : word.choices.front();
    if (text) made.values[*text] = 1;
  }
}

plan::Initializer read_variety(Reader& reader, const Fields& fields, const Variety& variety) {
  plan::Initializer made{std::string(variety.type), {}, {}};
  for (const Number& number : variety.numbers) {
    const yaml::Node* given =
        number.fallback ? fields.find(number.key) : fields.require(number.key);
    const auto value =
        given ? read_number(reader, *given, fmt::format("`{}`", number.key), number.bounds)
              : number.fallback;
    if (value) made.values[std::string(number.key)] = *value;
  }
  read_words(reader, fields, variety, made);
  if (variety.type == "npy")
    if (const yaml::Node* path = fields.require("path"))
      made.path = read_text(reader, *path, "`path`").value_or("");
  return made;
}

}  // namespace

std::optional<plan::Initializer> read_initializer(Reader& reader, const yaml::Node& node,
                                                  std::string_view what) {
  if (node.is_scalar()) {
    if (const auto value = parse_number(node.scalar))
      return plan::Initializer{"constant", {{"value", *value}}, {}};
    const Variety* variety = find_variety(reader, node, what);
    if (!variety) return {};
    yaml::Node plain;  // the type alone: its other keys are defaults, or missing here
    plain.kind = yaml::Kind::kMapping;
    return read_variety(
        reader, Fields(reader, plain, node.span, fmt::format("`{}`", node.scalar), {}), *variety);
  }
  if (!reader.expect(node, yaml::Kind::kMapping, what)) return {};
  const yaml::Node* type = node.find("type");
  if (!type) {
    reader.error(Diagnosis::kMissingKey, node, fmt::format("{} needs `type`", what));
    return {};
  }
  if (!reader.expect(*type, yaml::Kind::kScalar, "`type`")) return {};
  const Variety* variety = find_variety(reader, *type, what);
  if (!variety) return {};
  std::vector<std::string> keys{"type"};
  for (const Number& number : variety->numbers) keys.emplace_back(number.key);
  for (const Word& word : variety->words) keys.emplace_back(word.key);
  if (variety->type == "npy") keys.emplace_back("path");
  return read_variety(
      reader, Fields(reader, node, type->span, fmt::format("`{}`", type->scalar), keys), *variety);
}

}  // namespace flow::job
