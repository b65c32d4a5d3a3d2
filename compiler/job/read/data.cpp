// `data:`: datasets, their columns, and how a row of a file becomes a row of an input.
#include <fmt/format.h>

#include "compiler/job/read/sections.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// `mean` or `std`: one number or one per leading channel. `span`: set to their place.
std::vector<double> read_channels(const Fields& fields, std::string_view key, const Column& column,
                                  Span& span) {
  Reader& reader = fields.reader();
  const yaml::Node* node = fields.find(key);
  if (!node) return {};
  const auto values =
      read_numbers(reader, *node, fmt::format("`{}`", key), fields.definition(key).bounds);
  if (!values) return {};
  span = node->span;
  const bool one = values->size() == 1 && !node->is_list();
  if (!one && column.has_shape &&
      check_channels(reader, key, span, values->size(), column.plan.row_shape))
    return {};
  if (values->empty())
    reader.error(Diagnosis::kBadColumn, *node, fmt::format("`{}` is empty; expected numbers", key));
  return *values;
}

/// For [0, 100], "0:100", "0-100" and the like.
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

/// A range, or a list of ranges. Some can be empty: a fold can begin with the held-out rows.
void read_rows(const Fields& fields, Column& column) {
  const yaml::Node* node = fields.find("rows");
  if (!node) return;
  Reader& reader = fields.reader();
  for (const yaml::Node& item : yaml::each_of(*node)) {
    if (!reader.expect(item, yaml::Kind::kScalar, "`rows`", hint_for_rows(item))) return;
    const auto range = parse_range(item.scalar);
    if (!range || range->first < 0 || range->second < range->first) {
      const bool ends = node->is_list() && parse_integer(item.scalar);  // [0, 100]
      reader
          .error(Diagnosis::kRowRange, item, fmt::format("invalid range of rows `{}`", item.scalar))
          .with_hint(hint_for_rows(ends ? *node : item));
      return;
    }
    if (range->first < range->second) column.plan.rows.push_back(*range);
  }
  if (column.plan.rows.empty())
    reader.error(Diagnosis::kRowRange, *node, "`rows` selects no rows")
        .with_hint(hint_for_rows(*node));
}

/// `idx:`, `npy:` or `npz:` with `array:`.
void read_file_of(const Fields& fields, Column& column) {
  Reader& reader = fields.reader();
  std::vector<std::string> formats;
  for (const char* format : {"idx", "npy", "npz"})
    if (fields.find(format)) formats.emplace_back(format);
  if (formats.empty()) {
    if (fields.is_mapping())
      reader
          .error(Diagnosis::kBadColumn, fields.owner(),
                 fmt::format("column `{}` has no file", column.plan.name))
          .with_hint("add `idx: PATH`, `npy: PATH` or `npz: PATH`");
    return;
  }
  if (formats.size() > 1)
    reader
        .error(Diagnosis::kBadColumn, fields.key_span(formats[1]),
               fmt::format("column `{}` has both `{}` and `{}`; expected one of them",
                           column.plan.name, formats[0], formats[1]))
        .label(fields.key_span(formats[0]), "also set here");
  column.plan.format = formats[0];
  column.plan.path = fields.text(formats[0]).value_or("");
  const bool npz = fields.find("npz") != nullptr;
  if (const yaml::Node* array = fields.find("array"); array && npz)
    column.plan.array = fields.text("array").value_or("");
  else if (array)
    reader.error(Diagnosis::kBadColumn, fields.key_span("array"),
                 fmt::format("`array` requires `npz`, not `{}`", formats[0]));
  else if (npz)
    reader
        .error(Diagnosis::kBadColumn, fields.key_span("npz"),
               fmt::format("column `{}` requires `array` with `npz`", column.plan.name))
        .with_hint("add `array: NAME`, the name given to numpy.savez");
}

Column read_column(Reader& reader, const yaml::Entry& entry) {
  Column column;
  column.plan.name = entry.key;
  column.plan.where = reader.sources.where(entry.key_span);
  column.span = entry.key_span;
  const Fields fields(reader, entry.value, entry.key_span, column_section());
  read_file_of(fields, column);
  if (const yaml::Node* shape = fields.find("shape")) {
    if (const auto read = read_shape(reader, *shape, "`shape`")) {
      column.plan.row_shape = *read;
      column.has_shape = true;
      column.span = shape->span;
    }
  }
  column.plan.scale = *fields.number("scale");
  column.plan.mean = read_channels(fields, "mean", column, column.mean_span);
  column.plan.std = read_channels(fields, "std", column, column.std_span);
  read_rows(fields, column);
  return column;
}

}  // namespace

Diag* check_channels(Reader& reader, std::string_view key, Span span, size_t values,
                     const Shape& row) {
  if (row.rank() > 0 && row[0] == static_cast<int64_t>(values)) return nullptr;
  const std::string expected =
      row.rank() > 0 && row[0] != 1 ? fmt::format("1 or {}", row[0]) : std::string("1");
  return &reader
              .error(Diagnosis::kBadColumn, span,
                     fmt::format("`{}` has {} values for rows of shape {}; expected {}", key,
                                 values, row.str(), expected))
              .with_hint("write one number, or one for each leading channel");
}

std::optional<std::pair<int64_t, int64_t>> parse_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string_view behind = text.substr(dots + 2);
  const auto first = parse_bound(text.substr(0, dots));
  const auto end = behind.empty() ? std::optional(Hook::kForever) : parse_bound(behind);
  if (!first || !end) return {};
  return std::pair{*first, *end};
}

std::vector<Dataset> read_data(Reader& reader, const yaml::Node& node) {
  std::vector<Dataset> datasets;
  if (!reader.expect(node, yaml::Kind::kMapping, "`data`")) return datasets;
  for (const yaml::Entry& entry : node.entries) {
    if (reader.take_note(entry)) continue;
    Dataset& dataset = datasets.emplace_back(Dataset{{entry.key, entry.key_span}, {}});
    reader.check_name(dataset.name);
    if (!reader.expect(entry.value, yaml::Kind::kMapping, "a dataset")) continue;
    for (const yaml::Entry& column : entry.value.entries) {
      if (reader.take_note(column)) continue;
      reader.check_name({column.key, column.key_span});
      dataset.columns.push_back(read_column(reader, column));
    }
    if (dataset.columns.empty())
      reader.error(Diagnosis::kBadColumn, entry.key_span,
                   fmt::format("dataset `{}` has no columns", entry.key));
  }
  return datasets;
}

}  // namespace flow::job
