// Checks the datasets of a job.
#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "runtime/base/names.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/check/check_record.h"

namespace flow::plan {
namespace {

void check_channels(const Column& column, std::string_view what, const Channels& channels,
                    const Bounds& bounds, const Location& location) {
  const Shape row = column.source_row_shape();
  const auto count = row.rank() > 0 ? static_cast<uint64_t>(row[0]) : 1;
  const size_t values = channels.values.size();
  location.require(values <= 1 || values == count,
                   "{} values of `{}` for rows of {}; expected 1, or one per channel", values, what,
                   row.str());
  location.require(!channels.learn || values == 0, "`{}` is learned and has values", what);
  for (const double value : channels.values) check_number(what, value, bounds, location);
}

/// Checks that a column has the groups of keys of its source, and no others.
void check_groups(const Column& column, const Location& location) {
  using enum SourceKind;
  const SourceKind source = column.source;
  const std::string_view format = enum_name(source);
  const auto require = [&](std::string_view group, bool has, bool expected) {
    location.require(has == expected, "format {}: {} `{}`", format,
                     expected ? "missing" : "unexpected", group);
  };
  const bool cells = source == kCsv || source == kTar || source == kText || source == kImages;
  require("array", column.array.has_value(), source == kNpz || source == kSafetensors);
  require("bin", column.bin.has_value(), source == kBin);
  require("csv", column.csv.has_value(), source == kCsv);
  require("tar", column.tar.has_value(), source == kTar);
  require("cell", column.cell.has_value(), cells);
  const CellType type = cells ? column.cell->type : CellType::kNumber;
  require("text", column.text.has_value(), cells && type == CellType::kText);
  require("image", column.image.has_value(), source == kImages || type == CellType::kImage);
  const bool windows = source != kIdx && source != kTar && source != kImages;
  location.require(!column.window || windows, "format {}: unexpected `window`", format);
}

/// Checks that the type of the cells is one that the source has.
void check_type(const Column& column, const Location& location) {
  if (!column.cell) return;
  const CellType type = column.cell->type;
  const auto is = [&](CellType one) { return type == one; };
  const bool good = column.source == SourceKind::kText ? is(CellType::kText)
                    : column.source == SourceKind::kImages
                        ? is(CellType::kImage) || is(CellType::kCategory)
                        : column.source == SourceKind::kTar || !is(CellType::kNpy);
  location.require(good, "format {}: cells of type {}", enum_name(column.source), enum_name(type));
  location.require(is(CellType::kCategory) == column.cell->categories.has_value(),
                   "only categories have a list of them, and require one");
  if (column.source == SourceKind::kImages)
    location.require(is(CellType::kCategory) == (column.image->take == ImageFormat::Take::kClass),
                     "only the classes of images are categories");
}

void check_replacement(std::string_view name, const Replacement& replacement,
                       const Location& location) {
  const bool category = replacement.kind == Replacement::Kind::kCategory;
  location.require(category || replacement.category.empty(), "`{}` has an unexpected category",
                   name);
  check_number(name, replacement.number, {}, location);
}

void check_cells(const CellRules& cell, const Location& location) {
  using Kind = Replacement::Kind;
  check_record(cell, location);
  check_replacement("missing", cell.missing, location);
  check_replacement("unknown", cell.unknown, location);
  const Kind missing = cell.missing.kind, unknown = cell.unknown.kind;
  const bool category = cell.type == CellType::kCategory;
  const bool number = cell.type == CellType::kNumber || cell.type == CellType::kInteger ||
                      cell.type == CellType::kBool;
  const bool numeric =
      missing == Kind::kMean || missing == Kind::kMedian || missing == Kind::kNumber;
  location.require(missing == Kind::kError || (numeric ? number : category),
                   "`missing: {}` for cells of type {}", enum_name(missing), enum_name(cell.type));
  location.require(
      unknown == Kind::kError || ((unknown == Kind::kExtra || unknown == Kind::kCategory) &&
                                  (category || cell.type == CellType::kText)),
      "`unknown: {}` for cells of type {}", enum_name(unknown), enum_name(cell.type));
  location.require(cell.one_hot == 0 || category || cell.type == CellType::kInteger,
                   "`one_hot` for cells of type {}", enum_name(cell.type));
  location.require(cell.max_categories == 0 ||
                       (category && cell.categories->kind == Categories::Kind::kLearned &&
                        unknown != Kind::kError),
                   "`max_categories` requires learned categories and `unknown`");
  if (!category) return;
  const Categories& categories = *cell.categories;
  const bool listed = categories.kind == Categories::Kind::kListed;
  location.require(listed != categories.names.empty() &&
                       (categories.kind == Categories::Kind::kFile) != categories.file.empty(),
                   "categories of kind {} with the values of another kind",
                   enum_name(categories.kind));
  const std::set<std::string_view> distinct(categories.names.begin(), categories.names.end());
  location.require(distinct.size() == categories.names.size(), "a category occurs twice");
}

void check_csv(const CsvFormat& csv, const Location& location) {
  check_record(csv, location);
  location.require(csv.column.empty() != csv.columns.empty(),
                   "expected either `column` or `columns`");
  location.require(csv.delimiter != csv.quote && csv.decimal != csv.thousands,
                   "one character has two meanings");
}

void check_text_format(const Column& column, const Location& location) {
  const TextFormat& text = *column.text;
  check_record(text, location);
  const Tokenizer& tokenizer = text.tokenizer;
  const auto only = [&](Tokenizer::Kind kind, bool has, std::string_view key) {
    location.require(!has || tokenizer.kind == kind, "tokenizer {}: unexpected `{}`",
                     enum_name(tokenizer.kind), key);
  };
  only(Tokenizer::Kind::kCharacters, !tokenizer.characters.empty(), "characters");
  only(Tokenizer::Kind::kBytePairs, !tokenizer.special.empty(), "special");
  const bool pairs = tokenizer.kind == Tokenizer::Kind::kBytePairs;
  location.require(pairs == !tokenizer.vocab.empty() && pairs == !tokenizer.merges.empty() &&
                       (tokenizer.kind == Tokenizer::Kind::kJson) == !tokenizer.json.empty(),
                   "tokenizer {}: expected its files only", enum_name(tokenizer.kind));
  const bool rows = column.source != SourceKind::kText || text.lines;
  location.require(rows != column.window.has_value(),
                   "a stream of tokens requires `window`, and only a stream has one");
  location.require(!rows || text.take == TextFormat::Take::kLengths || text.length > 0,
                   "rows of tokens require `length`");
  const int64_t added = text.begin.has_value() + text.end.has_value();
  location.require(text.length == 0 || text.length >= added,
                   "`length` has no place for `begin` and `end`");
}

void check_image(const Column& column, const Location& location) {
  const ImageFormat& image = *column.image;
  check_record(image, location);
  location.require(image.bits == 8 || image.bits == 16, "bits is {}; expected 8 or 16", image.bits);
  location.require(image.bits == 16 || image.fill <= 255, "fill is {}; expected at most 255",
                   image.fill);
  const ImageSize& size = image.size;
  const auto is_side = [](int64_t side) {
    return side >= 0 && is_within(static_cast<double>(side), augments::kPadding);
  };
  location.require(is_side(size.height) && is_side(size.width) && is_side(size.shorter) &&
                       (size.height > 0) == (size.width > 0) &&
                       (size.height == 0 || size.shorter == 0),
                   "invalid size of images");
  location.require(!column.cell || column.cell->type == CellType::kImage || image.augment.empty(),
                   "`augment` of rows that are not images");
  for (const Augment& op : image.augment)
    std::visit([&](const auto& record) { check_record(record, location); }, op);
  const auto faults = faults_of(image.augment, rows_before_augment(image));
  if (!faults.empty()) location.refuse(faults.front().message);
}

void check_column(const Column& column, const Location& location) {
  const Shape& row = column.row_shape;
  location.require(is_name(column.name), "invalid name");
  check_groups(column, location);
  check_type(column, location);
  location.require(!column.files.empty(), "missing path");
  for (const std::string& file : column.files)
    check_text("files", file, TextForm::kText, false, location);
  location.require(row.rank() < kMaxRank && row.checked_elements().value_or(0) > 0,
                   "invalid row shape {}", row.str());
  check_record(column, location);
  check_channels(column, "mean", column.mean, {}, location);
  check_channels(column, "std", column.std, kPositive, location);
  for (const auto& [first, end] : column.rows)
    location.require(0 <= first && first < end, "invalid rows {}..{}", first, end);
  if (column.csv) check_csv(*column.csv, location);
  if (column.cell) check_cells(*column.cell, location);
  if (column.bin) check_record(*column.bin, location);
  if (column.text) check_text_format(column, location);
  if (column.tar) check_record(*column.tar, location);
  if (column.image) check_image(column, location);
  if (!column.window) return;
  check_record(*column.window, location);
  location.require(column.window->stride >= 1, "`stride` is 0");
}

void check_split(const Dataset& dataset, const Location& location) {
  const Split& split = *dataset.split;
  check_record(split, location);
  location.require(!split.parts.empty(), "a split without parts");
  location.require(split.by.empty() || split.group.empty(), "a split by and with groups");
  double sum = 0;
  std::set<std::string_view> names;
  for (const SplitPart& part : split.parts) {
    location.require(is_name(part.name) && names.insert(part.name).second,
                     "invalid or duplicate part `{}`", part.name);
    check_number(part.name, part.fraction, kFraction, location);
    sum += part.fraction;
  }
  location.require(sum < 1, "the fractions of the parts add up to {}; expected less than 1", sum);
}

void check_options(const Dataset& dataset, const Location& location) {
  const auto require_column = [&](const std::string& name) {
    location.require(std::ranges::count(dataset.columns, name, &Column::name) > 0,
                     "unknown column `{}`", name);
  };
  check_record(dataset, location);
  const Column* window = nullptr;
  for (const Column& column : dataset.columns) {
    if (!column.window) continue;
    if (!window) window = &column;
    location.require(column.window->stride == window->window->stride, "windows of two strides");
  }
  const bool random = dataset.split && dataset.split->take == Split::Take::kRandom;
  location.require(!window || (dataset.on_bad_row == Dataset::OnBadRow::kFail && !random),
                   "windows exclude `on_bad_row: skip` and random splits");
  if (dataset.split) {
    check_split(dataset, location);
    if (!dataset.split->by.empty()) require_column(dataset.split->by);
    if (!dataset.split->group.empty()) require_column(dataset.split->group);
  }
  if (!dataset.mix) return;
  check_record(*dataset.mix, location);
  location.require(dataset.mix->mixup > 0 || dataset.mix->cutmix > 0,
                   "`mix` has neither mixup nor cutmix");
  for (const std::string& name : dataset.mix->columns) require_column(name);
}

}  // namespace

void check_datasets(const Job& job, const Location& location) {
  std::set<std::string_view> names;
  for (const Dataset& dataset : job.datasets) {
    const Location here = location.at("dataset", dataset.name);
    here.require(is_name(dataset.name), "invalid name");
    here.require(names.insert(dataset.name).second, "duplicate name");
    std::set<std::string_view> columns;
    for (const Column& column : dataset.columns) {
      here.require(columns.insert(column.name).second, "duplicate column `{}`", column.name);
      check_column(column, location.at("column", column.name));
    }
    check_options(dataset, here);
  }
}

}  // namespace flow::plan
