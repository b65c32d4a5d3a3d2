// Reads `optimizer:`: the losses, the rule, and the trained variables. Reads `learning_rate:`: a
// number, or a schedule with its warm-up.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/precision.h"

namespace flow::job {
namespace {

void check_boundaries(Reader& reader, const yaml::Node& node,
                      const std::vector<int64_t>& boundaries) {
  for (size_t i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] > boundaries[i - 1]) continue;
    reader.error(Diagnosis::kPiecewise, node.items[i],
                 "boundary {} after {}; expected increasing boundaries", boundaries[i],
                 boundaries[i - 1]);
    return;
  }
}

/// Reports an error unless the number of `rates`, the value of `key`, is `wanted`. `each` explains
/// this number, such as "one for each boundary".
void check_count(const Fields& fields, std::string_view key, std::string_view noun, size_t rates,
                 size_t wanted, std::string_view each) {
  if (rates == wanted) return;
  fields.reader()
      .error(Diagnosis::kPiecewise, *fields.find(key), "{}; expected {}, {}", counted(rates, noun),
             wanted, each)
      .label(fields.find("boundaries")->span, "the boundaries");
}

void check_pieces(const Fields& fields, const plan::schedules::PiecewiseConstant& schedule) {
  check_boundaries(fields.reader(), *fields.find("boundaries"), schedule.boundaries);
  check_count(fields, "values", "value", schedule.values.size(), schedule.boundaries.size() + 1,
              "one more than boundaries");
}

/// Checks the pieces. A single factor applies to all boundaries.
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
  if (!expect_variant(reader, node, "`warmup`", kWarmups)) return {};
  const Variant* variant = pick_variant(reader, node, key, "`warmup`", kWarmups);
  const Fields fields(reader, node, key,
                      variant ? fmt::format("the warm-up `{}`", variant->type) : "`warmup`",
                      keys_of(kWarmups, variant));
  if (!variant) return {};
  plan::WrittenWarmup warmup;
  read_record(fields, *variant, warmup);
  return std::visit([](const plan::Warmup& one) { return one; }, warmup);
}

/// The value of `learning_rate`: a number or a mapping.
struct ParsedRate {
  std::optional<Fields> fields;  // set for a mapping
  plan::Schedule schedule;
};

/// Reads a mapping. If it is a plateau, sets `follows` to the position of the value that it
/// watches.
ParsedRate read_mapping(Reader& reader, const yaml::Node& node, Span key, FollowedPlace& follows) {
  const Variant* variant = pick_variant(reader, node, key, "`learning_rate`", kLearningRates);
  ParsedRate read;
  const Fields& fields = read.fields.emplace(
      reader, node, key,
      variant ? fmt::format("the learning rate `{}`", variant->type) : "`learning_rate`",
      keys_of(kLearningRates, variant));
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

/// A list of schedules that follow one another.
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
          "`until` is {}, but the schedule above ends at step {}; expected increasing steps",
          *until, until_);
    until_ = until.value_or(until_);
  }

  Reader& reader_;
  const yaml::Node& list_;
  plan::Schedule schedule_;
  int64_t until_ = 0;  // the end of the previous schedule
};

/// Reads the learning rate. Sets `follows` to the position of the value that a plateau watches.
plan::Schedule read_learning_rate(Reader& reader, const yaml::Node& node, Span key,
                                  FollowedPlace& follows) {
  if (reader.diags.is_silenced(node.span)) return {};  // a list without brackets was reported
  if (node.is_list()) return RateList(reader, node).read();
  ParsedRate read = read_rate(reader, node, key, follows);
  if (read.fields && read.fields->find("until"))
    reader
        .error(Diagnosis::kScheduleList, read.fields->key_span("until"),
               "`until` is only for a schedule in a list")
        .with_hint("write a list with the schedule that follows, or delete `until`");
  return std::move(read.schedule);
}

