// Opens a dataset: finds its bad rows, takes its part, learns values, and makes its columns.
#include "runtime/data/dataset/dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "runtime/base/text.h"
#include "runtime/data/dataset/dataset_cache.h"
#include "runtime/data/dataset/learning.h"
#include "runtime/data/dataset/open_columns.h"
#include "runtime/data/order/split.h"
#include "runtime/data/sources/open_source.h"

namespace flow::data {

/// The bad rows of a dataset, which are left out or refused.
class Dataset::BadRows {
 public:
  explicit BadRows(const plan::Dataset& dataset) : dataset_(dataset) {}

  /// Adds the bad rows of a column among `rows`, which are rows of the dataset. Throws RunError for
  /// the first one unless the dataset skips them. `bad` are rows of the source, in ascending order.
  void add(const OpenColumn& column, const std::vector<int64_t>& bad, const RowSet& rows) {
    if (bad.empty()) return;
    for (int64_t i = 0; i < rows.size(); ++i) {
      const int64_t row = rows[i], of_source = column.ranges[row];
      if (!std::ranges::binary_search(bad, of_source)) continue;
      if (dataset_.on_bad_row == plan::Dataset::OnBadRow::kFail) refuse(column, of_source);
      if (rows_.insert(row).second) note(column, of_source);
    }
  }

  bool contains(int64_t row) const { return rows_.contains(row); }
  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  std::string remark() const {
    return fmt::format("{}: {} of dataset `{}` {} left out, first {}", dataset_.where,
                       counted(rows_.size(), "bad row"), dataset_.name,
                       rows_.size() == 1 ? "is" : "are", first_);
  }

 private:
  void note(const OpenColumn& column, int64_t source_row) {
    if (first_.empty()) first_ = column.source->bad_row(source_row).what();
    if (!dataset_.max_bad_rows || size() <= *dataset_.max_bad_rows) return;
    throw RunError(
        fmt::format("{}: dataset `{}` has more than {}, the limit of `max_bad_rows`; the first is "
                    "{}",
                    dataset_.where, dataset_.name,
                    counted(static_cast<uint64_t>(*dataset_.max_bad_rows), "bad row"), first_),
        "list all of them with `flowc data`");
  }

  [[noreturn]] static void refuse(const OpenColumn& column, int64_t source_row) {
    const RunError error = column.source->bad_row(source_row);
    throw RunError(fmt::format("{}: {}", column.plan.where, error.what()),
                   error.hint().empty()
                       ? "correct the row, or leave it out with `options: {on_bad_row: skip}`"
                       : error.hint());
  }

