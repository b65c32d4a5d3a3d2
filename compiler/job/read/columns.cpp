// Reads the columns of datasets.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

using plan::CellType;
using plan::SourceKind;

/// Returns a hint for [0, 100], "0:100", "0-100" and the like.
std::string hint_for_rows(const yaml::Node& node) {
  std::vector<std::string> ends;
  for (const yaml::Node& item : node.items) ends.push_back(item.scalar);
  if (node.is_scalar())
    for (const char between : {':', '-', ','})
      if (ends.size() < 2) ends = split(node.scalar, between);
  if (ends.size() == 1) ends.insert(ends.begin(), "0");
  const std::string range = join(ends, "..");
  return ends.size() == 2 && parse_range(range) ? fmt::format("write `{}`", range)
                                                : "write `0..50000` for rows 0 to 49999";
}

/// Reads a range, or a list of ranges. Some of them can be empty, because a fold can begin with the
/// held-out rows.
void read_rows(const Fields& fields, Column& column) {
  const yaml::Node* node = fields.find("rows");
  if (!node) return;
  Reader& reader = fields.reader();
  for (const yaml::Node& item : yaml::each_of(*node)) {
    if (!reader.expect(item, yaml::Kind::kScalar, "`rows`", hint_for_rows(item))) return;
    const auto range = parse_range(item.scalar);
    if (!range || range->first < 0 || range->second < range->first) {
      const bool ends = node->is_list() && parse_integer(item.scalar);  // such as [0, 100]
      reader.error(Diagnosis::kRowRange, item, "invalid range of rows `{}`", item.scalar)
          .with_hint(hint_for_rows(ends ? *node : item));
      return;
    }
    if (range->first < range->second) column.plan.rows.push_back(*range);
  }
  if (column.plan.rows.empty())
    reader.error(Diagnosis::kRowRange, *node, "`rows` selects no rows")
        .with_hint(hint_for_rows(*node));
}

/// Reads the paths: one, or a list.
void read_files(const Fields& fields, plan::Column& column) {
  Reader& reader = fields.reader();
  const std::string_view format = plan::enum_name(column.source);
  for (const std::string_view other : plan::EnumNames<SourceKind>::words) {
    if (other == format || !fields.find(other)) continue;
    reader
        .error(Diagnosis::kBadColumn, fields.key_span(other),
               "column `{}` has both `{}` and `{}`; expected one of them", column.name, format,
               other)
        .label(fields.key_span(format), "also set here");
  }
  const auto files =
      read_globs(reader, *fields.find(format), fmt::format("`{}`", format), "a path");
  for (const Name& file : files.value_or(std::vector<Name>())) column.files.push_back(file.text);
}

void read_array(const Fields& fields, plan::Column& column) {
  if (!fields.has("array")) return;
  const std::string_view format = plan::enum_name(column.source);
  if (fields.find("array"))
    column.array = fields.text("array").value_or("");
  else
    fields.reader()
        .error(Diagnosis::kBadColumn, fields.key_span(format),
               "column `{}` requires `array` with `{}`", column.name, format)
        .with_hint(column.source == SourceKind::kNpz
                       ? "add `array: NAME`, the name given to numpy.savez"
                       : "add `array: NAME`, the name of a tensor in the file");
}

/// Reads the groups of keys that the source and the type of the cells have.
void read_groups(const Fields& fields, std::optional<CellType> type, plan::Column& column) {
  const auto read = [&](auto& group) { read_record(fields, group.emplace()); };
  if (column.source == SourceKind::kCsv) read(column.csv);
  if (column.source == SourceKind::kBin) read(column.bin);
  if (column.source == SourceKind::kTar) read(column.tar);
  if (has_cells(column.source)) read(column.cell);
  if (type) column.cell->type = *type;
  if (type == CellType::kText) read(column.text);
  if (type == CellType::kImage || column.source == SourceKind::kImages) read(column.image);
  if (type == CellType::kCategory && !column.cell->categories) column.cell->categories.emplace();
  const yaml::Node* window = fields.find("window");
  if (!window) return;
  const Fields own(fields.reader(), *window, fields.key_span("window"), kWindowSection);
  read_record(own, column.window.emplace());
  if (column.window->stride == 0) column.window->stride = column.window->length;
}

