// `learning_rate:`: a number, or a schedule with its warm-up.
#include <fmt/format.h>

#include "compiler/job/read/followed.h"
#include "compiler/job/read/read_record.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/optimizer_table.h"
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

/// `rates`, the value of `key`, are as many as `wanted`. `each`: "one for each boundary".
void check_count(const Fields& fields, std::string_view key, std::string_view noun, size_t rates,
                 size_t wanted, std::string_view each) {
  if (rates == wanted) return;
  fields.reader()
      .error(Diagnosis::kPiecewise, *fields.find(key),
             fmt::format("{}; expected {}, {}", counted(rates, noun), wanted, each))
      .label(fields.find("boundaries")->span, "the boundaries");
}

void check_pieces(const Fields& fields, const plan::schedules::PiecewiseConstant& schedule) {
  check_boundaries(fields.reader(), *fields.find("boundaries"), schedule.boundaries);
  check_count(fields, "values", "value", schedule.values.size(), schedule.boundaries.size() + 1,
              "one more than boundaries");
}

/// One factor stands for all.
void check_pieces(const Fields& fields, plan::schedules::PiecewiseScaling& schedule) {
  const size_t wanted = schedule.boundaries.size();
  check_boundaries(fields.reader(), *fields.find("boundaries"), schedule.boundaries);
  if (fields.find("scale")->is_scalar()) schedule.scale.resize(wanted, schedule.scale.front());
  check_count(fields, "scale", "factor", schedule.scale.size(), wanted, "one for each boundary");
}

plan::RateFunction read_function(const Fields& fields, const Variant& variant) {
  plan::RateFunction function;
  const auto unread = read_record(fields, variant, function);
  const auto is_read = [&](std::string_view key) { return !unread.contains(key); };
  if (auto* pieces = std::get_if<plan::schedules::PiecewiseConstant>(&function);
      pieces && is_read("boundaries") && is_read("values"))
    check_pieces(fields, *pieces);
  if (auto* pieces = std::get_if<plan::schedules::PiecewiseScaling>(&function);
      pieces && is_read("boundaries") && is_read("scale"))
    check_pieces(fields, *pieces);
  return function;
}

std::optional<plan::Warmup> read_warmup(Reader& reader, const yaml::Node& node, Span key) {
  if (!expect_variant(reader, node, "`warmup`", warmups())) return {};
  const Variant* variant = pick_variant(reader, node, key, "`warmup`", warmups());
  const Fields fields(reader, node, key,
                      variant ? fmt::format("the warm-up `{}`", variant->type) : "`warmup`",
                      keys_of(warmups(), variant));
  if (!variant) return {};
  plan::WrittenWarmup warmup;
  read_record(fields, *variant, warmup);
  return std::visit([](const plan::Warmup& one) { return one; }, warmup);
}

plan::Schedule read_schedule(Reader& reader, const yaml::Node& node, Span key, Span& follows) {
  const Variant* variant = pick_variant(reader, node, key, "`learning_rate`", learning_rates());
  const Fields fields(
      reader, node, key,
      variant ? fmt::format("the learning rate `{}`", variant->type) : "`learning_rate`",
      keys_of(learning_rates(), variant));
  plan::Schedule schedule;
  if (!variant) return schedule;
  schedule.function = read_function(fields, *variant);
  if (const yaml::Node* warmup = fields.find("warmup"))
    schedule.warmup = read_warmup(reader, *warmup, fields.key_span("warmup"));
  if (!std::holds_alternative<plan::schedules::Plateau>(schedule.function)) return schedule;
  schedule.follows = read_followed(fields, "watch");
  if (schedule.follows) follows = fields.find("watch")->span;
  return schedule;
}

}  // namespace

plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key, Span& follows) {
  plan::schedules::Constant constant;
  if (node.is_scalar()) {
    constant.base = read_number(reader, node, "`learning_rate`", {.min = 0}).value_or(0);
    return {constant};
  }
  if (!reader.expect(node, yaml::Kind::kMapping, "`learning_rate`")) return {};
  return read_schedule(reader, node, key, follows);
}

}  // namespace flow::job