  const plan::Dataset& dataset_;
  std::set<int64_t> rows_;
  std::string first_;  // the first bad row that was found, with its place
};

namespace {

using BadRows = Dataset::BadRows;

}  // namespace

void check_ranges(const plan::Column& column, int64_t rows) {
  for (const auto& [first, end] : column.rows) {
    const bool to_the_last = end == plan::Column::kToTheLast;
    if (to_the_last ? first < rows : end <= rows) continue;
    throw RunError(fmt::format("{}: {} has {} rows; the column selects rows {}..{}", column.where,
                               join(column.files, ", "), rows, first,
                               to_the_last ? "" : std::to_string(end)));
  }
}

void check_channels(const plan::Column& column) {
  const Shape row = column.source_row_shape();
  const size_t leading = row.rank() > 0 ? static_cast<size_t>(row[0]) : 1;
  for (const plan::Channels* channels : {&column.mean, &column.std})
    if (channels->values.size() > 1 && channels->values.size() != leading)
      throw RunError(fmt::format("{}: column `{}` has {} values of mean or std for {} channels",
                                 column.where, column.name, channels->values.size(), leading));
}

namespace {

std::vector<SelectedRows> open_files(const plan::Dataset& dataset,
                                     const std::vector<std::string>& read, const fs::path& root) {
  const auto sources = open_sources(dataset, read, root);
  std::vector<SelectedRows> columns;
  for (size_t i = 0; i < sources.size(); ++i) {
    check_ranges(dataset.columns[i], sources[i]->rows());
    columns.push_back({sources[i], RowRanges(dataset.columns[i].rows, sources[i]->rows())});
  }
  return columns;
}

std::vector<OpenColumn> named(const plan::Dataset& dataset, const std::vector<std::string>& read,
                              const std::vector<SelectedRows>& rows) {
  std::vector<OpenColumn> columns;
  for (size_t i = 0; i < rows.size(); ++i)
    columns.push_back({dataset.columns[i], rows[i].source, rows[i].ranges,
                       std::ranges::count(read, dataset.columns[i].name) > 0});
  return columns;
}

/// Checks the columns that a job reads; the shape of other rows may be unknown.
void check_columns(const plan::Dataset& dataset, const std::vector<std::string>& read) {
  FLOW_CHECK(!dataset.columns.empty(), "dataset {}", dataset.name);
  for (const plan::Column& column : dataset.columns)
    if (std::ranges::count(read, column.name) > 0) check_channels(column);
}

}  // namespace

std::vector<OpenColumn> open_columns(const plan::Dataset& dataset,
                                     const std::vector<std::string>& read, const fs::path& root) {
  check_columns(dataset, read);
  return named(dataset, read, open_files(dataset, read, root));
}

int64_t common_length(const plan::Dataset& dataset, const std::vector<OpenColumn>& columns) {
  const int64_t rows = columns.front().ranges.size();
  if (std::ranges::all_of(columns,
                          [&](const OpenColumn& one) { return one.ranges.size() == rows; }))
    return rows;
  std::vector<std::string> lengths;
  for (const OpenColumn& one : columns)
    lengths.push_back(fmt::format("`{}` has {} rows", one.plan.name, one.ranges.size()));
  throw RunError(fmt::format("{}: the columns of dataset `{}` have different lengths: {}",
                             dataset.where, dataset.name, join(lengths, ", ")),
                 "select part of a column with `rows: a..b`");
}

namespace {

/// Decodes all rows of a source whose bad rows are only found by decoding. Returns these rows.
std::vector<int64_t> undecodable_rows(const OpenColumn& column, DecodePool* pool) {
  if (!column.source->is_decoded()) return {};
  std::vector<uint8_t> found(static_cast<size_t>(column.ranges.size()));
  std::vector<Scratch> scratch(static_cast<size_t>(pool ? pool->size() : 1));
  const std::function<void(int64_t, int)> decode = [&](int64_t i, int thread) {
    try {
      column.source->read(column.ranges[i], {}, scratch[static_cast<size_t>(thread)]);
    } catch (const BadRowError&) {
      found[static_cast<size_t>(i)] = 1;
    }
  };
  column.source->recovering([&] {
    if (pool) return pool->for_each(column.ranges.size(), decode);
    for (int64_t i = 0; i < column.ranges.size(); ++i) decode(i, 0);
  });
  std::set<int64_t> bad;
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i] != 0) bad.insert(column.ranges[static_cast<int64_t>(i)]);
  return {bad.begin(), bad.end()};
}

/// Returns the rows in [0, rows) that are not bad.
RowSet good_rows(int64_t rows, const BadRows& bad) {
  if (bad.size() == 0) return {0, rows};
  std::vector<int64_t> good;
  for (int64_t row = 0; row < rows; ++row)
    if (!bad.contains(row)) good.push_back(row);
  return RowSet(std::move(good));
}

RowSet select(const RowSet& from, const std::vector<int64_t>& which) {
  std::vector<int64_t> rows;
  rows.reserve(which.size());
  for (const int64_t i : which) rows.push_back(from[i]);
  return RowSet(std::move(rows));
}

/// Returns rows [first, first + count) of `from`.
RowSet slice(const RowSet& from, int64_t first, int64_t count) {
  if (from.is_range()) return {from[0] + first, count};
  std::vector<int64_t> rows;
  for (int64_t i = first; i < first + count; ++i) rows.push_back(from[i]);
  return RowSet(std::move(rows));
}

/// Returns a number for each row, equal for rows with equal values in that column.
std::vector<int64_t> class_ids(const std::vector<OpenColumn>& columns, const std::string& name,
                               const RowSet& rows) {
  const OpenColumn& column =
      *std::ranges::find_if(columns, [&](const OpenColumn& one) { return one.plan.name == name; });
  std::vector<int64_t> source_rows;
  for (int64_t i = 0; i < rows.size(); ++i) source_rows.push_back(column.ranges[rows[i]]);
  return column.source->class_ids(source_rows);
}

}  // namespace

