// Reads the top level of a job file and of a job. Also repairs mappings that are written as lists,
// with a dash before each entry or before the first one.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {
namespace {

std::vector<Name> names_of(const std::vector<Input>& inputs) {
  std::vector<Name> names;
  for (const Input& input : inputs) names.push_back(input.name);
  return names;
}

void read_version(const Fields& fields) {
  Reader& reader = fields.reader();
  const yaml::Node* version = fields.find("flow");
  if (!version) {
    reader
        .error(Diagnosis::kFlowVersion, fields.owner(),
               "missing language version; expected `flow: 1`")
        .with_hint("begin the file with `flow: 1`");
  } else if (!version->is_scalar() || version->scalar != "1") {
    reader.error(Diagnosis::kFlowVersion, *version, "`flow` is {}; expected version 1",
                 version->is_scalar() ? "`" + version->scalar + "`"
                                      : std::string(yaml::name_of(version->kind)));
  }
}

/// Reports the conditions that the variables do not satisfy.
void read_checks(Reader& reader, const yaml::Node& node) {
  for (const yaml::Entry& entry : reader.entries(node, "`checks`")) {
    reader.check_name({entry.key, entry.key_span});
    const Fields fields(reader, entry.value, entry.key_span, kCheckSection);
    const auto holds = fields.flag("that");
    const auto message = fields.text("message");
    if (holds && !*holds && message)
      reader.error(Diagnosis::kCheck, *fields.find("that"), *message);
  }
}

void read_training(const Fields& fields, Job& job) {
  Reader& reader = fields.reader();
  const yaml::Node* optimizer = fields.find("optimizer");
  const Span key = fields.key_span("optimizer");
  if (optimizer) {
    job.optimizer = read_optimizer(reader, *optimizer, key, job.precision);
    if (job.train) return;
    reader.error(Diagnosis::kOptimizerUnused, key, "unexpected `optimizer` in a predict job");
  } else if (job.train) {
    reader
        .error(Diagnosis::kNoOptimizer, fields.owner(), "train job `{}` requires an `optimizer`",
               job.name.text)
        .with_hint("add `optimizer: {type: sgd, learning_rate: 0.1, minimize: loss}`");
  }
}

/// Returns the entries of all items, or nothing if an item is not a mapping or if items have a key
/// in common.
std::vector<yaml::Entry> joined(const yaml::Node& list) {
  std::vector<yaml::Entry> entries;
  std::set<std::string_view> keys;
  for (const yaml::Node& item : list.items) {
    if (!item.is_mapping()) return {};
    for (const yaml::Entry& entry : item.entries) {
      if (!keys.insert(entry.key).second) return {};
      entries.push_back(entry);
    }
  }
  return entries;
}

/// Returns true if an item calls an op without a name for the result.
bool has_calls(const yaml::Node& list) {
  return std::ranges::any_of(list.items, [](const yaml::Node& item) {
    return item.is_mapping() && item.find("op") != nullptr;
  });
}

void join_items(Reader& reader, yaml::Node& list, const Section& section) {
  const bool nameless = section.each && section.each->type == KeyType::kEntry && has_calls(list);
  std::vector<yaml::Entry> entries = nameless ? std::vector<yaml::Entry>() : joined(list);
  if (entries.empty() && !nameless) return;  // the reader of the section reports the error
  reader.error(Diagnosis::kWrongKind, list, "{} is a list; expected a mapping", section.what)
      .with_hint(nameless ? "write each entry as `NAME: {op: ...}`, without a dash"
                          : kWithoutDashes);
  list = yaml::mapping_node(std::move(entries), list.span);
}

void remove_dashes_in(Reader& reader, yaml::Node& node, const Section& section) {
  if (node.is_list()) join_items(reader, node, section);
  if (!node.is_mapping()) return;
  for (yaml::Entry& entry : node.entries) {
    const KeyDef* key = find_key(section, entry.key);
    if (key && key->type == KeyType::kSection) remove_dashes_in(reader, entry.value, *key->section);
  }
}

}  // namespace

