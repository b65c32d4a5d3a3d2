// `optimizer:`: what is minimised, how, and the learning rate as a function of the step.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

const Bounds kNotNegative{.min = 0};

void check_boundaries(Reader& reader, const yaml::Node& node,
                      const std::vector<int64_t>& boundaries) {
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] > boundaries[i - 1]) continue;
    reader.error(Diagnosis::kPiecewise, node.items[i],
                 fmt::format("boundary {} follows {}, boundaries must grow", boundaries[i],
                             boundaries[i - 1]));
    return;
  }
}

plan::Schedule read_piecewise_constant(const Fields& fields) {
  Reader& reader = fields.reader();
  plan::Schedule schedule{"piecewise_constant", {}, {}, {}};
  const yaml::Node *boundaries = fields.require("boundaries"), *values = fields.require("values");
  if (!boundaries || !reader.expect(*boundaries, yaml::Kind::kList, "`boundaries`"))
    return schedule;
  if (!values || !reader.expect(*values, yaml::Kind::kList, "`values`")) return schedule;
  const auto steps = read_integers(reader, *boundaries, "`boundaries`", kNotNegative);
  const auto rates = read_numbers(reader, *values, "`values`", kNotNegative);
  if (!steps || !rates) return schedule;
  schedule.boundaries = *steps;
  schedule.rates = *rates;
  check_boundaries(reader, *boundaries, *steps);
  if (rates->size() != steps->size() + 1)
    reader
        .error(Diagnosis::kPiecewise, *values,
               fmt::format("{} values for {} boundaries, there must be {}", rates->size(),
                           steps->size(), steps->size() + 1))
        .label(boundaries->span, "the boundaries");
  return schedule;
}

plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key) {
  plan::Schedule constant;
  if (node.is_scalar()) {
    if (const auto base = read_number(reader, node, "`learning_rate`", kNotNegative))
      constant.values["base"] = *base;
    return constant;
  }
  if (!reader.expect(node, yaml::Kind::kMapping, "`learning_rate`")) return constant;
  const yaml::Node* type = node.find("type");
  if (!type) {
    reader.error(Diagnosis::kMissingKey, key, "`learning_rate` needs `type`");
    return constant;
  }
  const auto name = read_choice(reader, *type, "`type`", {"constant", "piecewise_constant"});
  if (!name) return constant;
  if (*name == "piecewise_constant")
    return read_piecewise_constant(
        Fields(reader, node, key, "`piecewise_constant`", {"type", "boundaries", "values"}));
  const Fields fields(reader, node, key, "`constant`", {"type", "base"});
  if (const yaml::Node* base = fields.require("base"))
    if (const auto value = read_number(reader, *base, "`base`", kNotNegative))
      constant.values["base"] = *value;
  return constant;
}

}  // namespace

std::optional<Optimizer> read_optimizer(Reader& reader, const yaml::Node& node, Span key) {
  Optimizer optimizer;
  optimizer.span = key;
  const Fields fields(reader, node, key, "`optimizer`",
                      {"type", "momentum", "nesterov", "learning_rate", "minimize"});
  if (!fields.is_mapping()) return {};
  if (const yaml::Node* type = fields.require("type"))
    read_choice(reader, *type, "`type`", {"sgd"});
  if (const yaml::Node* momentum = fields.find("momentum"))
    optimizer.momentum =
        read_number(reader, *momentum, "`momentum`", {.min = 0, .max = 1}).value_or(0);
  if (const yaml::Node* nesterov = fields.find("nesterov")) {
    optimizer.nesterov = read_bool(reader, *nesterov, "`nesterov`").value_or(false);
    if (optimizer.nesterov && optimizer.momentum == 0)
      reader.error(Diagnosis::kOutOfRange, *nesterov, "`nesterov` needs a `momentum` above 0");
  }
  if (const yaml::Node* rate = fields.require("learning_rate"))
    optimizer.learning_rate = read_learning_rate(reader, *rate, fields.key_span("learning_rate"));
  if (const yaml::Node* minimize = fields.require("minimize"))
    if (const auto name = read_text(reader, *minimize, "`minimize`"))
      optimizer.minimize = {*name, minimize->span};
  return optimizer;
}

}  // namespace flow::job