RowSet rows_of_part(const plan::Dataset& dataset, const std::string& part,
                    const std::vector<OpenColumn>& columns, const RowSet& rows) {
  if (!dataset.split) return rows;
  const plan::Split& split = *dataset.split;
  const auto found = std::ranges::find(split.parts, part, &plan::SplitPart::name);
  const auto index = static_cast<size_t>(found - split.parts.begin());
  FLOW_CHECK(part.empty() || index < split.parts.size(), "part {}", part);
  if (split.take == plan::Split::Take::kLast) {
    const std::vector<int64_t> starts = split_last(split, dataset.name, rows.size());
    if (part.empty()) return slice(rows, 0, starts[0]);
    return slice(rows, starts[index], starts[index + 1] - starts[index]);
  }
  const SplitRows made =
      !split.by.empty() ? split_by(split, dataset.name, class_ids(columns, split.by, rows))
      : !split.group.empty()
          ? split_groups(split, dataset.name, class_ids(columns, split.group, rows))
          : split_random(split, dataset.name, rows.size());
  return select(rows, part.empty() ? made.rest : made.parts[index]);
}

namespace {

RowSet without(const RowSet& rows, const BadRows& bad) {
  if (bad.size() == 0) return rows;
  std::vector<int64_t> good;
  for (int64_t i = 0; i < rows.size(); ++i)
    if (!bad.contains(rows[i])) good.push_back(rows[i]);
  return static_cast<int64_t>(good.size()) == rows.size() ? rows : RowSet(std::move(good));
}

void add_bad_rows(const plan::Dataset& dataset, const std::vector<OpenColumn>& columns,
                  DecodePool* pool, BadRows& bad) {
  for (const OpenColumn& column : columns) {
    const RowSet all(0, column.ranges.size());
    bad.add(column, column.source->bad_rows(), all);
    if (dataset.on_bad_row == plan::Dataset::OnBadRow::kSkip)
      bad.add(column, undecodable_rows(column, pool), all);
  }
}

/// Opens the columns from their cache, which is written first if it cannot be used.
std::vector<SelectedRows> open_cached(const plan::Dataset& dataset, const DatasetRequest& request) {
  std::optional<DatasetCache> cache;
  try {
    cache.emplace(dataset, request.root);
  } catch (const RunError&) {
    // Opening the files gives a better message about a missing file.
    return open_files(dataset, request.columns, request.root);
  }
  if (auto cached = cache->open(request.columns)) return *std::move(cached);
  std::vector<SelectedRows> rows = open_files(dataset, request.columns, request.root);
  const std::vector<OpenColumn> columns = named(dataset, request.columns, rows);
  common_length(dataset, columns);
  if (dataset.on_bad_row == plan::Dataset::OnBadRow::kFail) {
    BadRows none(dataset);
    add_bad_rows(dataset, columns, nullptr, none);
  }
  cache->write(rows, request.options.pool);
  // Another run may have replaced the cache in the meantime; the files have the same rows.
  return cache->open(request.columns).value_or(std::move(rows));
}

std::vector<OpenColumn> open_requested(const DatasetRequest& request) {
  const plan::Dataset& dataset = *request.dataset;
  if (dataset.cache.empty()) return open_columns(dataset, request.columns, request.root);
  check_columns(dataset, request.columns);
  return named(dataset, request.columns, open_cached(dataset, request));
}

/// Returns the number of rows of the columns: the windows that fit into all of them, or `rows`.
int64_t count_windows(const std::vector<OpenColumn>& columns, const RowSet& rows) {
  int64_t count = rows.size();
  for (const OpenColumn& column : columns)
    if (column.plan.window) count = std::min(count, windows_in(*column.plan.window, rows.size()));
  return count;
}

/// Counts the rows that come from one file, in the order of the rows. A window belongs to the file
/// of its first row.
std::vector<int64_t> count_by_file(const OpenColumn& column, const RowSet& rows, int64_t count) {
  const std::vector<int64_t> starts = column.source->file_starts();
  if (starts.size() == 1) return {count};
  std::vector<int64_t> counts;
  ptrdiff_t last = -1;
  for (int64_t i = 0; i < count; ++i) {
    const auto& window = column.plan.window;
    const int64_t row = column.ranges[rows[window ? i * window->stride + window->shift : i]];
    const ptrdiff_t file = std::ranges::upper_bound(starts, row) - starts.begin();
    if (file != last) counts.push_back(0);
    ++counts.back();
    last = file;
  }
  return counts;
}

const LearnedColumn* find_learned(const Learned* learned, const std::string& name) {
  if (!learned) return nullptr;
  const auto found = learned->find(name);
  return found == learned->end() ? nullptr : &found->second;
}

}  // namespace