/// Returns true if a run learns a value of the column.
bool learns(const plan::Column& column) {
  using Kind = plan::Replacement::Kind;
  const bool learned_cells =
      column.cell &&
      (column.cell->missing.kind == Kind::kMean || column.cell->missing.kind == Kind::kMedian ||
       (column.cell->categories &&
        column.cell->categories->kind == plan::Categories::Kind::kLearned));
  const bool learned_tokens = column.text &&
                              column.text->tokenizer.kind == plan::Tokenizer::Kind::kCharacters &&
                              column.text->tokenizer.characters.empty();
  return column.mean.learn || column.std.learn || learned_cells || learned_tokens;
}

/// Checks the lists of `mean` and `std` if the shape of a source row is known.
void check_channel_lists(const Fields& fields, Column& column) {
  for (const auto& [key, channels, span] :
       {std::tuple("mean", &column.plan.mean, &column.mean_span),
        {"std", &column.plan.std, &column.std_span}}) {
    const yaml::Node* node = fields.find(key);
    if (!node) continue;
    *span = node->span;
    if (!node->is_list() || !column.row.is_exact()) continue;
    if (check_channels(fields.reader(), key, *span, channels->values.size(),
                       column.plan.source_row_shape()))
      channels->values.clear();
  }
}

/// Returns the position of the key that determines the shape of a row.
Span row_span(const Fields& fields) {
  for (const std::string_view key : {"shape", "one_hot", "length", "size", "columns", "window"})
    if (const yaml::Node* node = fields.find(key)) return node->span;
  return fields.owner();
}

}  // namespace

Diag* check_channels(Reader& reader, std::string_view key, Span span, size_t values,
                     const Shape& row) {
  if (row.rank() > 0 && row[0] == static_cast<int64_t>(values)) return nullptr;
  const std::string expected =
      row.rank() > 0 && row[0] != 1 ? fmt::format("1 or {}", row[0]) : std::string("1");
  return &reader
              .error(Diagnosis::kBadColumn, span,
                     "`{}` has {} values for rows of shape {}; expected {}", key, values, row.str(),
                     expected)
              .with_hint("write one number, or one for each leading channel");
}

Column read_column(Reader& reader, const MergedColumn& merged) {
  Column column;
  column.plan.name = merged.name.text;
  column.plan.where = reader.sources.where(merged.name.span);
  column.span = merged.name.span;
  if (!merged.source) return column;
  column.plan.source = *merged.source;
  const Fields fields(reader, merged.keys, merged.name.span, "a column",
                      column_keys(*merged.source, merged.type));
  if (has_cells(*merged.source) && !merged.type) {
    reader
        .error(Diagnosis::kMissingKey, merged.name.span, "column `{}` requires `type`",
               merged.name.text)
        .with_hint("only the fields png, jpg, jpeg, cls, npy, txt and json imply a type");
    return column;
  }
  read_files(fields, column.plan);
  read_array(fields, column.plan);
  std::optional<Shape> shape;
  if (const yaml::Node* node = fields.find("shape")) shape = read_shape(reader, *node, "`shape`");
  read_record(fields, column.plan);
  read_rows(fields, column);
  read_groups(fields, merged.type, column.plan);
  check_column(fields, column.plan);
  column.row = row_form(column.plan, shape);
  column.span = row_span(fields);
  if (column.row.is_exact()) {
    std::vector<int64_t> extents;
    for (const auto& extent : column.row.extents) extents.push_back(*extent);
    column.plan.row_shape = Shape(extents);
  }
  check_channel_lists(fields, column);
  if (learns(column.plan)) column.plan.learned_from = merged.learned_from;
  return column;
}

}  // namespace flow::job
