// How the cells of a data file become the rows of a column. Each group of keys that only some
// sources have is a record, and each value that has several forms in a job file is a struct.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "runtime/plan/model/augment.h"
#include "runtime/plan/model/record.h"

namespace flow::plan {

/// The limits for extents of rows, for numbers of rows and bytes, and for ids.
inline constexpr double kMostExtent = 0x7fffffff, kMostRows = 0x1p48;
inline constexpr Bounds kExtent{.min = 1, .max = kMostExtent}, kCount{.min = 0, .max = kMostRows},
    kPositiveCount{.min = 1, .max = kMostRows}, kId{.min = 0, .max = kMostExtent};

/// `mean` or `std`: no value, one, one per leading channel, or a value that the run learns.
struct Channels {
  std::vector<double> values;
  bool learn = false;

  bool empty() const { return values.empty() && !learn; }
  explicit operator bool() const { return !empty(); }
  bool operator==(const Channels&) const = default;
};

/// The keys of a column of a CSV file.
struct CsvFormat {
  enum class Encoding : uint8_t { kUtf8, kLatin1 };

  std::string column;                // a header name, or an index; empty if `columns` is set
  std::vector<std::string> columns;  // names and globs, or indices and ranges
  std::string delimiter = ",";
  std::string quote = "\"";  // one character, or empty for none
  bool header = true;
  std::string comment;  // empty for none
  int64_t skip = 0;
  bool trim = false;
  Encoding encoding = Encoding::kUtf8;
  std::string decimal = ".";
  std::string thousands;  // one character, or empty for none

  static constexpr auto record() {
    using T = CsvFormat;
    return Record{
        "csv", "A column of a CSV file.", "",
        std::tuple{
            Field{"column", &T::column, "none",
                  "name in the header, or index from 0 if the file has no header; default: the "
                  "name of the column here"},
            Field{"columns", &T::columns, "none",
                  "list of columns that form one row: names and globs, or indices and ranges such "
                  "as 4..8 if the file has no header"},
            Field{"delimiter", &T::delimiter, ",", "character between fields; \"\\t\" for tabs",
                  Bounds{}, TextForm::kCharacter},
            Field{"quote", &T::quote, "\"", "character around fields with delimiters, or none",
                  Bounds{}, TextForm::kCharacterOrNone},
            Field{"header", &T::header, "true", "the first record contains the names of columns"},
            Field{"comment", &T::comment, "none",
                  "beginning of lines to skip, such as \"#\", at the start of a record", Bounds{},
                  TextForm::kTextOrNone},
            Field{"skip", &T::skip, "0", "number of lines to skip at the start of each file",
                  kCount},
            Field{"trim", &T::trim, "false", "remove spaces and tabs around fields"},
            Field{"encoding", &T::encoding, "utf-8", "encoding of the file: utf-8 or latin-1"},
            Field{"decimal", &T::decimal, ".", "decimal mark of numbers", Bounds{},
                  TextForm::kCharacter},
            Field{"thousands", &T::thousands, "none",
                  "mark between groups of three digits before the decimal mark", Bounds{},
                  TextForm::kCharacterOrNone}}};
  }
};

/// How a text becomes the value of a cell: a field of a CSV file or a member of a tar file.
enum class CellType : uint8_t { kNumber, kInteger, kBool, kCategory, kText, kImage, kNpy };

/// The value of a missing cell, or the category of an unknown one.
struct Replacement {
  enum class Kind : uint8_t { kError, kMean, kMedian, kExtra, kNumber, kCategory };
  Kind kind = Kind::kError;
  double number = 0;
  std::string category;

  bool operator==(const Replacement&) const = default;
};

/// The values of a category column, whose positions are their ids.
struct Categories {
  enum class Kind : uint8_t { kListed, kFile, kLearned };
  Kind kind = Kind::kLearned;
  std::vector<std::string> names;  // if listed
  std::string file;                // one category a line
};

/// How a cell is parsed. Columns of csv, tar, text and images have these rules; the type is kText
/// for text, and kImage or kCategory for images.
struct CellRules {
  CellType type = CellType::kNumber;
  Replacement missing;
  std::optional<std::vector<std::string>> missing_values;
  std::optional<Categories> categories;  // of a category column
  int64_t max_categories = 0;            // 0: all
  Replacement unknown;                   // kError, kExtra or kCategory
  int64_t one_hot = 0;                   // 0: none

  static constexpr auto record() {
    using T = CellRules;
    return Record{
        "cell", "The rules for the cells of a column.", "",
        std::tuple{
            Field{"type", &T::type, "number",
                  "type of the cells; `categories` implies category, and `tokenizer` text"},
            Field{"missing", &T::missing, "error",
                  "value of missing cells: a number, a category, or mean, median, extra; error: "
                  "the row is bad; {category: mean} for a category of that name"},
            Field{"missing_values", &T::missing_values, "none",
                  "list of fields that mean a missing value, next to the empty field; default for "
                  "numbers: na, n/a, nan, null, none, ? in any case"},
            Field{"categories", &T::categories, "none",
                  "list of categories whose positions are the ids, {lines: FILE}, or learn"},
            Field{"max_categories", &T::max_categories, "none",
                  "number of the most frequent categories to learn; requires `unknown`", kExtent},
            Field{"unknown", &T::unknown, "error",
                  "category of values that are not listed, or extra for an id of their own; error: "
                  "the row is bad"},
            Field{"one_hot", &T::one_hot, "none",
                  "length of a row with 1 at the position of the id and 0 elsewhere", kExtent}}};
  }
};

/// The keys of a file of raw numbers.
struct BinFormat {
  enum class Endian : uint8_t { kLittle, kBig };

