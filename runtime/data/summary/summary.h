// What a dataset contains: its rows, its parts, the values of its columns and its bad rows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/data/dataset/decode_pool.h"
#include "runtime/data/dataset/open_columns.h"
#include "runtime/plan/model/dataset.h"

namespace flow::data {

/// The values of a column before `scale`, without missing values, NaN and infinity.
struct NumberSummary {
  double min = 0, max = 0, mean = 0;
  double std = 0;  // of the population: sqrt(mean((x - mean)^2))
};

/// The categories in the order of their ids. `counts` has the number of rows of each, or is empty
/// for the characters of texts.
struct CategorySummary {
  std::vector<std::string> names;
  std::vector<int64_t> counts;
  int64_t others = 0;  // rows with a value that is not one of the categories
};

/// The smallest and the largest image as their files have them, by number of pixels.
struct SizeSummary {
  ImageSize smallest, largest;
};

struct ColumnSummary {
  std::string name;
  std::string type;                           // number, integer, bool, category, text or image
  std::vector<std::optional<int64_t>> shape;  // of a row; nothing for an extent that varies
  int64_t missing = 0;                        // number of missing values
  int64_t nonfinite = 0;                      // number of NaN and infinity
  std::optional<NumberSummary> numbers;       // absent if there is no finite value
  std::optional<CategorySummary> categories;
  std::optional<SizeSummary> sizes;
};

/// A bad row and the place where it is bad.
struct ListedBadRow {
  std::string file;  // a file, an image, or a shard and the key of a sample
  std::optional<int64_t> line, column;
  std::string message;

  /// Returns "houses.csv:17:9: \"12x\" is not a number".
  std::string text() const;
};

/// Splits the message of a bad row into its place and the rest. `files` are the files of the
/// column, and `row_text` is the place of rows that are files.
ListedBadRow parse_bad_row(std::string_view message, const std::vector<fs::path>& files,
                           std::string_view row_text);

struct DatasetSummary {
  std::string name;
  int64_t rows = 0;  // rows that are not bad, in all parts
  int64_t bad_rows = 0;
  std::vector<std::pair<std::string, int64_t>> parts;  // numbers of rows
  std::vector<ColumnSummary> columns;
};

/// A dataset whose bad rows are left out and listed. Values are those of the files, without
/// scaling and augmentation.
class DatasetReader {
 public:
  /// Opens all columns and decodes all images once. Paths are relative to `root`. Throws RunError
  /// if files cannot be read or columns have different lengths.
  DatasetReader(plan::Dataset dataset, fs::path root, DecodePool& pool);
  DatasetReader(const DatasetReader&) = delete;
  DatasetReader& operator=(const DatasetReader&) = delete;

  /// Reads all rows. Throws RunError if a part of the dataset would have no rows.
  DatasetSummary summary() const;
  /// Returns the first `most` bad rows.
  std::vector<ListedBadRow> bad_rows(size_t most) const;
  /// Writes the first rows of columns of images and texts as FOLDER/COLUMN/000000.png or .txt.
  /// Returns the number of files. Throws RunError if a file cannot be written.
  int64_t write_samples(const fs::path& folder, int64_t count) const;

 private:
  /// The column in which a row is bad, and its row there.
  struct Bad {
    size_t column;
    int64_t source_row;
  };
  /// The sizes of the images of a column, by row: in their files, and as decoded.
  struct ImageSizes {
    std::vector<ImageSize> stored, decoded;
    int64_t channels = 0;
  };
  using VisitRow = std::function<void(int64_t row, std::span<const double> values)>;

  void decode_images(size_t column);
  void add_bad_rows(size_t column, std::span<const int64_t> bad);
  void visit_rows(size_t column, const VisitRow& visit) const;
  void summarize_numbers(size_t column, ColumnSummary& summary) const;
  CategorySummary categories_of(size_t column, int64_t& missing) const;
  ColumnSummary summary_of(size_t column) const;
  std::vector<std::optional<int64_t>> shape_of(size_t column) const;
  std::vector<int64_t> source_rows(size_t column) const;
  int64_t sample_rows(size_t column, int64_t most) const;
  std::vector<double> sample(size_t column, int64_t row, Shape& shape) const;
  int64_t write_column(size_t column, const fs::path& folder, int64_t count) const;

  plan::Dataset dataset_;
  fs::path root_;
  DecodePool& pool_;
  std::vector<OpenColumn> columns_;
  std::map<int64_t, Bad> bad_;      // by row of the dataset
  std::vector<ImageSizes> images_;  // by column; empty for columns without images
  RowSet good_;
};

}  // namespace flow::data
