// Reads `data:`, the options of datasets, and the order in which an epoch reads their rows.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (const Column& column : dataset.columns) names.push_back(column.plan.name);
  return names;
}

/// Reports a name in `options` that is not the name of a column.
void require_column(Reader& reader, const yaml::Node& node, const Dataset& dataset) {
  const std::vector<std::string> names = names_of(dataset);
  if (std::ranges::count(names, node.scalar) > 0) return;
  reader
      .error(Diagnosis::kUnknownColumn, node, "unknown column `{}` of dataset `{}`", node.scalar,
             dataset.name.text)
      .with_hint(suggestion(node.scalar, names, "available columns:"));
}

/// Reads the parts of a dataset.
class SplitReader {
 public:
  SplitReader(Reader& reader, const yaml::Entry& entry, Dataset& dataset)
      : reader_(reader), entry_(entry), dataset_(dataset) {}

  void read() {
    const yaml::Node& node = entry_.value;
    if (!reader_.expect(node, yaml::Kind::kMapping, "`split`", "write `{validation: 0.1}`")) return;
    yaml::Node keys = yaml::mapping_node({}, node.span);
    for (const yaml::Entry& entry : node.entries)
      if (find_key(kSplitSection.keys, entry.key) || entry.key == "note")
        keys.entries.push_back(entry);
      else
        read_part(entry);
    const Fields fields(reader_, keys, entry_.key_span, kSplitSection);
    read_record(fields, split_);
    for (const char* key : {"by", "group"})
      if (const yaml::Node* column = fields.find(key)) require_column(reader_, *column, dataset_);
    check(fields);
    dataset_.options.split = std::move(split_);
  }

 private:
  void read_part(const yaml::Entry& entry) {
    const Name name{entry.key, entry.key_span};
    reader_.check_name(name);
    const auto fraction = read_number(reader_, entry.value, fmt::format("`{}`", entry.key),
                                      kSplitSection.each->bounds);
    dataset_.parts.push_back(name);
    split_.parts.push_back({entry.key, fraction.value_or(0)});
    sum_ += fraction.value_or(0);
  }

  void check(const Fields& fields) {
    if (split_.parts.empty())
      reader_.error(Diagnosis::kDatasetOptions, entry_.key_span, "`split` has no parts")
          .with_hint("add a part with its fraction: `validation: 0.1`");
    if (sum_ >= 1)
      reader_
          .error(Diagnosis::kDatasetOptions, entry_.key_span,
                 "the fractions of `split` add up to {}; expected less than 1", shortest(sum_))
          .with_hint("`{}` itself keeps the rows that are in no part", dataset_.name.text);
    if (!split_.by.empty() && !split_.group.empty())
      reader_.error(Diagnosis::kDatasetOptions, fields.key_span("group"),
                    "`split` has both `by` and `group`; expected one of them");
    if (split_.take != plan::Split::Take::kLast) return;
    for (const char* key : {"by", "group", "seed"})
      if (fields.find(key))
        reader_.error(Diagnosis::kDatasetOptions, fields.key_span(key),
                      "`{}` requires a random split, not `take: last`", key);
  }

  Reader& reader_;
  const yaml::Entry& entry_;
  Dataset& dataset_;
  plan::Split split_;
  double sum_ = 0;
};

/// Checks that all windows have one stride, and that the options leave the order of rows as it is.
void check_windows(Reader& reader, const Fields& fields, const Dataset& dataset) {
  const Column* first = nullptr;
  for (const Column& column : dataset.columns) {
    if (!column.plan.window) continue;
    if (!first) first = &column;
    if (column.plan.window->stride == first->plan.window->stride) continue;
    reader
        .error(Diagnosis::kDatasetOptions, column.span,
               "the windows of `{}` have stride {}, but those of `{}` have {}", column.plan.name,
               column.plan.window->stride, first->plan.name, first->plan.window->stride)
        .label(first->span, "the other window")
        .with_hint("the windows of a dataset need one stride");
  }
  if (!first) return;
  if (dataset.options.on_bad_row == plan::Dataset::OnBadRow::kSkip)
    reader
        .error(Diagnosis::kDatasetOptions, fields.key_span("on_bad_row"),
               "`on_bad_row: skip` in a dataset with windows, which need every row")
        .label(first->span, "a window");
  const auto& split = dataset.options.split;
  if (split && split->take == plan::Split::Take::kRandom)
    reader
        .error(Diagnosis::kDatasetOptions, fields.key_span("split"),
               "a random `split` of a dataset with windows, which need neighboring rows")
        .label(first->span, "a window")
        .with_hint("add `take: last`");
}

