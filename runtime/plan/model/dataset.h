// Datasets of a job file: where the rows of each column come from, how they are decoded, and which
// rows form the dataset and its parts. A group of keys that only some sources have is a struct of
// its own, present in a column whose source has these keys.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/plan/model/augment.h"
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

/// `mean` or `std`: no value, one, one per leading channel, or a value that the run learns.
struct Channels {
  std::vector<double> values;
  bool learn = false;

  bool empty() const { return values.empty() && !learn; }
  explicit operator bool() const { return !empty(); }
};

/// The keys of a column of a CSV file.
struct CsvFormat {
  std::string column;                // a header name, or an index; empty if `columns` is set
  std::vector<std::string> columns;  // names and globs, or indices and ranges
  std::string delimiter = ",";
  std::string quote = "\"";  // one character, or empty for none
  bool header = true;
  std::string comment;  // empty for none
  int64_t skip = 0;
  bool trim = false;
  enum class Encoding : uint8_t { kUtf8, kLatin1 } encoding = Encoding::kUtf8;
  std::string decimal = ".";
  std::string thousands;  // one character, or empty for none
};

/// How a text becomes the value of a cell: a field of a CSV file or a member of a tar file.
enum class CellType : uint8_t { kNumber, kInteger, kBool, kCategory, kText, kImage, kNpy };

/// The value of a missing cell, or the category of an unknown one.
struct Replacement {
  enum class Kind : uint8_t { kError, kMean, kMedian, kExtra, kNumber, kCategory };
  Kind kind = Kind::kError;
  double number = 0;
  std::string category;
};

/// The values of a category column, whose positions are their ids.
struct Categories {
  enum class Kind : uint8_t { kListed, kFile, kLearned };
  Kind kind = Kind::kLearned;
  std::vector<std::string> names;  // if listed
  std::string file;                // one category a line
};

struct CellRules {
  CellType type = CellType::kNumber;
  Replacement missing;
  std::optional<std::vector<std::string>> missing_values;
  std::optional<Categories> categories;  // of a category column
  int64_t max_categories = 0;            // 0: all
  Replacement unknown;                   // kError, kExtra or kCategory
  int64_t one_hot = 0;                   // 0: none
};

struct BinFormat {
  enum class Endian : uint8_t { kLittle, kBig };
  std::string dtype;  // the name of an element type, such as "uint16"
  Endian endian = Endian::kLittle;
  int64_t offset = 0;
};

struct Tokenizer {
  enum class Kind : uint8_t { kBytes, kCharacters, kBytePairs, kJson };
  Kind kind = Kind::kBytes;
  std::string characters;            // the characters in order of their ids; empty: learned
  std::string vocab, merges;         // files of kBytePairs
  std::string json;                  // the file of kJson
  std::vector<std::string> special;  // of kBytePairs
};

struct TextFormat {
  Tokenizer tokenizer;
  bool lines = false;  // a row is a line; false: one stream of ids
  enum class Take : uint8_t { kIds, kLengths } take = Take::kIds;
  std::optional<int64_t> begin, end;  // ids that are added to each row or file
  int64_t length = 0;                 // ids of a row; 0: not given
  enum class Truncate : uint8_t { kEnd, kStart, kError } truncate = Truncate::kEnd;
  int64_t pad = 0;
  enum class Side : uint8_t { kRight, kLeft } pad_side = Side::kRight;
};

struct TarFormat {
  std::vector<std::string> field;  // names of fields, of which the first that is present is read
  std::string pointer;             // a JSON pointer into a field `json`
};

/// The size to which images are decoded.
struct ImageSize {
  int64_t height = 0, width = 0;  // of the result; 0: unchanged
  int64_t shorter = 0;            // the length of the shorter side instead
  explicit operator bool() const { return height > 0 || shorter > 0; }
};

struct ImageFormat {
  enum class Take : uint8_t { kImage, kClass } take = Take::kImage;  // of a folder of images
  ImageSize size;
  enum class Fit : uint8_t { kCrop, kStretch, kPad } fit = Fit::kCrop;
  int64_t fill = 0;
  ImageFilter filter = ImageFilter::kBilinear;
  enum class Orientation : uint8_t { kExif, kIgnore } orientation = Orientation::kExif;
  enum class Channels : uint8_t { kRgb, kGrey, kRgba } channels = Channels::kRgb;
  std::optional<std::array<int64_t, 3>> background;
  int64_t bits = 8;
  int64_t max_pixels = 100'000'000;
  std::string root;  // the folder of the images that a CSV file names; empty: that of the file
  std::vector<Augment> augment;
};

/// Row i has the source rows [i * stride + shift, i * stride + shift + length).
struct Window {
  int64_t length = 0, stride = 0, shift = 0;
};

/// A column of a dataset: the rows of its files, converted as (x * scale - mean) / std.
struct Column {
  /// The end of a range of rows that includes the last row of the file.
  static constexpr int64_t kToTheLast = std::numeric_limits<int64_t>::max();

  std::string name;
  SourceKind source = SourceKind::kNpy;
  std::vector<std::string> files;    // paths and globs as written in the job file
  std::optional<std::string> array;  // the name of the array in an npz or safetensors file
  Shape row_shape;                   // the shape of one row, as the job sees it
  double scale = 1;
  Channels mean, std;
  std::vector<std::pair<int64_t, int64_t>> rows;  // [first, end); empty: all
  std::optional<CsvFormat> csv;
  std::optional<CellRules> cell;
  std::optional<BinFormat> bin;
  std::optional<TextFormat> text;
  std::optional<TarFormat> tar;
  std::optional<ImageFormat> image;
  std::optional<Window> window;
  /// The column, as "houses.area", whose learned values this one uses. Empty: its own.
  std::string learned_from;
  std::string where;
};

/// A part of a dataset that `split` takes out.
struct SplitPart {
  std::string name;
  double fraction = 0;
};

struct Split {
  std::vector<SplitPart> parts;
  int64_t seed = 0;
  enum class Take : uint8_t { kRandom, kLast } take = Take::kRandom;
  std::string by, group;  // columns, or empty
};

struct Mix {
  double mixup = 0, cutmix = 0;      // the parameter of the beta distribution; 0: not used
  std::vector<std::string> columns;  // the first is the image
};

struct Dataset {
  std::string name;
  std::vector<Column> columns;
  enum class OnBadRow : uint8_t { kFail, kSkip } on_bad_row = OnBadRow::kFail;
  std::optional<int64_t> max_bad_rows;
  std::optional<Split> split;
  std::string cache;  // a folder, or empty
  std::optional<Mix> mix;
  std::string where;
};

/// The order in which an epoch reads rows, other than their own.
struct ShuffleBuffer {
  int64_t buffer = 0;
  bool files = false;
};

struct Sampling {
  enum class Kind : uint8_t { kUniform, kWeights, kBalance } kind = Kind::kUniform;
  std::string dataset, column;  // of weights and balance
  int64_t epoch_rows = 0;       // 0: the number of rows
};

}  // namespace flow::plan