/// Reads one name, or a list of names.
std::vector<Name> read_losses(Reader& reader, const yaml::Node& node) {
  std::vector<Name> losses;
  if (node.is_list() && node.items.empty())
    reader.error(Diagnosis::kNotALoss, node, "`minimize` is empty; expected a loss");
  for (const yaml::Node& item : yaml::each_of(node)) {
    if (!reader.expect(
            item, yaml::Kind::kScalar, "`minimize`",
            "write names, as in `[a, b]`; use `{op: multiply, in: [a, 0.3]}` to weight one"))
      continue;
    const auto name = read_text(reader, item, "`minimize`");
    if (!name) continue;
    if (std::ranges::find(losses, *name, &Name::text) == losses.end())
      losses.push_back({*name, item.span});
    else
      reader.error(Diagnosis::kNotALoss, item, "duplicate loss `{}`", *name);
  }
  return losses;
}

void read_clipping(Reader& reader, const yaml::Node& node, Span key, Optimizer& optimizer) {
  if (!expect_variant(reader, node, "`grad_clipping`", kGradClippings)) return;
  const Variant* variant = pick_variant(reader, node, key, "`grad_clipping`", kGradClippings);
  const Fields fields(reader, node, key, "`grad_clipping`", keys_of(kGradClippings, variant));
  if (!variant) return;
  GradClipping clipping;
  read_record(fields, *variant, clipping);
  if (const auto* norm = std::get_if<ClipByGlobalNorm>(&clipping)) {
    optimizer.clip_norm = norm->clip_norm;
    optimizer.clip_epsilon = norm->epsilon;
  }
  if (const auto* value = std::get_if<ClipByValue>(&clipping))
    optimizer.clip_value = value->clip_value;
}