  std::string dtype;  // the name of an element type, such as "uint16"
  Endian endian = Endian::kLittle;
  int64_t offset = 0;

  static constexpr auto record() {
    using T = BinFormat;
    return Record{"bin", "A file of raw numbers.", "",
                  std::tuple{Field{"dtype", &T::dtype, "", "type of the numbers in the file",
                                   Bounds{}, TextForm::kElementType},
                             Field{"endian", &T::endian, "little", "byte order of the numbers"},
                             Field{"offset", &T::offset, "0",
                                   "number of bytes to skip at the start of each file", kCount}}};
  }
};

struct Tokenizer {
  enum class Kind : uint8_t { kBytes, kCharacters, kBytePairs, kJson };
  Kind kind = Kind::kBytes;
  std::string characters;            // the characters in order of their ids; empty: learned
  std::string vocab, merges;         // files of kBytePairs
  std::string json;                  // the file of kJson
  std::vector<std::string> special;  // of kBytePairs
};

/// The keys of a column of tokens.
struct TextFormat {
  enum class Take : uint8_t { kIds, kLengths };
  enum class Truncate : uint8_t { kEnd, kStart, kError };
  enum class Side : uint8_t { kRight, kLeft };

  Tokenizer tokenizer;
  bool lines = false;  // a row is a line; false: one stream of ids
  Take take = Take::kIds;
  std::optional<int64_t> begin, end;  // ids that are added to each row or file
  int64_t length = 0;                 // ids of a row; 0: not given
  Truncate truncate = Truncate::kEnd;
  int64_t pad = 0;
  Side pad_side = Side::kRight;

  static constexpr auto record() {
    using T = TextFormat;
    return Record{
        "text", "A column of tokens.", "",
        std::tuple{
            Field{"tokenizer", &T::tokenizer, "bytes",
                  "bytes, characters, {characters: TEXT}, {vocab: FILE, merges: FILE} or {json: "
                  "FILE}"},
            Field{"lines", &T::lines, "false",
                  "read one row per line; false: one stream of tokens for `window`"},
            Field{"take", &T::take, "ids", "ids of the tokens, or lengths: their number in a row"},
            Field{"begin", &T::begin, "none", "id to put before each row, or each file of a stream",
                  kId},
            Field{"end", &T::end, "none", "id to put after each row, or each file of a stream",
                  kId},
            Field{"length", &T::length, "none", "number of ids in a row", kExtent},
            Field{"truncate", &T::truncate, "end",
                  "side of a longer row to cut; error: the row is bad"},
            Field{"pad", &T::pad, "0", "id to fill shorter rows with",
                  Bounds{.min = -kMostExtent, .max = kMostExtent}},
            Field{"pad_side", &T::pad_side, "right", "side of a shorter row to fill"}}};
  }
};

/// The keys of a field of the samples in tar files.
struct TarFormat {
  std::vector<std::string> field;  // names of fields, of which the first that is present is read
  std::string pointer;             // a JSON pointer into a field `json`

  static constexpr auto record() {
    using T = TarFormat;
    return Record{"tar", "A field of the samples in tar files.", "",
                  std::tuple{Field{"field", &T::field, "",
                                   "extension of the field, such as jpg, or list: the first that "
                                   "a sample has"},
                             Field{"pointer", &T::pointer, "none",
                                   "place of the value in a json field, such as /a/b", Bounds{},
                                   TextForm::kTextOrNone}}};
  }
};

/// The size to which images are decoded.
struct ImageSize {
  int64_t height = 0, width = 0;  // of the result; 0: unchanged
  int64_t shorter = 0;            // the length of the shorter side instead
  explicit operator bool() const { return height > 0 || shorter > 0; }
};

/// The keys of a column of images.
struct ImageFormat {
  enum class Take : uint8_t { kImage, kClass };
  enum class Fit : uint8_t { kCrop, kStretch, kPad };
  enum class Orientation : uint8_t { kExif, kIgnore };
  enum class Channels : uint8_t { kRgb, kGrey, kRgba };

  Take take = Take::kImage;  // of a folder of images
  ImageSize size;
  Fit fit = Fit::kCrop;
  int64_t fill = 0;
  ImageFilter filter = ImageFilter::kBilinear;
  Orientation orientation = Orientation::kExif;
  Channels channels = Channels::kRgb;
  std::optional<std::array<int64_t, 3>> background;
  int64_t bits = 8;
  int64_t max_pixels = 100'000'000;
  std::string root;  // the folder of the images that a CSV file names; empty: that of the file
  std::vector<Augment> augment;

