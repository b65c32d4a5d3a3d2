// Datasets of a job file: where the rows of each column come from, how they are decoded, and which
// rows form the dataset and its parts. A group of keys that only some sources have is a struct of
// its own, present in a column whose source has these keys.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/plan/model/column_formats.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

/// The formats of data files, named by the key that gives the path.
enum class SourceKind : uint8_t {
  kIdx,
  kNpy,
  kNpz,
  kCsv,
  kBin,
  kText,
  kSafetensors,
  kTar,
  kImages
};

/// A column of a dataset: the rows of its files, converted as (x * scale - mean) / std.
struct Column {
  /// The end of a range of rows that includes the last row of the file.
  static constexpr int64_t kToTheLast = std::numeric_limits<int64_t>::max();

  std::string name;
  SourceKind source = SourceKind::kNpy;
  std::vector<std::string> files;    // paths and globs as written in the job file
  std::optional<std::string> array;  // the name of the array in an npz or safetensors file
  /// The shape of one row, as the job sees it. If no input reads the column: the extents that the
  /// job file determines, or [].
  Shape row_shape;
  double scale = 1;
  Channels mean, std;
  std::vector<std::pair<int64_t, int64_t>> rows;  // [first, end); empty: all
  std::optional<CsvFormat> csv;
  std::optional<CellRules> cell;  // in columns of csv, tar, text and images
  std::optional<BinFormat> bin;
  std::optional<TextFormat> text;
  std::optional<TarFormat> tar;
  std::optional<ImageFormat> image;
  std::optional<Window> window;
  /// The column, as "houses.area", whose learned values this one uses. Empty: its own.
  std::string learned_from;
  std::string where;

  /// Returns the shape of a source row: without the axis of the window.
  Shape source_row_shape() const {
    return window && row_shape.rank() > 0 ? row_shape.from(1) : row_shape;
  }

  /// The keys of columns of every source.
  static constexpr auto record() {
    using T = Column;
    return Record{
        "column", "A column of a dataset.", "",
        std::tuple{
            Field{"scale", &T::scale, "1", "factor on each element: (x * scale - mean) / std"},
            Field{"mean", &T::mean, "none",
                  "number to subtract after scaling, or one per leading channel, or learn"},
            Field{"std", &T::std, "none",
                  "number to divide by after subtracting the mean, or one per leading channel, or "
                  "learn",
                  kPositive}}};
  }
};

/// A part of a dataset that `split` takes out.
struct SplitPart {
  std::string name;
  double fraction = 0;
};

struct Split {
  enum class Take : uint8_t { kRandom, kLast };

  std::vector<SplitPart> parts;
  int64_t seed = 0;
  Take take = Take::kRandom;
  std::string by, group;  // columns, or empty

  /// The keys next to the names of the parts.
  static constexpr auto record() {
    using T = Split;
    return Record{
        "split", "Parts of a dataset.", "",
        std::tuple{
            Field{"seed", &T::seed, "0", "random seed of the split", kCount},
            Field{"take", &T::take, "random", "random rows, or the last ones"},
            Field{"by", &T::by, "none",
                  "column of categories or integers that have the same fractions in each part",
                  Bounds{}, TextForm::kTextOrNone},
            Field{"group", &T::group, "none", "column whose equal values stay together", Bounds{},
                  TextForm::kTextOrNone}}};
  }
};

/// The fraction of the rows that a part has.
inline constexpr Bounds kFraction{.below = 1, .above = 0};

struct Mix {
  double mixup = 0, cutmix = 0;      // the parameter of the beta distribution; 0: not used
  std::vector<std::string> columns;  // the first is the image

  static constexpr auto record() {
    using T = Mix;
    constexpr Bounds kBeta{.min = 0.05, .max = 4};
    return Record{
        "mix", "Mixes pairs of rows in train jobs.", "",
        std::tuple{
            Field{"mixup", &T::mixup, "none",
                  "parameter a of the distribution Beta(a, a) of the share of each row", kBeta},
            Field{"cutmix", &T::cutmix, "none",
                  "parameter a of Beta(a, a), which determines the box that comes from the "
                  "other image",
                  kBeta},
            Field{"columns", &T::columns, "",
                  "columns to mix, the image first, then its labels with `one_hot`"}}};
  }
};

struct Dataset {
  enum class OnBadRow : uint8_t { kFail, kSkip };

  std::string name;
  /// The columns that the job reads, and those that determine which rows the dataset has.
  std::vector<Column> columns;
  OnBadRow on_bad_row = OnBadRow::kFail;
  std::optional<int64_t> max_bad_rows;
  std::optional<Split> split;
  std::string cache;  // a folder, or empty
  std::optional<Mix> mix;
  std::string where;

  /// The keys of `options`, except for `split` and `like`.
  static constexpr auto record() {
    using T = Dataset;
    return Record{
        "options", "Options of a dataset.", "",
        std::tuple{
            Field{"on_bad_row", &T::on_bad_row, "fail",
                  "fail: the run fails at a bad row; skip: rows that are bad in any column are "
                  "left out"},
            Field{"max_bad_rows", &T::max_bad_rows, "none",
                  "number of bad rows to skip before the run fails", kCount},
            Field{"cache", &T::cache, "none",
                  "folder for decoded rows, which later runs read instead of the files", Bounds{},
                  TextForm::kTextOrNone},
            Field{"mix", &T::mix, "none", "mixes pairs of rows of a batch in train jobs"}}};
  }
};

/// The order in which an epoch reads rows, other than their own.
struct ShuffleBuffer {
  int64_t buffer = 0;
  bool files = false;

  static constexpr auto record() {
    using T = ShuffleBuffer;
    return Record{
        "shuffle", "Shuffles through a buffer.", "",
        std::tuple{Field{"buffer", &T::buffer, "", "number of rows in the buffer",
                         Bounds{.min = 1, .max = kMostExtent}},
                   Field{"files", &T::files, "false", "shuffle the order of the files first"}}};
  }
};

struct Sampling {
  enum class Kind : uint8_t { kUniform, kWeights, kBalance };

  Kind kind = Kind::kUniform;
  std::string dataset, part, column;  // of weights and balance
  int64_t epoch_rows = 0;             // 0: the number of rows
};

template <>
struct EnumNames<SourceKind> {
  static constexpr std::array<std::string_view, 9> words = {
      "idx", "npy", "npz", "csv", "bin", "text", "safetensors", "tar", "images"};
};
template <>
struct EnumNames<Split::Take> {
  static constexpr std::array<std::string_view, 2> words = {"random", "last"};
};
template <>
struct EnumNames<Dataset::OnBadRow> {
  static constexpr std::array<std::string_view, 2> words = {"fail", "skip"};
};
template <>
struct EnumNames<Sampling::Kind> {
  static constexpr std::array<std::string_view, 3> words = {"uniform", "weights", "balance"};
};

}  // namespace flow::plan
