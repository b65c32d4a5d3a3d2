// Reads `run:`, which determines the length of the run and the state that it keeps, including the
// rules that map arrays to variables. Also reads `loop:`, which feeds results to the next pass.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/reader.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/name_rules.h"

namespace flow::job {
namespace {

/// Reads one rule of `names`, which maps arrays to variables.
class NameRuleReader {
 public:
  NameRuleReader(Reader& reader, const yaml::Node& node)
      : reader_(reader),
        fields_(reader, node, {node.span.source, node.span.begin, node.span.begin + 1},
                kNameRuleSection) {
    rule_.where = reader.sources.where(node.span);
  }

  std::optional<plan::NameRule> read() {
    if (!fields_.is_mapping()) return {};
    const size_t before = reader_.diags.error_count();
    fields_.require("from");
    read_names("from", rule_.from);
    read_names("to", rule_.to);
    read_numbers("perm", rule_.perm);
    read_numbers("sizes", rule_.sizes);
    rule_.concat = fields_.integer("concat");
    rule_.split = fields_.integer("split");
    rule_.copy = fields_.flag("copy").value_or(false);
    rule_.reshape = fields_.flag("reshape").value_or(false);
    rule_.ignore = fields_.flag("ignore").value_or(false);
    if (reader_.diags.error_count() > before) return {};
    for (const plan::NameRuleFault& fault : faults_of(rule_))
      reader_.error(Diagnosis::kNameRule, span_of(fault), fault.message).with_hint(fault.hint);
    if (reader_.diags.error_count() > before) return {};
    return std::move(rule_);
  }

 private:
  void read_names(std::string_view key, std::vector<std::string>& names) {
    const yaml::Node* node = fields_.find(key);
    const auto read = node ? read_globs(reader_, *node, fmt::format("`{}`", key)) : std::nullopt;
    for (const Name& name : read.value_or(std::vector<Name>())) names.push_back(name.text);
  }

  void read_numbers(std::string_view key, std::vector<int64_t>& numbers) {
    const yaml::Node* node = fields_.find(key);
    const std::string what = fmt::format("`{}`", key);
    if (!node || !reader_.expect(*node, yaml::Kind::kList, what)) return;
    if (auto read = read_integers(reader_, *node, what)) numbers = *std::move(read);
    if (node->items.empty())
      reader_.error(Diagnosis::kNameRule, *node, what + " is empty; expected integers");
  }

  /// Returns the span of the key's value, or of its item. If the rule does not have the key,
  /// returns the span of the rule.
  Span span_of(const plan::NameRuleFault& fault) const {
    const yaml::Node* node = fields_.find(fault.key);
    if (!node) return fields_.owner();
    const auto items = yaml::each_of(*node);
    return fault.position < items.size() ? items[fault.position].span : node->span;
  }