/// Reads globs and their factors on the learning rate, in the order of the file.
std::vector<std::pair<Name, double>> read_rate_scales(Reader& reader, const yaml::Node& node) {
  std::vector<std::pair<Name, double>> scales;
  for (const yaml::Entry& entry :
       reader.entries(node, "`learning_rate_scales`", R"(write `{"head/**": 10}`)")) {
    const std::string what = fmt::format("`{}`", entry.key);
    if (entry.value.is_scalar() && parse_number(entry.value.scalar) == 0.0)
      reader.error(Diagnosis::kOutOfRange, entry.value, "{} is 0; expected more than 0", what)
          .with_hint("set `trainable: false` on the layer to freeze its variables");
    else if (const auto scale =
                 read_number(reader, entry.value, what, kLearningRateScales.each->bounds))
      scales.push_back({{entry.key, entry.key_span}, *scale});
  }
  return scales;
}

/// Reads `loss_scale`, which is an error unless the job uses 16-bit floats: other floats need no
/// scale.
std::optional<LossScale> read_loss_scale(Reader& reader, const yaml::Node& node, Span key,
                                         std::string_view precision) {
  if (!expect_variant(reader, node, "`loss_scale`", kLossScales)) return {};
  const Variant* variant = pick_variant(reader, node, key, "`loss_scale`", kLossScales);
  const Fields fields(reader, node, key, "`loss_scale`", keys_of(kLossScales, variant));
  if (!plan::low_precision_of(precision))
    reader.error(Diagnosis::kLossScale, key,
                 "`loss_scale` with `precision: {}`; expected `mixed_float16` or `mixed_bfloat16`",
                 precision);
  if (!variant) return {};
  LossScale scale;
  read_record(fields, *variant, scale);
  return scale;
}

/// Reads which variables have weight decay.
void read_decayed(const Fields& fields, Optimizer& optimizer) {
  Reader& reader = fields.reader();
  const yaml::Node *includes = fields.find("includes"), *excludes = fields.find("excludes");
  if (includes) optimizer.includes = read_globs(reader, *includes, "`includes`");
  if (excludes) optimizer.excludes = read_globs(reader, *excludes, "`excludes`");
  if (includes && excludes)
    reader
        .error(Diagnosis::kBothGlobs, fields.key_span("excludes"),
               "both `includes` and `excludes`; expected at most one of them")
        .label(fields.key_span("includes"), "also set here");
}

/// Checks epsilon1, a lower bound on the root of a mean square. It must be 0, which selects the
/// epsilon of the dtype, or large enough for float32 to represent it precisely.
void check_epsilon(const Fields& fields, const plan::optimizers::Adafactor& rule) {
  constexpr double kLeast = 1e-37;
  if (rule.epsilon1 > 0 && rule.epsilon1 < kLeast)
    fields.reader().error(Diagnosis::kOutOfRange, *fields.find("epsilon1"),
                          "`epsilon1` is {}; expected 0, or at least {}", rule.epsilon1, kLeast);
}

void read_own_keys(const Fields& fields, const Variant& variant, Optimizer& optimizer) {
  const bool complete = read_record(fields, variant, optimizer.rule).empty();
  if (const auto* sgd = std::get_if<plan::optimizers::Sgd>(&optimizer.rule);
      sgd && complete && sgd->nesterov && sgd->momentum == 0)
    fields.reader().error(Diagnosis::kOutOfRange, *fields.find("nesterov"),
                          "`nesterov` requires a `momentum` above 0");
  if (const auto* adafactor = std::get_if<plan::optimizers::Adafactor>(&optimizer.rule);
      adafactor && complete)
    check_epsilon(fields, *adafactor);
  if (std::holds_alternative<plan::optimizers::Muon>(optimizer.rule))
    if (const yaml::Node* adamw = fields.find("adamw"))
      optimizer.adamw = read_globs(fields.reader(), *adamw, "`adamw`");
  read_decayed(fields, optimizer);
}

plan::Lookahead read_lookahead(const Fields& fields) {
  plan::Lookahead lookahead;
  if (const auto steps = fields.integer("steps")) lookahead.steps = *steps;
  if (const auto alpha = fields.number("alpha")) lookahead.alpha = *alpha;
  return lookahead;
}

void read_common_keys(const Fields& fields, std::string_view precision, Optimizer& optimizer) {
  Reader& reader = fields.reader();
  if (const yaml::Node* rate = fields.require("learning_rate"))
    optimizer.learning_rate = read_learning_rate(reader, *rate, fields.key_span("learning_rate"),
                                                 optimizer.follows_place);
  if (const yaml::Node* scales = fields.find("learning_rate_scales"))
    optimizer.learning_rate_scales = read_rate_scales(reader, *scales);
  if (const yaml::Node* minimize = fields.require("minimize"))
    optimizer.minimize = read_losses(reader, *minimize);
  if (const yaml::Node* variables = fields.find("variables"))
    optimizer.variables = read_globs(reader, *variables, "`variables`");
  if (const yaml::Node* clipping = fields.find("grad_clipping"))
    read_clipping(reader, *clipping, fields.key_span("grad_clipping"), optimizer);
  optimizer.norm = fields.flag("norm").value_or(false);
  if (const yaml::Node* ema = fields.find("ema"))
    optimizer.ema_decay = Fields(reader, *ema, fields.key_span("ema"), kEmaSection).number("decay");
  if (const yaml::Node* lookahead = fields.find("lookahead"))
    optimizer.lookahead =
        read_lookahead(Fields(reader, *lookahead, fields.key_span("lookahead"), kLookaheadSection));
  if (const yaml::Node* scale = fields.find("loss_scale"))
    optimizer.loss_scale =
        read_loss_scale(reader, *scale, fields.key_span("loss_scale"), precision);
}

}  // namespace

std::optional<Optimizer> read_optimizer(Reader& reader, const yaml::Node& node, Span key,
                                        std::string_view precision) {
  if (!expect_variant(reader, node, "`optimizer`", kOptimizers)) return {};
  const size_t errors = reader.diags.error_count();
  Optimizer optimizer;
  optimizer.span = key;
  const Variant* variant = pick_variant(reader, node, key, "`optimizer`", kOptimizers);
  const Fields fields(reader, node, key,
                      variant ? fmt::format("the optimizer `{}`", variant->type) : "`optimizer`",
                      keys_of(kOptimizers, variant));
  if (variant) read_own_keys(fields, *variant, optimizer);
  read_common_keys(fields, precision, optimizer);
  optimizer.complete = reader.diags.error_count() == errors;
  return optimizer;
}

}  // namespace flow::job
