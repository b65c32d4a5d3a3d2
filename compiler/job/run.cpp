// `run:` and `placement:`: how long a job runs, what it keeps, and where.
#include <fmt/format.h>

#include "compiler/job/sections.h"
#include "compiler/job/values.h"

namespace flow::job {
namespace {

const Bounds kPositive{.min = 1};

std::optional<int64_t> read_count(const Fields& fields, std::string_view key) {
  const yaml::Node* node = fields.find(key);
  if (!node) return {};
  return read_integer(fields.reader(), *node, fmt::format("`{}`", key), kPositive);
}

void epochs_need_data(Reader& reader, Span span, bool has_dataset) {
  if (has_dataset) return;
  reader
      .error(Diagnosis::kEpochsWithoutData, span,
             "no input comes from a dataset, so there are "
             "no epochs")
      .with_hint("count `steps` instead");
}

void read_every(const Fields& checkpoint, bool has_dataset, plan::Checkpointing& made) {
  const yaml::Node* node = checkpoint.find("every");
  if (!node) return;
  Reader& reader = checkpoint.reader();
  const Fields every(reader, *node, checkpoint.key_span("every"), "`every`", {"steps", "epochs"});
  if (!every.is_mapping()) return;
  made.every_steps = read_count(every, "steps").value_or(0);
  made.every_epochs = read_count(every, "epochs").value_or(0);
  if (every.find("epochs")) epochs_need_data(reader, every.key_span("epochs"), has_dataset);
  if (!every.find("steps") && !every.find("epochs"))
    reader.error(Diagnosis::kMissingKey, checkpoint.key_span("every"),
                 "`every` needs `steps` or `epochs`");
}

plan::Checkpointing read_checkpoint(Reader& reader, const yaml::Node& node, Span key, bool train,
                                    bool has_dataset) {
  plan::Checkpointing made;
  const Fields fields(reader, node, key, "`checkpoint`", {"load", "save", "every", "keep"});
  if (const yaml::Node* load = fields.find("load")) {
    made.load = read_text(reader, *load, "`load`");
    made.load_where = reader.sources.where(load->span);
  }
  for (const char* name : {"save", "every", "keep"}) {
    if (train || !fields.find(name)) continue;
    reader.error(Diagnosis::kCheckpoint, fields.key_span(name),
                 fmt::format("a predict job saves no checkpoints, so it has no `{}`", name));
  }
  if (const yaml::Node* save = fields.find("save")) {
    made.save = read_text(reader, *save, "`save`");
    made.save_where = reader.sources.where(save->span);
  }
  read_every(fields, has_dataset, made);
  if (const auto keep = read_count(fields, "keep")) made.keep = *keep;
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

Placement read_placement(Reader& reader, const yaml::Node& node, Span key) {
  Placement placement;
  placement.ids_span = key;
  const Fields fields(reader, node, key, "`placement`", {"device", "ids"});
  if (const yaml::Node* device = fields.find("device"))
    placement.type =
        read_choice(reader, *device, "`device`", {"auto", "gpu", "cpu"}).value_or("auto");
  if (const yaml::Node* ids = fields.find("ids")) {
    placement.ids_span = ids->span;
    const auto text = read_text(reader, *ids, "`ids`");
    const auto devices = text ? parse_ids(*text) : std::pair<int64_t, int64_t>();
    if (!devices)
      reader
          .error(Diagnosis::kPlacement, *ids,
                 fmt::format("`ids` is `{}`, which names no devices", *text))
          .with_hint("write `machine:first-last`, as in `\"0:0\"`; there is one machine, 0");
    placement.first = devices ? devices->first : 0;
    placement.devices = devices ? devices->second - devices->first + 1 : 1;
  }
  return placement;
}

plan::Run read_run(Reader& reader, const yaml::Node& node, Span key, bool train, bool has_dataset) {
  plan::Run run;
  const Fields fields(reader, node, key, "`run`",
                      {"epochs", "steps", "shuffle", "pipeline", "log_every", "on_nonfinite",
                       "checkpoint", "also"});
  run.epochs = read_count(fields, "epochs");
  run.steps = read_count(fields, "steps");
  if (fields.find("epochs")) epochs_need_data(reader, fields.key_span("epochs"), has_dataset);
  if (const yaml::Node* shuffle = fields.find("shuffle"))
    run.shuffle = read_bool(reader, *shuffle, "`shuffle`").value_or(false);
  if (const yaml::Node* pipeline = fields.find("pipeline"))
    run.pipeline =
        read_integer(reader, *pipeline, "`pipeline`", {.min = 1, .max = plan::kMaxPipeline})
            .value_or(run.pipeline);
  run.log_every = read_count(fields, "log_every").value_or(1);
  if (const yaml::Node* on = fields.find("on_nonfinite"))
    run.fail_on_nonfinite = read_choice(reader, *on, "`on_nonfinite`", {"fail", "warn"}) != "warn";
  if (const yaml::Node* checkpoint = fields.find("checkpoint"))
    run.checkpoint =
        read_checkpoint(reader, *checkpoint, fields.key_span("checkpoint"), train, has_dataset);
  return run;
}

}  // namespace flow::job