  Reader& reader_;
  Fields fields_;
  plan::NameRule rule_;
};

/// Returns the rules that have no errors.
std::vector<plan::NameRule> read_name_rules(Reader& reader, const yaml::Node& node) {
  std::vector<plan::NameRule> rules;
  if (!reader.expect(node, yaml::Kind::kList, "`names`", hint_for_item(node))) return rules;
  for (const yaml::Node& item : node.items)
    if (auto rule = NameRuleReader(reader, item).read()) rules.push_back(*std::move(rule));
  if (node.items.size() > plan::kMostNameRules)
    reader.error(Diagnosis::kNameRule, node, "`names` has {} rules; expected at most {}",
                 node.items.size(), plan::kMostNameRules);
  return rules;
}

bool reads_dataset(const Job& job) {
  return std::ranges::any_of(job.inputs, [](const Input& input) {
    // An input with an invalid `from:` may have been meant to read a dataset.
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

/// Reads which state to keep. Sets `place` to the position of the value that determines the best
/// state.
std::optional<plan::FollowedValue> read_keep_best(const Fields& fields, FollowedPlace& place) {
  const yaml::Node* node = fields.find("keep_best");
  if (!node) return {};
  const Fields own(fields.reader(), *node, fields.key_span("keep_best"), kKeepBestSection);
  return read_followed(own, "by", place);
}

void read_early_stopping(Reader& reader, const yaml::Node& node, Span key, Job& job) {
  if (!job.train) {
    reader.error(Diagnosis::kFollowed, key,
                 "unexpected `early_stopping` in a predict job; only train jobs stop early");
    return;
  }
  const Fields fields(reader, node, key, kEarlyStoppingSection);
  job.run.early_stopping = read_early_stopping(fields, job.early_stopping_place);
}

/// Reads the paths of `load`: one path, or a list.
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
  const Fields fields(reader, node, key, kCheckpointSection);
  const yaml::Node* load = fields.find("load");
  if (load) read_loaded(reader, *load, made);
  if (const yaml::Node* names = fields.find("names")) made.names = read_name_rules(reader, *names);
  for (const KeyDef& def : kCheckpointSection.keys) {
    if (train || !def.train_only || !fields.find(def.name)) continue;
    reader.error(Diagnosis::kCheckpoint, fields.key_span(def.name),
                 "unexpected `{}`; a predict job saves no checkpoints", def.name);
  }
  if (const yaml::Node* save = fields.find("save")) {
    made.save = fields.text("save");
    made.save_where = reader.sources.where(save->span);
  }
  if (const yaml::Node* every = fields.find("every"); every && train) {
    const bool none = every->is_scalar() && every->scalar == "none";
    const Period period =
        none ? Period() : read_period(fields, *every, has_dataset, kCheckpointEverySection);
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

/// Adapts the message of a name rule, whose `from` is a key in a loop.
std::string of_key(std::string text) {
  constexpr std::string_view kFrom = "`from`";
  if (const size_t at = text.find(kFrom); at != std::string::npos)
    text.replace(at, kFrom.size(), "the key");
  return text;
}

/// Reads the patterns of an item. Returns nothing after an error.
std::optional<Fed> read_item(Reader& reader, const yaml::Entry& entry, std::string_view key) {
  const auto text = read_text(reader, entry.value, fmt::format("`{}`", entry.key));
  if (!text) return {};
  Fed made{{entry.key, entry.key_span}, {*text, entry.value.span}, {}, {}};
  plan::Wildcards wildcards;
  plan::NamePatternError error;
  const auto targets = plan::parse_pattern(entry.key, wildcards, error);
  const auto results = targets ? plan::parse_template(*text, wildcards, error) : std::nullopt;
  if (!results) {
    reader
        .error(Diagnosis::kLoop, targets ? entry.value.span : entry.key_span, "`{}`: {}", key,
               of_key(error.message))
        .with_hint(of_key(error.hint));
    return {};
  }
  made.targets = *targets;
  made.results = *results;
  return made;
}

std::vector<Fed> read_items(Reader& reader, const yaml::Node& node, std::string_view key) {
  std::vector<Fed> items;
  for (const yaml::Entry& entry :
       reader.entries(node, fmt::format("`{}`", key), "write `{INPUT: RESULT}`"))
    if (auto item = read_item(reader, entry, key)) items.push_back(*std::move(item));
  return items;
}

void check_job(Reader& reader, Span key, const Job& job) {
  if (job.train)
    reader.error(Diagnosis::kLoop, key, "unexpected `loop` in a train job; only predict jobs loop")
        .with_hint("for a recurrence that is trained, use `lstm`, `gru` or `rnn`");
  if (job.shards > 1)
    reader.error(Diagnosis::kLoop, key, "a loop does not support shards; found {}", job.shards)
        .with_hint("remove `shards`, and use one device");
}

/// Reads the loop. Returns nothing after an error. REQUIRES: the type and the shards of `job` are
/// complete.
std::optional<Loop> read_loop(Reader& reader, const yaml::Node& node, Span key, const Job& job) {
  const size_t before = reader.diags.error_count();
  const Fields fields(reader, node, key, kLoopSection);
  check_job(reader, key, job);
  Loop loop;
  loop.span = key;
  if (const yaml::Node* feed = fields.require("feed")) {
    loop.feed = read_items(reader, *feed, "feed");
    if (feed->is_mapping() && feed->entries.empty())
      reader.error(Diagnosis::kLoop, *feed, "`feed` is empty; expected results by input or entry");
  }
  if (const yaml::Node* first = fields.find("first"))
    loop.first = read_items(reader, *first, "first");
  loop.steps = fields.integer("steps").value_or(1);
  if (const yaml::Node* until = fields.find("until"))
    if (const auto text = fields.text("until")) loop.until = {*text, until->span};
  if (const yaml::Node* last = fields.find("last"))
    loop.last = read_globs(reader, *last, "`last`").value_or(std::vector<Name>());
  if (reader.diags.error_count() > before) return {};
  return loop;
}

}  // namespace

plan::Checkpointing default_checkpoints() {
  plan::Checkpointing made;
  const KeyDef* minutes = find_key(kCheckpointEverySection.keys, "minutes");
  made.every_minutes = parse_number(minutes->fallback);
  made.rolls = true;
  return made;
}

Period read_period(const Fields& owner, const yaml::Node& node, bool has_dataset,
                   const Section& section) {
  Period period;
  const Span key = owner.key_span("every");
  std::vector<std::string> names;
  for (const KeyDef& def : section.keys) names.emplace_back(def.name);
  if (node.is_scalar() && parse_number(node.scalar)) {
    owner.reader()
        .error(Diagnosis::kWrongKind, node, "`every` is a number; expected {}",
               quoted_alternatives(names))
        .with_hint("write `{{steps: {}}}`", node.scalar);
    return period;
  }
  const Fields every(owner.reader(), node, key, section);
  if (!every.is_mapping()) return period;
  std::vector<std::string> given;
  for (const std::string& name : names)
    if (every.find(name)) given.push_back(fmt::format("`{}`", name));
  if (given.size() > 1)
    owner.reader().error(Diagnosis::kEvery, key, "`every` has both {}; expected one of them",
                         join(given, " and "));
  if (given.empty() && !section.one_of.empty())
    owner.reader().error(Diagnosis::kEvery, key, "`every` requires {}", quoted_alternatives(names));
  const bool epochs = every.find("epochs");
  period.steps = every.integer("steps").value_or(0);
  period.epochs = every.integer("epochs").value_or(0);
  if (find_key(section.keys, "minutes") && !epochs && !every.find("steps"))
    period.minutes = every.number("minutes");
  if (epochs) epochs_need_data(owner.reader(), every.key_span("epochs"), has_dataset);
  return period;
}

void read_run(Reader& reader, const yaml::Node& node, Span key,
              const std::vector<Dataset>& datasets, Job& job) {
  const bool has_dataset = reads_dataset(job);
  plan::Run& run = job.run;
  const Fields fields(reader, node, key, kRunSection);
  run.epochs = fields.integer("epochs");
  run.steps = fields.integer("steps");
  if (fields.find("epochs")) epochs_need_data(reader, fields.key_span("epochs"), has_dataset);
  read_epoch_order(fields, datasets, job);
  if (!has_dataset && (run.shuffle || run.shuffle_buffer || run.sampling)) {
    const char* word = run.sampling ? "sample" : "shuffle";
    reader.error(Diagnosis::kEpochsWithoutData, fields.key_span(word),
                 "no input reads a dataset, so the job has no rows to {}", word);
  }
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
