// Implements `flowc data`.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "cli/flowc/flowc.h"
#include "cli/shared/console.h"
#include "cli/shared/job_source.h"
#include "cli/shared/reports.h"
#include "runtime/base/display.h"
#include "runtime/base/text.h"
#include "runtime/data/summary/samples.h"
#include "runtime/data/summary/summary.h"

namespace flow::cli {
namespace {

using data::ColumnSummary;
using data::DatasetSummary;

std::string shape_text(const ColumnSummary& column) {
  std::vector<std::string> extents;
  for (const auto& extent : column.shape) extents.push_back(extent ? std::to_string(*extent) : "?");
  return fmt::format("[{}]", join(extents, ", "));
}

/// Returns "a 7, b 5, and 3 more".
std::string categories_text(const data::CategorySummary& categories) {
  constexpr size_t kShown = 8;
  std::vector<std::string> shown;
  const size_t count = categories.names.size();
  for (size_t i = 0; i < std::min(count, kShown); ++i)
    shown.push_back(categories.counts.empty() ? shortened(categories.names[i])
                                              : fmt::format("{} {}", shortened(categories.names[i]),
                                                            categories.counts[i]));
  if (count > kShown) shown.push_back(fmt::format("and {} more", count - kShown));
  if (categories.others > 0)
    shown.push_back(counted(static_cast<uint64_t>(categories.others), "other value"));
  return join(shown, ", ");
}

std::string size_text(const data::ImageSize& size) {
  return fmt::format("[{}, {}]", size.height, size.width);
}

std::string values_text(const ColumnSummary& column) {
  std::vector<std::string> parts;
  if (const auto& numbers = column.numbers)
    parts.push_back(fmt::format("{} to {}, mean {}, std {}", shortest(numbers->min),
                                shortest(numbers->max), shortest(numbers->mean),
                                shortest(numbers->std)));
  if (column.nonfinite > 0) parts.push_back(fmt::format("{} NaN or infinite", column.nonfinite));
  if (column.categories) parts.push_back(categories_text(*column.categories));
  if (const auto& sizes = column.sizes)
    parts.push_back(
        sizes->smallest == sizes->largest
            ? fmt::format("size {}", size_text(sizes->smallest))
            : fmt::format("sizes {} to {}", size_text(sizes->smallest), size_text(sizes->largest)));
  return join(parts, ", ");
}

/// Returns "houses: 900 rows, 2 bad rows; validation 90, the rest 810".
std::string title_of(const DatasetSummary& dataset) {
  std::string title =
      fmt::format("{}: {}", dataset.name, counted(static_cast<uint64_t>(dataset.rows), "row"));
  if (dataset.bad_rows > 0)
    title += ", " + counted(static_cast<uint64_t>(dataset.bad_rows), "bad row");
  int64_t rest = dataset.rows;
  for (const auto& [part, rows] : dataset.parts) {
    title += fmt::format("{}{} {}", rest == dataset.rows ? "; " : ", ", part, rows);
    rest -= rows;
  }
  if (!dataset.parts.empty()) title += fmt::format(", the rest {}", rest);
  return title;
}

void print_table(const DatasetSummary& dataset, const std::vector<data::ListedBadRow>& bad) {
  constexpr size_t kMissing = 3, kValues = 4;
  Table table;
  table.row({"  column", "type", "shape", "missing", "values"});
  for (const ColumnSummary& column : dataset.columns)
    table.row({"  " + column.name, column.type, shape_text(column), std::to_string(column.missing),
               values_text(column)});
  table.align_right(kMissing);
  table.fit(screen_columns(stdout), {kValues}, 20);
  print(title_of(dataset) + "\n" + table.str());
  if (!bad.empty()) print("  bad rows:\n");
  for (const data::ListedBadRow& row : bad) print(fmt::format("    {}\n", row.text()));
}

OrderedJson json_of(const ColumnSummary& column) {
  OrderedJson json = {{"type", column.type}, {"shape", OrderedJson::array()}};
  for (const auto& extent : column.shape)
    json["shape"].push_back(extent ? OrderedJson(*extent) : OrderedJson());
  json["missing"] = column.missing;
  if (column.nonfinite > 0) json["nonfinite"] = column.nonfinite;
  if (const auto& numbers = column.numbers) {
    json["min"] = numbers->min;
    json["max"] = numbers->max;
    json["mean"] = numbers->mean;
    json["std"] = numbers->std;
  }
  if (const auto& categories = column.categories) {
    json["categories"] = categories->names;
    if (!categories->counts.empty()) json["counts"] = categories->counts;
    if (categories->others > 0) json["others"] = categories->others;
  }
  if (const auto& sizes = column.sizes)
    json["sizes"] = {{sizes->smallest.height, sizes->smallest.width},
                     {sizes->largest.height, sizes->largest.width}};
  return json;
}

OrderedJson json_of(const data::ListedBadRow& bad) {
  OrderedJson json = {{"file", bad.file}};
  if (bad.line) json["line"] = *bad.line;
  if (bad.column) json["column"] = *bad.column;
  json["message"] = bad.message;
  return json;
}

OrderedJson json_of(const DatasetSummary& dataset, const std::vector<data::ListedBadRow>& bad) {
  OrderedJson json = {{"rows", dataset.rows},
                      {"bad_rows", dataset.bad_rows},
                      {"parts", OrderedJson::object()},
                      {"columns", OrderedJson::object()},
                      {"bad", OrderedJson::array()}};
  for (const auto& [part, rows] : dataset.parts) json["parts"][part] = rows;
  for (const ColumnSummary& column : dataset.columns)
    json["columns"][column.name] = json_of(column);
  for (const data::ListedBadRow& row : bad) json["bad"].push_back(json_of(row));
  return json;
}

/// Returns the dataset that the options name, or all datasets if they name none.
std::vector<plan::Dataset> chosen_datasets(const FlowcOptions& options,
                                           const std::vector<plan::Dataset>& all) {
  if (options.dataset.empty()) {
    if (!all.empty()) return all;
    throw RequestError(fmt::format("{} has no datasets", options.file),
                       "add a `data:` section to the file");
  }
  const auto found = std::ranges::find(all, options.dataset, &plan::Dataset::name);
  if (found != all.end()) return {*found};
  std::vector<std::string> names;
  for (const plan::Dataset& dataset : all) names.push_back(dataset.name);
  throw unknown_name(fmt::format("unknown dataset `{}`", options.dataset), options.dataset, names,
                     names.empty() ? "add a `data:` section to the file"
                                   : fmt::format("use one of {}", join(names, ", ")));
}

/// Returns the job that the options name, or null if they name none. Throws RequestError if it is
/// not a train job, or if it does not read the dataset that the options name.
const plan::Job* train_job(const FlowcOptions& options, const plan::Plan& plan) {
  if (options.job.empty()) return nullptr;
  const plan::Job& job = find_job(plan, options.job);
  if (!job.train)
    throw RequestError(fmt::format("job `{}` does not train", job.name),
                       "name a train job; only train jobs augment rows");
  if (!options.dataset.empty() &&
      std::ranges::count(job.datasets, options.dataset, &plan::Dataset::name) == 0)
    throw RequestError(
        fmt::format("job `{}` does not read dataset `{}`", job.name, options.dataset),
        "name a job that reads it");
  return &job;
}

/// Writes samples of a dataset. Returns the number of files.
int64_t write_samples(const FlowcOptions& options, const data::DatasetReader& reader,
                      const DatasetSummary& dataset, const plan::Job* job, const fs::path& root,
                      data::DecodePool& pool) {
  const fs::path folder = fs::path(options.output) / dataset.name;
  if (!job) return reader.write_samples(folder, options.samples);
  return data::write_job_samples({.job = *job,
                                  .dataset = dataset.name,
                                  .count = options.samples,
                                  .epoch = options.epoch,
                                  .root = root,
                                  .folder = folder,
                                  .skips_bad_rows = dataset.bad_rows > 0},
                                 pool);
}

}  // namespace

int summarize_data(const FlowcOptions& options) {
  constexpr size_t kMostInJson = 100;
  const auto compiled = compile_aloud(request_of(options));
  if (!compiled) return kRequestWrong;
  const plan::Job* job = train_job(options, *compiled->plan);
  const fs::path root = fs::path(options.file).parent_path();
  const bool as_json = options.format == "json";
  data::DecodePool pool(static_cast<int>(std::max(1u, std::thread::hardware_concurrency())));
  OrderedJson all = OrderedJson::object();
  int64_t bad_rows = 0, files = 0;
  for (const plan::Dataset& dataset : chosen_datasets(options, compiled->datasets)) {
    const data::DatasetReader reader(dataset, root, pool);
    const DatasetSummary summary = reader.summary();
    const auto bad = reader.bad_rows(as_json ? kMostInJson : std::numeric_limits<size_t>::max());
    bad_rows += summary.bad_rows;
    if (as_json)
      all[dataset.name] = json_of(summary, bad);
    else
      print_table(summary, bad);
    if (!options.output.empty()) files += write_samples(options, reader, summary, job, root, pool);
  }
  if (as_json) print(json_text(all));
  if (!options.output.empty())
    print_to_stderr(fmt::format("{}: {} written\n", escaped(options.output),
                                counted(static_cast<uint64_t>(files), "sample")));
  return bad_rows > 0 ? kCheckFailed : kDone;
}

}  // namespace flow::cli