  static constexpr auto record() {
    using T = ImageFormat;
    return Record{
        "image", "A column of images.", "",
        std::tuple{
            Field{"take", &T::take, "image", "image, or class: the first folder of its path"},
            Field{"size", &T::size, "none",
                  "size to resize to: N, [height, width], or {short: N} for the shorter side",
                  augments::kSide},
            Field{"fit", &T::fit, "crop",
                  "crop: resize and crop the center; stretch: ignore the aspect ratio; pad: resize "
                  "and fill the sides"},
            Field{"fill", &T::fill, "0", "value of the sides with `fit: pad`",
                  Bounds{.min = 0, .max = 65535}},
            Field{"filter", &T::filter, "bilinear", "filter of the resizing, with antialiasing"},
            Field{"orientation", &T::orientation, "exif",
                  "exif: turn the image as its EXIF data says; ignore: leave it as it is"},
            Field{"channels", &T::channels, "rgb", "channels to convert to"},
            Field{"background", &T::background, "none",
                  "color under transparent pixels, as [red, green, blue]; default: drop the alpha "
                  "channel",
                  Bounds{.min = 0, .max = 255}},
            Field{"bits", &T::bits, "8", "8, or 16 for PNG files with 16 bits per sample",
                  Bounds{.min = 8, .max = 16}},
            Field{"max_pixels", &T::max_pixels, "100000000",
                  "largest number of pixels of an image; a larger one makes a bad row",
                  Bounds{.min = 1, .max = 0x1p32}},
            Field{"root", &T::root, "none",
                  "folder that the paths in the file are relative to; default: that of the file",
                  Bounds{}, TextForm::kTextOrNone},
            Field{"augment", &T::augment, "none",
                  "list of ops that change each image at random in train jobs"}}};
  }
};

/// Returns what a job file determines about the images before their augmentation.
inline AugmentedRows rows_before_augment(const ImageFormat& image) {
  using enum ImageFormat::Channels;
  AugmentedRows rows{.channels = image.channels == kGrey  ? 1
                                 : image.channels == kRgb ? 3
                                                          : 4,
                     .size = {},
                     .uint8 = image.bits == 8};
  if (image.size.height > 0) rows.size = {image.size.height, image.size.width};
  return rows;
}

/// Row i has the source rows [i * stride + shift, i * stride + shift + length).
struct Window {
  int64_t length = 0, stride = 0, shift = 0;

  static constexpr auto record() {
    using T = Window;
    return Record{
        "window", "Rows of several neighboring source rows.", "",
        std::tuple{
            Field{"length", &T::length, "", "number of source rows in a row", kExtent},
            Field{"stride", &T::stride, "none",
                  "distance between the starts of two rows; default: `length`", kPositiveCount},
            Field{"shift", &T::shift, "0", "number of source rows before the first row", kCount}}};
  }
};

template <>
struct EnumNames<CsvFormat::Encoding> {
  static constexpr std::array<std::string_view, 2> words = {"utf-8", "latin-1"};
};
template <>
struct EnumNames<CellType> {
  static constexpr std::array<std::string_view, 7> words = {"number", "integer", "bool", "category",
                                                            "text",   "image",   "npy"};
};
template <>
struct EnumNames<Replacement::Kind> {
  static constexpr std::array<std::string_view, 6> words = {"error", "mean",   "median",
                                                            "extra", "number", "category"};
};
template <>
struct EnumNames<Categories::Kind> {
  static constexpr std::array<std::string_view, 3> words = {"list", "lines", "learn"};
};
template <>
struct EnumNames<BinFormat::Endian> {
  static constexpr std::array<std::string_view, 2> words = {"little", "big"};
};
template <>
struct EnumNames<Tokenizer::Kind> {
  static constexpr std::array<std::string_view, 4> words = {"bytes", "characters", "merges",
                                                            "json"};
};
template <>
struct EnumNames<TextFormat::Take> {
  static constexpr std::array<std::string_view, 2> words = {"ids", "lengths"};
};
template <>
struct EnumNames<TextFormat::Truncate> {
  static constexpr std::array<std::string_view, 3> words = {"end", "start", "error"};
};
template <>
struct EnumNames<TextFormat::Side> {
  static constexpr std::array<std::string_view, 2> words = {"right", "left"};
};
template <>
struct EnumNames<ImageFormat::Take> {
  static constexpr std::array<std::string_view, 2> words = {"image", "class"};
};
template <>
struct EnumNames<ImageFormat::Fit> {
  static constexpr std::array<std::string_view, 3> words = {"crop", "stretch", "pad"};
};
template <>
struct EnumNames<ImageFormat::Orientation> {
  static constexpr std::array<std::string_view, 2> words = {"exif", "ignore"};
};
template <>
struct EnumNames<ImageFormat::Channels> {
  static constexpr std::array<std::string_view, 3> words = {"rgb", "grey", "rgba"};
};

}  // namespace flow::plan