/// Checks the columns that `mix` names.
void check_mix(Reader& reader, const yaml::Node& node, const Dataset& dataset) {
  const yaml::Node* columns = node.find("columns");
  if (!columns) return;
  for (const yaml::Node& name : yaml::each_of(*columns)) require_column(reader, name, dataset);
}

}  // namespace

void read_options(Reader& reader, const yaml::Entry& entry, Dataset& dataset) {
  static const yaml::Node kNone = yaml::mapping_node();
  const yaml::Entry* options = entry.value.find_entry("options");
  const Fields fields(reader, options ? options->value : kNone,
                      options ? options->key_span : entry.key_span, kOptionsSection);
  read_record(fields, dataset.options);
  if (options)
    if (const yaml::Entry* split = options->value.find_entry("split"))
      SplitReader(reader, *split, dataset).read();
  if (dataset.options.max_bad_rows && dataset.options.on_bad_row != plan::Dataset::OnBadRow::kSkip)
    reader.error(Diagnosis::kDatasetOptions, fields.key_span("max_bad_rows"),
                 "`max_bad_rows` requires `on_bad_row: skip`");
  if (const yaml::Node* mix = fields.find("mix")) check_mix(reader, *mix, dataset);
  check_windows(reader, fields, dataset);
}

std::vector<Dataset> read_data(Reader& reader, const yaml::Node& node) {
  std::vector<Dataset> datasets;
  ColumnMerger merger(reader, node);
  for (const yaml::Entry& entry : reader.entries(node, "`data`")) {
    Dataset& dataset = datasets.emplace_back();
    dataset.name = {entry.key, entry.key_span};
    dataset.options.name = entry.key;
    dataset.options.where = reader.sources.where(entry.key_span);
    reader.check_name(dataset.name);
    for (const yaml::Entry& column : reader.entries(entry.value, "a dataset"))
      if (!find_key(kDatasetSection.keys, column.key))
        reader.check_name({column.key, column.key_span});
    if (!entry.value.is_mapping()) continue;
    for (const MergedColumn& column : merger.columns(entry.key))
      dataset.columns.push_back(read_column(reader, column));
    if (dataset.columns.empty())
      reader.error(Diagnosis::kBadColumn, entry.key_span, "dataset `{}` has no columns", entry.key);
    read_options(reader, entry, dataset);
  }
  for (Dataset& dataset : datasets) dataset.is_liked = merger.is_liked(dataset.name.text);
  return datasets;
}

std::optional<FoundColumn> find_column(Reader& reader, const yaml::Node& node,
                                       const std::vector<Dataset>& datasets) {
  const std::string& text = node.scalar;
  const size_t dot = text.find('.');
  const bool is_file = text.ends_with(".npy");
  if (dot == std::string::npos || is_file) {
    reader
        .error(Diagnosis::kBadSource, node,
               "unknown source `{}`; expected a dataset column, a generator or a file", text)
        .with_hint(is_file ? fmt::format("write the file as `{{npy: {}}}`", text)
                   : find_variant(kGenerators, text)
                       ? fmt::format("write the generator as `{{type: {}}}`", text)
                       : "write `dataset.column`, `{npy: PATH}` or `{type: GENERATOR}`");
    return {};
  }
  const std::string rows = text.substr(0, dot), column_name = text.substr(dot + 1);
  const size_t slash = rows.find('/');
  const std::string dataset_name = rows.substr(0, slash);
  const std::string part = slash == rows.npos ? std::string() : rows.substr(slash + 1);
  const auto dataset =
      std::ranges::find(datasets, dataset_name, [](const Dataset& d) { return d.name.text; });
  if (dataset == datasets.end()) {
    std::vector<std::string> names;
    for (const Dataset& other : datasets) names.push_back(other.name.text);
    reader.error(Diagnosis::kUnknownDataset, node, "unknown dataset `{}`", dataset_name)
        .with_hint(names.empty() ? "add a `data:` section to the file"
                                 : suggestion(dataset_name, names, "available datasets:"));
    return {};
  }
  std::vector<std::string> parts;
  for (const Name& name : dataset->parts) parts.push_back(name.text);
  if (slash != rows.npos && std::ranges::count(parts, part) == 0) {
    reader
        .error(Diagnosis::kUnknownDataset, node, "unknown part `{}` of dataset `{}`", part,
               dataset_name)
        .label(dataset->name.span, "the dataset")
        .with_hint(parts.empty() ? fmt::format("add `options: {{split: {{{}: 0.1}}}}`", part)
                                 : suggestion(part, parts, "available parts:"));
    return {};
  }
  for (const Column& column : dataset->columns)
    if (column.plan.name == column_name) return FoundColumn{&*dataset, &column, part};
  reader
      .error(Diagnosis::kUnknownColumn, node, "unknown column `{}` of dataset `{}`", column_name,
             dataset_name)
      .label(dataset->name.span, "the dataset")
      .with_hint(suggestion(column_name, names_of(*dataset), "available columns:"));
  return {};
}

