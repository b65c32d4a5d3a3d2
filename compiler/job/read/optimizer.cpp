// `optimizer:`: what is minimised, how, and which variables move.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/optimizer_table.h"
#include "compiler/job/text/values.h"
#include "runtime/plan/model/precision.h"

namespace flow::job {
namespace {

/// One name, or a list of them.
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
      reader.error(Diagnosis::kNotALoss, item, fmt::format("duplicate loss `{}`", *name));
  }
  return losses;
}

void read_clipping(Reader& reader, const yaml::Node& node, Span key, Optimizer& optimizer) {
  if (!expect_variant(reader, node, "`grad_clipping`", grad_clippings())) return;
  const Variant* variant = pick_variant(reader, node, key, "`grad_clipping`", grad_clippings());
  const Fields fields(reader, node, key, "`grad_clipping`", keys_of(grad_clippings(), variant));
  if (!variant) return;
  const VariantValues values = read_values(fields, *variant);
  optimizer.clip_norm = values.number("clip_norm");
  optimizer.clip_value = values.number("clip_value");
}

/// Globs and what they multiply the learning rate by, in the order of the file.
std::vector<std::pair<Name, double>> read_rate_scales(Reader& reader, const yaml::Node& node) {
  std::vector<std::pair<Name, double>> scales;
  if (!reader.expect(node, yaml::Kind::kMapping, "`learning_rate_scales`",
                     R"(write `{"head/**": 10}`)"))
    return scales;
  for (const yaml::Entry& entry : node.entries) {
    if (reader.take_note(entry)) continue;
    const std::string what = fmt::format("`{}`", entry.key);
    if (entry.value.is_scalar() && parse_number(entry.value.scalar) == 0.0)
      reader
          .error(Diagnosis::kOutOfRange, entry.value,
                 fmt::format("{} is 0; expected more than 0", what))
          .with_hint("set `trainable: false` on the layer to freeze its variables");
    else if (const auto scale =
                 read_number(reader, entry.value, what, learning_rate_scales().each->bounds))
      scales.push_back({{entry.key, entry.key_span}, *scale});
  }
  return scales;
}

/// The numbers of its variant. Only 16-bit floats lose what a scale would keep.
std::map<std::string, double> read_loss_scale(Reader& reader, const yaml::Node& node, Span key,
                                              std::string_view precision) {
  if (!expect_variant(reader, node, "`loss_scale`", loss_scales())) return {};
  const Variant* variant = pick_variant(reader, node, key, "`loss_scale`", loss_scales());
  const Fields fields(reader, node, key, "`loss_scale`", keys_of(loss_scales(), variant));
  if (!plan::low_precision_of(precision))
    reader.error(
        Diagnosis::kLossScale, key,
        fmt::format(
            "`loss_scale` with `precision: {}`; expected `mixed_float16` or `mixed_bfloat16`",
            precision));
  return variant ? read_values(fields, *variant).numbers : std::map<std::string, double>();
}

/// Keys that do not go together.
void check_together(const Fields& fields, const VariantValues& values) {
  Reader& reader = fields.reader();
  const yaml::Node* nesterov = fields.find("nesterov");
  if (nesterov && values.number("nesterov") == 1 && values.number("momentum") == 0)
    reader.error(Diagnosis::kOutOfRange, *nesterov, "`nesterov` requires a `momentum` above 0");
  if (fields.find("includes") && fields.find("excludes"))
    reader
        .error(Diagnosis::kBothGlobs, fields.key_span("excludes"),
               "both `includes` and `excludes`; expected at most one of them")
        .label(fields.key_span("includes"), "also set here");
}

void read_own_keys(const Fields& fields, const Variant& variant, Optimizer& optimizer) {
  const VariantValues values = read_values(fields, variant);
  check_together(fields, values);
  optimizer.type = variant.type;
  optimizer.numbers = values.numbers;
  optimizer.includes = values.list_of_globs("includes");
  optimizer.excludes = values.list_of_globs("excludes");
}

void read_common_keys(const Fields& fields, std::string_view precision, Optimizer& optimizer) {
  Reader& reader = fields.reader();
  if (const yaml::Node* rate = fields.require("learning_rate"))
    optimizer.learning_rate = read_learning_rate(reader, *rate, fields.key_span("learning_rate"));
  if (const yaml::Node* scales = fields.find("learning_rate_scales"))
    optimizer.learning_rate_scales = read_rate_scales(reader, *scales);
  if (const yaml::Node* minimize = fields.require("minimize"))
    optimizer.minimize = read_losses(reader, *minimize);
  if (const yaml::Node* variables = fields.find("variables"))
    optimizer.variables = read_globs(reader, *variables, "`variables`");
  if (const yaml::Node* clipping = fields.find("grad_clipping"))
    read_clipping(reader, *clipping, fields.key_span("grad_clipping"), optimizer);
  if (const yaml::Node* scale = fields.find("loss_scale"))
    optimizer.loss_scale =
        read_loss_scale(reader, *scale, fields.key_span("loss_scale"), precision);
}

}  // namespace

std::optional<Optimizer> read_optimizer(Reader& reader, const yaml::Node& node, Span key,
                                        std::string_view precision) {
  if (!expect_variant(reader, node, "`optimizer`", optimizers())) return {};
  const size_t errors = reader.diags.error_count();
  Optimizer optimizer;
  optimizer.span = key;
  const Variant* variant = pick_variant(reader, node, key, "`optimizer`", optimizers());
  const Fields fields(reader, node, key,
                      variant ? fmt::format("the optimizer `{}`", variant->type) : "`optimizer`",
                      keys_of(optimizers(), variant));
  if (variant) read_own_keys(fields, *variant, optimizer);
  read_common_keys(fields, precision, optimizer);
  optimizer.complete = reader.diags.error_count() == errors;
  return optimizer;
}

}  // namespace flow::job
