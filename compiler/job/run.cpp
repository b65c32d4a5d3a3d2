// `run:` and `placement:`: how long a job runs, what it keeps, and where.
#include <fmt/format.h>

#include "compiler/job/sections.h"
#include "compiler/job/tables.h"
#include "compiler/job/values.h"

namespace flow::job {
namespace {

void epochs_need_data(Reader& reader, Span span, bool has_dataset) {
  if (has_dataset) return;
  reader
      .error(Diagnosis::kEpochsWithoutData, span,
             "no input comes from a dataset, so there are no epochs")
      .with_hint("count `steps` instead");
}

plan::Checkpointing read_checkpoint(Reader& reader, const yaml::Node& node, Span key, bool train,
                                    bool has_dataset) {
  plan::Checkpointing made;
  const Fields fields(reader, node, key, checkpoint_section());
  if (const yaml::Node* load = fields.find("load")) {
    made.load = fields.text("load");
    made.load_where = reader.sources.where(load->span);
  }
  for (const KeyDef& def : checkpoint_section().keys) {
    if (train || !def.train_only || !fields.find(def.name)) continue;
    reader.error(Diagnosis::kCheckpoint, fields.key_span(def.name),
                 fmt::format("a predict job saves no checkpoints, so it has no `{}`", def.name));
  }
  if (const yaml::Node* save = fields.find("save")) {
    made.save = fields.text("save");
    made.save_where = reader.sources.where(save->span);
  }
  if (const yaml::Node* every = fields.find("every")) {
    const Period period = read_period(fields, *every, has_dataset);
    made.every_steps = period.steps;
    made.every_epochs = period.epochs;
  }
  made.keep = *fields.integer("keep");
  return made;
}

/// The first device that `ids` names and the last, or nothing where it cannot be read: "0:0-3".
std::optional<std::pair<int64_t, int64_t>> parse_ids(const std::string& text) {
  constexpr int64_t kLargest = 1'000'000;
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return {};
  const size_t dash = text.find('-', colon);
  const auto machine = parse_integer(text.substr(0, colon));
  const auto first = parse_integer(text.substr(colon + 1, dash - colon - 1));
  const auto last = dash == std::string::npos ? first : parse_integer(text.substr(dash + 1));
  if (machine != 0 || !first || !last || *first < 0 || *last < *first || *last > kLargest)
    return {};
  return std::pair{*first, *last};
}

}  // namespace

Period read_period(const Fields& owner, const yaml::Node& node, bool has_dataset) {
  Period period;
  const Span key = owner.key_span("every");
  const Fields every(owner.reader(), node, key, every_section());
  if (!every.is_mapping()) return period;
  const bool steps = every.find("steps"), epochs = every.find("epochs");
  if (steps == epochs)
    owner.reader().error(
        Diagnosis::kEvery, key,
        steps ? "`every` has `steps` or `epochs`, not both" : "`every` needs `steps` or `epochs`");
  period.steps = every.integer("steps").value_or(0);
  period.epochs = every.integer("epochs").value_or(0);
  if (epochs) epochs_need_data(owner.reader(), every.key_span("epochs"), has_dataset);
  return period;
}

Placement read_placement(Reader& reader, const yaml::Node& node, Span key) {
  Placement placement;
  placement.ids_span = key;
  if (node.is_scalar()) {
    reader.error(Diagnosis::kWrongKind, node, "`placement` is a text, not a mapping")
        .with_hint("write `{device: cpu}` or `{device: gpu, ids: \"0:0\"}`");
    return placement;
  }
  const Fields fields(reader, node, key, placement_section());
  placement.type = *fields.word("device");
  if (const yaml::Node* ids = fields.find("ids")) {
    placement.ids_span = ids->span;
    const std::string text = *fields.text("ids");
    const auto devices = parse_ids(text);
    if (!devices)
      reader
          .error(Diagnosis::kPlacement, *ids,
                 fmt::format("`ids` is `{}`, which names no devices", text))
          .with_hint("write `machine:first-last`, as in `\"0:0\"`; there is one machine, 0");
    placement.first = devices ? devices->first : 0;
    placement.devices = devices ? devices->second - devices->first + 1 : 1;
  }
  return placement;
}

plan::Run read_run(Reader& reader, const yaml::Node& node, Span key, bool train, bool has_dataset) {
  plan::Run run;
  const Fields fields(reader, node, key, run_section());
  run.epochs = fields.integer("epochs");
  run.steps = fields.integer("steps");
  if (fields.find("epochs")) epochs_need_data(reader, fields.key_span("epochs"), has_dataset);
  run.shuffle = *fields.flag("shuffle");
  if (run.shuffle && !has_dataset)
    reader.error(Diagnosis::kEpochsWithoutData, fields.key_span("shuffle"),
                 "no input comes from a dataset, so there are no rows to shuffle");
  run.pipeline = *fields.integer("pipeline");
  run.log_every = *fields.integer("log_every");
  run.fail_on_nonfinite = fields.word("on_nonfinite") == "fail";
  if (const yaml::Node* checkpoint = fields.find("checkpoint"))
    run.checkpoint =
        read_checkpoint(reader, *checkpoint, fields.key_span("checkpoint"), train, has_dataset);
  return run;
}

}  // namespace flow::job