Job read_job(Reader& reader, const yaml::Entry& entry, const std::vector<Dataset>& datasets,
             Networks& networks) {
  Job job;
  job.name = {entry.key, entry.key_span};
  job.placement.ids_span = entry.key_span;
  reader.check_name(job.name);
  const Fields fields(reader, entry.value, entry.key_span, kJobSection);
  if (const yaml::Node* extends = fields.find("extends")) {
    reader.error(Diagnosis::kBadExtends, *extends, "`extends` is not supported in a variable")
        .with_hint(
            "write the job itself under `jobs`: jobs are extended before variables are known");
    reader.diags.silence(entry.key_span);
  }
  // After an error in the type, the presence of an optimizer determines whether the job trains.
  const auto type = fields.word("type");
  job.train = type ? *type == "train" : fields.find("optimizer") != nullptr;
  if (const yaml::Node* placement = fields.find("placement"))
    job.placement =
        read_placement(reader, *placement, fields.key_span("placement"), kPlacementSection);
  job.precision = *fields.word("precision");
  job.deterministic = fields.word("determinism") == "on";
  if (const yaml::Node* inputs = fields.find("inputs"))
    job.inputs = read_inputs(reader, *inputs, datasets);
  job.shards = read_shards(fields, job);
  job.graph = read_graph(reader, fields.require("graph"), names_of(job.inputs), networks, {}, true);
  read_training(fields, job);
  if (const yaml::Node* returns = fields.find("returns"))
    job.returns = read_returns(reader, *returns, fields.key_span("returns"));
  if (const yaml::Node* hooks = fields.find("hooks"))
    job.hooks = read_hooks(reader, *hooks, job.train);
  if (const yaml::Node* metrics = fields.find("metrics")) read_metrics(reader, *metrics, job);
  if (job.train) job.run.checkpoint = default_checkpoints();
  if (const yaml::Node* run = fields.find("run"))
    read_run(reader, *run, fields.key_span("run"), datasets, job);
  return job;
}

File read_file(Reader& reader, yaml::Node& node) {
  File file;
  remove_dashes(reader, node);
  Variables variables(reader, node);
  put_in(variables, node);
  const Span start{reader.file, node.span.begin, node.span.begin};
  const Fields fields(reader, node, start, kFileSection);
  read_version(fields);
  file.seed = static_cast<uint64_t>(*fields.integer("seed"));
  if (const yaml::Node* checks = fields.find("checks")) read_checks(reader, *checks);
  if (const yaml::Node* data = fields.find("data")) file.datasets = read_data(reader, *data);
  Networks networks(reader, variables);
  if (const yaml::Node* section = fields.find("networks")) networks.declare(*section);
  const yaml::Node* jobs = fields.require("jobs");
  if (!jobs || !reader.expect(*jobs, yaml::Kind::kMapping, "`jobs`")) return file;
  for (const yaml::Entry& entry : jobs->entries)
    if (!reader.take_note(entry))
      file.jobs.push_back(read_job(reader, entry, file.datasets, networks));
  networks.read_uncalled();
  file.networks = std::move(networks.made());
  file.uncalled = networks.uncalled();
  if (file.jobs.empty())
    reader.error(Diagnosis::kMissingKey, fields.key_span("jobs"),
                 "`jobs` is empty; expected a job");
  check_sub_job_names(reader, file);
  for (Job& job : file.jobs) resolve_followed(reader, file, job);
  if (!reader.diags.has_errors()) variables.warn_of_unused();
  return file;
}

void warn_of_unused(Reader& reader, const File& file) {
  std::set<std::string> datasets, rows;
  for (const Job& job : file.jobs)
    for (const Input& input : job.inputs)
      if (const auto* from = std::get_if<plan::FromDataset>(&input.source)) {
        datasets.insert(from->dataset);
        rows.insert(from->rows_name());
      }
  for (const Dataset& dataset : file.datasets) {
    const bool used = datasets.contains(dataset.name.text);
    if (!used && !dataset.is_liked)
      reader.diags.warning(Diagnosis::kUnusedDeclaration, dataset.name.span,
                           fmt::format("unused dataset `{}`", dataset.name.text));
    for (const Name& part : dataset.parts)
      if (used && !rows.contains(dataset.name.text + "/" + part.text))
        reader.diags.warning(Diagnosis::kUnusedDeclaration, part.span,
                             fmt::format("unused part `{}/{}`", dataset.name.text, part.text));
  }
  for (const Name& network : file.uncalled)
    reader.diags.warning(Diagnosis::kUnusedDeclaration, network.span,
                         fmt::format("unused network `{}`", network.text));
}

void remove_dashes(Reader& reader, yaml::Node& file) {
  remove_dashes_in(reader, file, kFileSection);
}

}  // namespace flow::job