namespace {

/// Returns `part` if an input of the job reads these rows of the dataset. An empty part also means
/// the first part that is read. Returns nothing if no input reads such rows.
std::optional<std::string> part_read(const Job& job, const std::string& dataset,
                                     const std::string& part) {
  std::optional<std::string> first;
  for (const Input& input : job.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from || from->dataset != dataset) continue;
    if (from->part == part) return part;
    if (part.empty() && !first) first = from->part;
  }
  return first;
}

void read_shuffle(const Fields& fields, plan::Run& run) {
  const yaml::Node* node = fields.find("shuffle");
  if (!node) return;
  if (!node->is_mapping()) {
    run.shuffle = fields.flag("shuffle").value_or(false);
    return;
  }
  const Fields own(fields.reader(), *node, fields.key_span("shuffle"), kShuffleSection);
  plan::ShuffleBuffer buffer;
  if (read_record(own, buffer).empty()) run.shuffle_buffer = buffer;
}

/// Reads how rows are drawn. Returns nothing after an error.
std::optional<plan::Sampling> read_sampling(const Fields& fields, const yaml::Node& node,
                                            const std::vector<Dataset>& datasets, const Job& job) {
  using Kind = plan::Sampling::Kind;
  Reader& reader = fields.reader();
  plan::Sampling made;
  if (!node.is_mapping()) {
    if (!read_choice(reader, node, "`sample`", {"uniform"})) return {};
    return made;
  }
  const Fields own(reader, node, fields.key_span("sample"), kSampleSection);
  const yaml::Node *weights = own.find("weights"), *balance = own.find("balance");
  if (!weights == !balance) {
    reader.error(Diagnosis::kEpochOrder, own.owner(), "`sample` requires {} `weights` {} `balance`",
                 weights ? "only one of" : "either", weights ? "and" : "or");
    return {};
  }
  made.kind = weights ? Kind::kWeights : Kind::kBalance;
  const yaml::Node& name = weights ? *weights : *balance;
  if (!reader.expect(name, yaml::Kind::kScalar, weights ? "`weights`" : "`balance`")) return {};
  const auto found = find_column(reader, name, datasets);
  if (!found) return {};
  made.dataset = found->dataset->name.text;
  made.column = found->column->plan.name;
  if (const auto part = part_read(job, made.dataset, found->part)) {
    made.part = *part;
    return made;
  }
  reader.error(Diagnosis::kEpochOrder, name, "no input of the job reads rows of `{}`",
               name.scalar.substr(0, name.scalar.find('.')));
  return {};
}

}  // namespace

void read_epoch_order(const Fields& fields, const std::vector<Dataset>& datasets, Job& job) {
  Reader& reader = fields.reader();
  plan::Run& run = job.run;
  read_shuffle(fields, run);
  run.data_threads = fields.integer("data_threads");
  const auto epoch_rows = fields.integer("epoch_rows");
  const yaml::Node* sample = fields.find("sample");
  if (fields.find("epoch_rows") && !sample)
    reader.error(Diagnosis::kEpochOrder, fields.key_span("epoch_rows"),
                 "`epoch_rows` requires `sample`");
  if (!sample) return;
  const Span key = fields.key_span("sample");
  if (!job.train)
    reader.error(Diagnosis::kEpochOrder, key,
                 "unexpected `sample` in a predict job; only train jobs draw rows");
  if (run.shuffle || run.shuffle_buffer)
    reader.error(Diagnosis::kEpochOrder, key, "`run` has both `sample` and `shuffle`")
        .label(fields.key_span("shuffle"), "also set here");
  run.sampling = read_sampling(fields, *sample, datasets, job);
  if (run.sampling) run.sampling->epoch_rows = epoch_rows.value_or(0);
}

}  // namespace flow::job
