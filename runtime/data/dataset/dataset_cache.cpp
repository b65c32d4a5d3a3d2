// Opens and writes caches. A column with missing values has a second array, "COLUMN.missing", with
// 1 for each missing cell. The record stores the facts of each column under the column's name, so
// jobs that read different columns of a dataset can share one cache.
#include "runtime/data/dataset/dataset_cache.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "runtime/data/dataset/cached_columns.h"
#include "runtime/data/dataset/cached_rows.h"
#include "runtime/data/dataset/open_columns.h"
#include "runtime/data/files/digest.h"
#include "runtime/data/sources/column_files.h"
#include "runtime/data/sources/number_rows.h"
#include "runtime/data/sources/open_source.h"

namespace flow::data {
namespace {

/// Returns the states of the files that a column reads. An image that a CSV file names may be
/// missing; its row is then bad.
std::vector<FileState> files_of_column(const plan::Column& column, const fs::path& root) {
  std::vector<FileState> states;
  for (const fs::path& file : files_of(column, root))
    states.push_back(file_state({}, file.string()));
  if (column.source != plan::SourceKind::kCsv || cached_kind(column) != CachedKind::kImages)
    return states;
  for (const fs::path& image : open_source(column, root)->row_files()) {
    try {
      states.push_back(file_state({}, image.string()));
    } catch (const RunError&) {
      states.push_back({image.string()});
    }
  }
  return states;
}

/// Copies the values of mapped rows.
template <typename T>
std::vector<T> copied(const io::Rows& rows) {
  std::vector<T> values(rows.data.size() / sizeof(T));
  const auto copy = [&] { std::memcpy(values.data(), rows.data.data(), rows.data.size()); };
  if (rows.file)
    rows.file->recovering(copy);
  else
    copy();
  return values;
}

/// Opens the columns of a cache. Each function returns null if the cache does not have the form
/// that write() gives it.
class CacheReader {
 public:
  CacheReader(const plan::Dataset& dataset, CachedColumns cached, const fs::path& root)
      : dataset_(dataset),
        cached_(std::move(cached)),
        original_(std::make_shared<OriginalFiles>(dataset, root)) {}

  std::shared_ptr<SourceRows> open(size_t index) try {
    const plan::Column& column = dataset_.columns[index];
    const Json& facts = cached_.details.at(column.name);
    if (facts.at("keys") != cache_keys(dataset_, column)) return nullptr;
    const OriginalRows original(original_, index);
    switch (cached_kind(column)) {
      case CachedKind::kNumbers:
        return open_numbers(column, facts, original);
      case CachedKind::kCategories:
        return open_categories(column, facts, original);
      default:
        return open_images(column, facts, original);
    }
  } catch (const Json::exception&) {
    return nullptr;
  }

 private:
  io::Rows* find(const std::string& name) {
    const auto found = cached_.columns.find(name);
    return found == cached_.columns.end() ? nullptr : &found->second;
  }

  /// Returns a list of rows, or throws Json::exception.
  static std::vector<int64_t> rows_at(const Json& facts, const char* key) {
    return facts.at(key).get<std::vector<int64_t>>();
  }

  static CachedFacts facts_of(const Json& facts) {
    return {rows_at(facts, "bad_rows"), rows_at(facts, "undecodable"),
            rows_at(facts, "file_starts")};
  }

  static bool has_shape(const io::Rows* rows, DType dtype, int rank) {
    return rows && rows->dtype == dtype && rows->narrow == io::Narrow::kNo && !rows->big_endian &&
           rows->shape.rank() == rank;
  }

  /// Returns the marks of missing cells, or nothing if no cell of the column is missing.
  std::vector<uint8_t> missing_of(const plan::Column& column, size_t cells) {
    const io::Rows* marks = find(column.name + kMissingMarks);
    if (!marks || marks->dtype != DType::kUInt8 || marks->data.size() != cells) return {};
    return copied<uint8_t>(*marks);
  }

  std::shared_ptr<SourceRows> open_numbers(const plan::Column& column, const Json& json,
                                           const OriginalRows& original) {
    const bool whole = column.cell->type != plan::CellType::kNumber;
    const io::Rows* rows = find(column.name);
    if (!has_shape(rows, whole ? DType::kInt64 : DType::kFloat64, 2) || rows->shape[1] == 0)
      return nullptr;
    CachedFacts facts = facts_of(json);
    NumberCells cells{{}, rows->shape[1], {}, facts.bad_rows, facts.file_starts};
    if (whole)
      cells.values = copied<int64_t>(*rows);
    else
      cells.values = copied<double>(*rows);
    cells.missing = missing_of(column, static_cast<size_t>(rows->shape.elements()));
    return std::make_shared<NumberRows>(
        std::move(cells), *column.cell, [original](int64_t row) { return original.row_text(row); },
        [original](int64_t row) { return original.bad_row(row); });
  }

  std::shared_ptr<SourceRows> open_categories(const plan::Column& column, const Json& json,
                                              const OriginalRows& original) {
    const io::Rows* rows = find(column.name);
    if (!has_shape(rows, DType::kInt32, 1)) return nullptr;
    CachedFacts facts = facts_of(json);
    CategoryCells cells{copied<int32_t>(*rows), json.at("texts").get<std::vector<std::string>>(),
                        missing_of(column, static_cast<size_t>(rows->shape[0])), facts.bad_rows,
                        facts.file_starts};
    const auto texts = static_cast<int32_t>(cells.texts.size());
    // Rows without a text have id 0.
    if (std::ranges::any_of(cells.ids,
                            [&](int32_t id) { return id < 0 || (id > 0 && id >= texts); }))
      return nullptr;
    return std::make_shared<CategoryRows>(
        std::move(cells), *column.cell, listed_categories(column, original_->root()),
        [original](int64_t row) { return original.row_text(row); },
        [original](int64_t row) { return original.bad_row(row); });
  }

