// `run:` - how long a job runs and what it keeps.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/followed.h"
#include "compiler/job/read/name_rules.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/sub_jobs.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

bool reads_dataset(const Job& job) {
  return std::ranges::any_of(job.inputs, [](const Input& input) {
    // An input whose `from:` is wrong may have meant one.
    return std::holds_alternative<plan::FromDataset>(input.source) ||
           (input.from_span.valid() && std::holds_alternative<plan::FromCommandLine>(input.source));
  });
}

void epochs_need_data(Reader& reader, Span span, bool has_dataset) {
  if (has_dataset) return;
  reader
      .error(Diagnosis::kEpochsWithoutData, span,
             "no input reads a dataset, so the job has no epochs")
      .with_hint("use `steps` instead");
}

/// The state to keep; `place`: of the value that decides.
std::optional<plan::FollowedValue> read_keep_best(const Fields& fields, FollowedPlace& place) {
  const yaml::Node* node = fields.find("keep_best");
  if (!node) return {};
  const Fields own(fields.reader(), *node, fields.key_span("keep_best"), keep_best_section());
  return read_followed(own, "by", place);
}

void read_early_stopping(Reader& reader, const yaml::Node& node, Span key, Job& job) {
  if (!job.train) {
    reader.error(Diagnosis::kFollowed, key,
                 "unexpected `early_stopping` in a predict job; only train jobs stop early");
    return;
  }
  const Fields fields(reader, node, key, early_stopping_section());
  job.run.early_stopping = read_early_stopping(fields, job.early_stopping_place);
}

/// The paths of `load`: one, or a list.
void read_loaded(Reader& reader, const yaml::Node& node, plan::Checkpointing& made) {
  const auto paths = read_globs(reader, node, "`load`", "a path");
  if (!paths) return;
  for (const Name& path : *paths) {
    if (path.text == "none" && paths->size() > 1)
      reader.error(Diagnosis::kCheckpoint, path.span, "`load` has `none` and other paths")
          .with_hint("write only `none` to initialize the variables");
    made.load.push_back(path.text);
    made.load_where.push_back(reader.sources.where(path.span));
  }
}

plan::Checkpointing read_checkpoint(Reader& reader, const yaml::Node& node, Span key, bool train,
                                    bool has_dataset, FollowedPlace& keep_best) {
  plan::Checkpointing made = train ? default_checkpoints() : plan::Checkpointing();
  const Fields fields(reader, node, key, checkpoint_section());
  const yaml::Node* load = fields.find("load");
  if (load) read_loaded(reader, *load, made);
  if (const yaml::Node* names = fields.find("names")) made.names = read_name_rules(reader, *names);
  for (const KeyDef& def : checkpoint_section().keys) {
    if (train || !def.train_only || !fields.find(def.name)) continue;
    reader.error(Diagnosis::kCheckpoint, fields.key_span(def.name),
                 fmt::format("unexpected `{}`; a predict job saves no checkpoints", def.name));
  }
  if (const yaml::Node* save = fields.find("save")) {
    made.save = fields.text("save");
    made.save_where = reader.sources.where(save->span);
  }
  if (const yaml::Node* every = fields.find("every"); every && train) {
    const bool none = every->is_scalar() && every->scalar == "none";
    const Period period =
        none ? Period() : read_period(fields, *every, has_dataset, checkpoint_every_section());
    made.every_steps = period.steps;
    made.every_epochs = period.epochs;
    made.every_minutes = period.minutes;
  }
  const std::optional<int64_t> keep = fields.integer("keep");
  made.keep = keep.value_or(made.keep);
  made.rolls = made.every_minutes && !keep;
  if (train) made.keep_best = read_keep_best(fields, keep_best);
  return made;
}

}  // namespace

plan::Checkpointing default_checkpoints() {
  plan::Checkpointing made;
  const KeyDef* minutes = find_key(checkpoint_every_section().keys, "minutes");
  made.every_minutes = parse_number(minutes->fallback);
  made.rolls = true;
  return made;
}

Period read_period(const Fields& owner, const yaml::Node& node, bool has_dataset,
                   const Section& section) {
  Period period;
  const Span key = owner.key_span("every");
  if (node.is_scalar() && parse_number(node.scalar)) {
    owner.reader()
        .error(Diagnosis::kWrongKind, node, "`every` is a number; expected `steps` or `epochs`")
        .with_hint(fmt::format("write `{{steps: {}}}`", node.scalar));
    return period;
  }
  const Fields every(owner.reader(), node, key, section);
  if (!every.is_mapping()) return period;
  std::vector<std::string> given;
  for (const KeyDef& def : section.keys)
    if (every.find(def.name)) given.push_back(fmt::format("`{}`", def.name));
  if (given.size() > 1)
    owner.reader().error(
        Diagnosis::kEvery, key,
        fmt::format("`every` has both {}; expected one of them", join(given, " and ")));
  if (given.empty() && !section.one_of.empty())
    owner.reader().error(Diagnosis::kEvery, key, "`every` requires `steps` or `epochs`");
  const bool epochs = every.find("epochs");
  period.steps = every.integer("steps").value_or(0);
  period.epochs = every.integer("epochs").value_or(0);
  if (find_key(section.keys, "minutes") && !epochs && !every.find("steps"))
    period.minutes = every.number("minutes");
  if (epochs) epochs_need_data(owner.reader(), every.key_span("epochs"), has_dataset);
  return period;
}

void read_run(Reader& reader, const yaml::Node& node, Span key, Job& job) {
  const bool has_dataset = reads_dataset(job);
  plan::Run& run = job.run;
  const Fields fields(reader, node, key, run_section());
  run.epochs = fields.integer("epochs");
  run.steps = fields.integer("steps");
  if (fields.find("epochs")) epochs_need_data(reader, fields.key_span("epochs"), has_dataset);
  run.shuffle = *fields.flag("shuffle");
  if (run.shuffle && !has_dataset)
    reader.error(Diagnosis::kEpochsWithoutData, fields.key_span("shuffle"),
                 "no input reads a dataset, so the job has no rows to shuffle");
  run.pipeline = *fields.integer("pipeline");
  run.log_every = *fields.integer("log_every");
  run.fail_on_nonfinite = fields.word("on_nonfinite") == "fail";
  if (const yaml::Node* checkpoint = fields.find("checkpoint"))
    run.checkpoint = read_checkpoint(reader, *checkpoint, fields.key_span("checkpoint"), job.train,
                                     has_dataset, job.keep_best_place);
  if (const yaml::Node* stopping = fields.find("early_stopping"))
    read_early_stopping(reader, *stopping, fields.key_span("early_stopping"), job);
  if (const yaml::Node* loop = fields.find("loop"))
    job.loop = read_loop(reader, *loop, fields.key_span("loop"), job);
  if (const yaml::Node* also = fields.find("also")) read_sub_jobs(reader, *also, has_dataset, job);
}

}  // namespace flow::job
