// `learning_rate:`: a number, or a schedule with its warm-up.
#include <fmt/format.h>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

void check_boundaries(Reader& reader, const yaml::Node& node,
                      const std::vector<int64_t>& boundaries) {
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] > boundaries[i - 1]) continue;
    reader.error(Diagnosis::kPiecewise, node.items[i],
                 fmt::format("boundary {} after {}; expected increasing boundaries", boundaries[i],
                             boundaries[i - 1]));
    return;
  }
}

/// The rates or factors of `key`, as many as its pieces: `more` than boundaries.
void read_pieces(const Fields& fields, std::string_view key, size_t more,
                 const VariantValues& values, plan::Schedule& schedule) {
  const auto steps = values.boundaries.find("boundaries");
  const auto rates = values.lists.find(std::string(key));
  if (steps == values.boundaries.end() || rates == values.lists.end()) return;
  const yaml::Node &boundaries = *fields.find("boundaries"), &given = *fields.find(key);
  schedule.boundaries = steps->second;
  schedule.rates = rates->second;
  check_boundaries(fields.reader(), boundaries, schedule.boundaries);
  const size_t wanted = schedule.boundaries.size() + more;
  if (more == 0 && given.is_scalar()) schedule.rates.resize(wanted, rates->second.front());
  if (schedule.rates.size() == wanted) return;
  fields.reader()
      .error(Diagnosis::kPiecewise, given,
             fmt::format("{}; expected {}, {}",
                         counted(schedule.rates.size(), more == 0 ? "factor" : "value"), wanted,
                         more == 0 ? "one for each boundary" : "one more than boundaries"))
      .label(boundaries.span, "the boundaries");
}

std::optional<plan::Warmup> read_warmup(Reader& reader, const yaml::Node& node, Span key) {
  if (!expect_variant(reader, node, "`warmup`", warmups())) return {};
  const Variant* variant = pick_variant(reader, node, key, "`warmup`", warmups());
  const Fields fields(reader, node, key,
                      variant ? fmt::format("the warm-up `{}`", variant->type) : "`warmup`",
                      keys_of(warmups(), variant));
  if (!variant) return {};
  const VariantValues values = read_values(fields, *variant);
  const bool linear = variant->type == "linear";
  const auto steps = values.number("steps");
  const auto share = values.number(linear ? "start_multiplier" : "multiplier");
  if (!steps || !share) return {};
  return plan::Warmup{std::string(variant->type), static_cast<int64_t>(*steps), *share};
}

plan::Schedule read_schedule(Reader& reader, const yaml::Node& node, Span key) {
  plan::Schedule schedule;
  const Variant* variant = pick_variant(reader, node, key, "`learning_rate`", learning_rates());
  const Fields fields(
      reader, node, key,
      variant ? fmt::format("the learning rate `{}`", variant->type) : "`learning_rate`",
      keys_of(learning_rates(), variant));
  if (!variant) return schedule;
  const VariantValues values = read_values(fields, *variant);
  schedule.type = variant->type;
  schedule.values = values.numbers;
  read_pieces(fields, "values", 1, values, schedule);
  read_pieces(fields, "scale", 0, values, schedule);
  if (const yaml::Node* warmup = fields.find("warmup"))
    schedule.warmup = read_warmup(reader, *warmup, fields.key_span("warmup"));
  return schedule;
}

}  // namespace

plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key) {
  plan::Schedule constant;
  if (node.is_scalar()) {
    if (const auto base = read_number(reader, node, "`learning_rate`", {.min = 0}))
      constant.values["base"] = *base;
    return constant;
  }
  if (!reader.expect(node, yaml::Kind::kMapping, "`learning_rate`")) return constant;
  return read_schedule(reader, node, key);
}

}  // namespace flow::job