  std::shared_ptr<SourceRows> open_images(const plan::Column& column, const Json& json,
                                          const OriginalRows& original) {
    io::Rows* rows = find(column.name);
    if (!has_shape(rows, column.image->bits == 8 ? DType::kUInt8 : DType::kInt32, 4))
      return nullptr;
    return augmented(column,
                     std::make_shared<CachedImages>(std::move(*rows), facts_of(json), original));
  }

  const plan::Dataset& dataset_;
  CachedColumns cached_;
  std::shared_ptr<const OriginalFiles> original_;
};

/// Returns the name of the column to which an array of a cache belongs.
std::string_view column_of(std::string_view array) {
  return array.ends_with(kMissingMarks)
             ? array.substr(0, array.size() - std::string_view(kMissingMarks).size())
             : array;
}

/// Returns the arrays that another job wrote to the cache, and that this dataset does not replace.
std::vector<std::pair<std::string, const io::Rows*>> others_of(const CachedColumns& before,
                                                               const plan::Dataset& dataset,
                                                               int64_t rows) {
  std::vector<std::pair<std::string, const io::Rows*>> others;
  for (const auto& [name, array] : before.columns)
    if (std::ranges::find(dataset.columns, column_of(name), &plan::Column::name) ==
            dataset.columns.end() &&
        array.shape[0] == rows && array.narrow == io::Narrow::kNo && !array.big_endian)
      others.emplace_back(name, &array);
  return others;
}

void copy(const io::Rows& array, size_t index, CacheWriter& writer) {
  const size_t bytes = bytes_of(array.shape.from(1), array.dtype);
  const auto copy_all = [&] {
    for (int64_t row = 0; row < array.shape[0]; ++row)
      writer.append(index, array.data.subspan(static_cast<size_t>(row) * bytes, bytes));
  };
  if (array.file)
    array.file->recovering(copy_all);
  else
    copy_all();
}

/// An image that a CSV file names but that is missing.
bool is_absent(const FileState& state) { return state.size == 0 && state.time == 0; }

}  // namespace

DatasetCache::DatasetCache(const plan::Dataset& dataset, const fs::path& root)
    : dataset_(dataset), root_(root), folder_(root / dataset.cache) {
  std::set<std::string> listed;
  for (const plan::Column& column : dataset.columns) {
    if (cached_kind(column) == CachedKind::kNone) continue;
    for (FileState& state : files_of_column(column, root))
      if (listed.insert(state.name).second) source_.files.push_back(std::move(state));
  }
}

std::optional<std::vector<SelectedRows>> DatasetCache::open(
    const std::vector<std::string>& read) const {
  std::optional<CachedColumns> cached = open_cache(folder_, dataset_.name, source_);
  if (!cached) return std::nullopt;
  CacheReader reader(dataset_, *std::move(cached), root_);
  std::vector<std::shared_ptr<SourceRows>> sources;
  plan::Dataset others = dataset_;
  others.columns.clear();
  for (size_t i = 0; i < dataset_.columns.size(); ++i) {
    const bool is_cached = cached_kind(dataset_.columns[i]) != CachedKind::kNone;
    sources.push_back(is_cached ? reader.open(i) : nullptr);
    if (is_cached && !sources.back()) return std::nullopt;
    if (!is_cached) others.columns.push_back(dataset_.columns[i]);
  }
  const auto opened = open_sources(others, read, root_);
  std::vector<SelectedRows> columns;
  auto next = opened.begin();
  for (size_t i = 0; i < sources.size(); ++i) {
    const auto source = sources[i] ? sources[i] : *next++;
    const auto& ranges = dataset_.columns[i].rows;
    if (!sources[i]) check_ranges(dataset_.columns[i], source->rows());
    columns.push_back(
        {source, sources[i] ? RowRanges({}, source->rows()) : RowRanges(ranges, source->rows())});
  }
  return columns;
}

void DatasetCache::write(std::span<const SelectedRows> columns, DecodePool* pool) const {
  CachedColumnsWriting writing(dataset_, columns, pool);
  if (!writing.add_all()) return;
  std::vector<CacheColumn> arrays = writing.arrays();
  if (arrays.empty()) return;
  const size_t own = arrays.size();
  const std::optional<CachedColumns> before = open_cache(folder_, dataset_.name, source_);
  const auto others = before ? others_of(*before, dataset_, columns.front().ranges.size())
                             : decltype(others_of({}, dataset_, 0))();
  for (const auto& [name, array] : others)
    arrays.push_back({name, array->dtype, array->shape.from(1)});
  CacheWriter writer(folder_, dataset_.name, source_, arrays);
  Json details = writing.write(writer);
  for (size_t i = 0; i < others.size(); ++i) {
    copy(*others[i].second, own + i, writer);
    const std::string column(column_of(others[i].first));
    details[column] = before->details.value(column, Json());
  }
  for (const FileState& file : source_.files)
    if (!is_absent(file)) require_unchanged({}, file);
  writer.commit(details);
}

}  // namespace flow::data
