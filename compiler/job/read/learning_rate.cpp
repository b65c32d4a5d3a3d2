// `learning_rate:`: a number, or a schedule with its warm-up.
#include <fmt/format.h>

#include "compiler/job/read/followed.h"
#include "compiler/job/read/read_record.h"
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
  if (node.is_scalar() && parse_integer(node.scalar)) {
    reader.expect(node, yaml::Kind::kMapping, "`warmup`",
                  fmt::format("write `{{type: linear, steps: {}, start_multiplier: 0}}`, in steps",
                              node.scalar));
    return {};
  }
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

/// A number or a mapping of `learning_rate`.
struct ParsedRate {
  std::optional<Fields> fields;  // of a mapping
  plan::Schedule schedule;
};

/// `follows`: where its value is named, if it is a plateau.
ParsedRate read_mapping(Reader& reader, const yaml::Node& node, Span key, FollowedPlace& follows) {
  const Variant* variant = pick_variant(reader, node, key, "`learning_rate`", learning_rates());
  ParsedRate read;
  const Fields& fields = read.fields.emplace(
      reader, node, key,
      variant ? fmt::format("the learning rate `{}`", variant->type) : "`learning_rate`",
      keys_of(learning_rates(), variant));
  if (!variant) return read;
  read.schedule.function = read_function(fields, *variant);
  if (const yaml::Node* warmup = fields.find("warmup"))
    read.schedule.warmup = read_warmup(reader, *warmup, fields.key_span("warmup"));
  if (!std::holds_alternative<plan::schedules::Plateau>(read.schedule.function)) return read;
  read.schedule.follows = read_followed(fields, "watch", follows);
  return read;
}

ParsedRate read_rate(Reader& reader, const yaml::Node& node, Span key, FollowedPlace& follows) {
  if (node.is_scalar()) {
    plan::schedules::Constant constant;
    constant.base = read_number(reader, node, "`learning_rate`", {.min = 0}).value_or(0);
    return {{}, {constant}};
  }
  if (!reader.expect(node, yaml::Kind::kMapping, "`learning_rate`")) return {};
  return read_mapping(reader, node, key, follows);
}

/// Schedules that follow one another.
class RateList {
 public:
  RateList(Reader& reader, const yaml::Node& list) : reader_(reader), list_(list) {}

  plan::Schedule read() {
    if (list_.items.empty())
      reader_.error(Diagnosis::kScheduleList, list_,
                    "`learning_rate` is empty; expected a number or a schedule");
    for (const yaml::Node& item : list_.items) read_item(item);
    return std::move(schedule_);
  }

 private:
  void read_item(const yaml::Node& item) {
    FollowedPlace follows;
    ParsedRate read = read_rate(reader_, item, item.span, follows);
    if (std::holds_alternative<plan::schedules::Plateau>(read.schedule.function))
      reader_.error(Diagnosis::kScheduleList, item,
                    "`plateau` in a list of schedules; expected functions of the step");
    if (&item == &list_.items.front()) {
      schedule_.function = std::move(read.schedule.function);
      schedule_.warmup = read.schedule.warmup;
    } else {
      schedule_.stages.push_back({until_, std::move(read.schedule.function), read.schedule.warmup});
    }
    read_until(item, read.fields);
  }

  void read_until(const yaml::Node& item, const std::optional<Fields>& fields) {
    const bool last = &item == &list_.items.back();
    const yaml::Node* given = fields ? fields->find("until") : nullptr;
    if (last && given)
      reader_
          .error(Diagnosis::kScheduleList, fields->key_span("until"),
                 "the last schedule has `until`, but it runs to the end")
          .with_hint("delete it, or add the schedule that follows");
    if (!last && !given)
      reader_.error(Diagnosis::kScheduleList, item, "only the last schedule can do without `until`")
          .with_hint("add `until`: first step of the next schedule");
    if (!given) return;
    const auto until = fields->integer("until");
    if (until && *until <= until_)
      reader_.error(
          Diagnosis::kScheduleList, *given,
          fmt::format(
              "`until` is {}, but the schedule above ends at step {}; expected increasing steps",
              *until, until_));
    until_ = until.value_or(until_);
  }

  Reader& reader_;
  const yaml::Node& list_;
  plan::Schedule schedule_;
  int64_t until_ = 0;  // of the schedule above
};

}  // namespace

plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key,
                                  FollowedPlace& follows) {
  if (reader.diags.is_silenced(node.span)) return {};  // a list without brackets
  if (node.is_list()) return RateList(reader, node).read();
  ParsedRate read = read_rate(reader, node, key, follows);
  if (read.fields && read.fields->find("until"))
    reader
        .error(Diagnosis::kScheduleList, read.fields->key_span("until"),
               "`until` is only for a schedule in a list")
        .with_hint("write a list with the schedule that follows, or delete `until`");
  return std::move(read.schedule);
}

}  // namespace flow::job