Dataset::Dataset(const DatasetRequest& request)
    : name_(request.part.empty() ? request.dataset->name
                                 : request.dataset->name + "/" + request.part) {
  const plan::Dataset& dataset = *request.dataset;
  const std::vector<OpenColumn> columns = open_requested(request);
  const int64_t length = common_length(dataset, columns);
  BadRows bad(dataset);
  add_bad_rows(dataset, columns, request.options.pool, bad);
  RowSet rows = rows_of_part(dataset, request.part, columns, good_rows(length, bad));
  for (const bool owns : {true, false})  // columns with values of their own learn first
    for (const OpenColumn& column : columns)
      if (column.is_read && column.plan.learned_from.empty() == owns)
        prepare(request, column, rows, bad);
  rows = without(rows, bad);
  counts_ = {length - bad.size(), bad.size()};
  if (bad.size() > 0) remarks_.push_back(bad.remark());
  rows_ = count_windows(columns, rows);
  rows_of_files_ = count_by_file(columns.front(), rows, rows_);
  for (const OpenColumn& column : columns)
    if (column.is_read) add_column(request, column, rows);
}

namespace {

/// Returns the result of `use`, and adds the place of the column to its errors.
auto at_place(const plan::Column& column, const auto& use) {
  try {
    return use();
  } catch (const RunError& error) {
    throw error.at(column.where);
  }
}

/// Throws RequestError if means or standard deviations were learned for other channels.
void check_learned_channels(const plan::Column& column, const std::string& name,
                            const LearnedColumn& values) {
  const Shape row = column.source_row_shape();
  const size_t leading = row.rank() > 0 ? static_cast<size_t>(row[0]) : 1;
  const auto fits = [&](const plan::Channels& written, const auto& learned) {
    return !written.learn || learned->size() == 1 || learned->size() == leading;
  };
  if (!fits(column.mean, values.mean) || !fits(column.std, values.std))
    throw RequestError(fmt::format("{}: `{}` was learned for another number of channels than {}",
                                   column.where, name, leading),
                       "load a checkpoint of a job with this column");
}

}  // namespace

/// Learns the values of a column or takes them from the request, and gives them to its source.
void Dataset::prepare(const DatasetRequest& request, const OpenColumn& column, const RowSet& rows,
                      BadRows& bad) {
  LearnedColumn values;
  if (needs_learning(column.plan)) {
    const std::string name = learned_name(*request.dataset, column.plan);
    const LearnedColumn* given = find_learned(&learned_, name);
    if (!given) given = find_learned(request.learned, name);
    if (given)
      values = *given;
    else if (request.may_learn)
      values = at_place(column.plan, [&] {
        return learn(column.plan, *column.source, column.ranges, rows, remarks_);
      });
    require_learned(column.plan, name, values);
    check_learned_channels(column.plan, name, values);
    learned_[name] = values;
  }
  const auto unusable = at_place(column.plan, [&] { return column.source->apply(values); });
  bad.add(column, unusable, rows);
}

void Dataset::add_column(const DatasetRequest& request, const OpenColumn& column,
                         const RowSet& rows) {
  const LearnedColumn* learned =
      find_learned(&learned_, learned_name(*request.dataset, column.plan));
  const auto in_use = [&](const plan::Channels& written, auto member) {
    return written.learn && learned ? (learned->*member).value() : written.values;
  };
  columns_.emplace_back(
      column.plan.name,
      std::make_unique<Column>(column.plan, name_, column.source, column.ranges, rows,
                               in_use(column.plan.mean, &LearnedColumn::mean),
                               in_use(column.plan.std, &LearnedColumn::std), request.options));
}

Column& Dataset::column(std::string_view name) {
  for (auto& [column_name, column] : columns_)
    if (column_name == name) return *column;
  FLOW_CHECK(false, "dataset {} has no column {}", name_, name);
}

}  // namespace flow::data
