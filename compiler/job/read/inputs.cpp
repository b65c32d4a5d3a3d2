// Reads `data:`: datasets, their columns, and the conversion of rows of a file to rows of an input.
// Reads `inputs:` of a job: shapes, dtypes, and the sources of each step's values.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"
#include "compiler/job/text/values.h"
#include "runtime/base/text.h"

namespace flow::job {
namespace {

/// Reads `mean` or `std`: one number, or one for each leading channel. Sets `span` to their
/// position.
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
    reader.error(Diagnosis::kBadColumn, *node, "`{}` is empty; expected numbers", key);
  return *values;
}

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

/// Reads `idx:`, `npy:`, or `npz:` with `array:`.
void read_file_of(const Fields& fields, Column& column) {
  Reader& reader = fields.reader();
  std::vector<std::string> formats;
  for (const char* format : {"idx", "npy", "npz"})
    if (fields.find(format)) formats.emplace_back(format);
  if (formats.empty()) {
    if (fields.is_mapping())
      reader
          .error(Diagnosis::kBadColumn, fields.owner(), "column `{}` has no file", column.plan.name)
          .with_hint("add `idx: PATH`, `npy: PATH` or `npz: PATH`");
    return;
  }
  if (formats.size() > 1)
    reader
        .error(Diagnosis::kBadColumn, fields.key_span(formats[1]),
               "column `{}` has both `{}` and `{}`; expected one of them", column.plan.name,
               formats[0], formats[1])
        .label(fields.key_span(formats[0]), "also set here");
  column.plan.format = formats[0];
  column.plan.path = fields.text(formats[0]).value_or("");
  const bool npz = fields.find("npz") != nullptr;
  if (const yaml::Node* array = fields.find("array"); array && npz)
    column.plan.array = fields.text("array").value_or("");
  else if (array)
    reader.error(Diagnosis::kBadColumn, fields.key_span("array"),
                 "`array` requires `npz`, not `{}`", formats[0]);
  else if (npz)
    reader
        .error(Diagnosis::kBadColumn, fields.key_span("npz"),
               "column `{}` requires `array` with `npz`", column.plan.name)
        .with_hint("add `array: NAME`, the name given to numpy.savez");
}

Column read_column(Reader& reader, const yaml::Entry& entry) {
  Column column;
  column.plan.name = entry.key;
  column.plan.where = reader.sources.where(entry.key_span);
  column.span = entry.key_span;
  const Fields fields(reader, entry.value, entry.key_span, kColumnSection);
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

/// Returns the column that a text such as "mnist_train.images" names, or null after an error.
const Column* find_column(Reader& reader, const yaml::Node& node,
                          const std::vector<Dataset>& datasets) {
  const std::string& text = node.scalar;
  const size_t dot = text.find('.');
  const bool is_file = text.ends_with(".npy");
  if (dot == std::string::npos || is_file) {
    reader
        .error(Diagnosis::kBadSource, node,
               "unknown source `{}`; expected a dataset column, a generator or a file", text)
        .with_hint(is_file ? fmt::format("write the file as `{{npy: {}}}`", text)
                   : find_variant(kGenerators, text)
                       ? fmt::format("write the generator as `{{type: {}}}`", text)
                       : "write `dataset.column`, `{npy: PATH}` or `{type: GENERATOR}`");
    return nullptr;
  }
  const std::string dataset_name = text.substr(0, dot), column_name = text.substr(dot + 1);
  const auto dataset =
      std::ranges::find(datasets, dataset_name, [](const Dataset& d) { return d.name.text; });
  std::vector<std::string> names;
  if (dataset == datasets.end()) {
    for (const Dataset& other : datasets) names.push_back(other.name.text);
    reader.error(Diagnosis::kUnknownDataset, node, "unknown dataset `{}`", dataset_name)
        .with_hint(names.empty() ? "add a `data:` section to the file"
                                 : suggestion(dataset_name, names, "available datasets:"));
    return nullptr;
  }
  for (const Column& column : dataset->columns) {
    if (column.plan.name == column_name) return &column;
    names.push_back(column.plan.name);
  }
  reader
      .error(Diagnosis::kUnknownColumn, node, "unknown column `{}` of dataset `{}`", column_name,
             dataset_name)
      .label(dataset->name.span, "the dataset")
      .with_hint(suggestion(column_name, names, "available columns:"));
  return nullptr;
}

constexpr int64_t kUsualBatch = 100;  // used in hints

/// Checks that the shape of an input is the batch size followed by the shape of a row.
void check_row_shape(Reader& reader, const Input& input, const Column& column,
                     const std::string& source) {
  const Shape& row = column.plan.row_shape;
  const Shape rest = input.shape.from(1);
  if (!column.has_shape || rest == row) return;
  std::vector<int64_t> fits{input.shape[0]};
  fits.insert(fits.end(), row.begin(), row.end());
  const bool lacks_batch = input.shape == row;
  if (lacks_batch) fits[0] = kUsualBatch;
  reader
      .error(Diagnosis::kRowShape, input.shape_span,
             lacks_batch
                 ? fmt::format("`{}` has the shape of one row of `{}`; expected a batch of rows",
                               input.name.text, source)
                 : fmt::format("`{}` has shape {}, but a row of `{}` has shape {}", input.name.text,
                               input.shape.str(), source, row.str()))
      .label(column.span, "the shape of a row")
      .with_hint("write {}`shape: {}`", lacks_batch ? "the batch size first: " : "",
                 Shape(fits).str());
}

void read_column_source(Reader& reader, const yaml::Node& node,
                        const std::vector<Dataset>& datasets, Input& input) {
  const Column* column = find_column(reader, node, datasets);
  if (!column) return;
  const size_t dot = node.scalar.find('.');
  input.source = plan::FromDataset{node.scalar.substr(0, dot), node.scalar.substr(dot + 1)};
  if (input.has_error) return;
  if (input.shape.rank() == 0) {
    reader
        .error(Diagnosis::kRowShape, input.shape_span,
               "`{}` has shape []; expected a batch dimension", input.name.text)
        .with_hint("write the batch size first: `shape: [{}]`", kUsualBatch);
    input.has_error = true;
    return;
  }
  check_row_shape(reader, input, *column, node.scalar);
}

Diagnosis diagnosis_of(plan::GeneratorFault::Kind kind) {
  using Kind = plan::GeneratorFault::Kind;
  if (kind == Kind::kOrder) return Diagnosis::kOutOfRange;
  return kind == Kind::kFractions ? Diagnosis::kBadSource : Diagnosis::kBadGenerator;
}

/// Checks a generator. `node` is the value of `from:`, and `fields` contains the numbers of the
/// generator, except for those in `unread`.
void check_generator(Reader& reader, const yaml::Node& node, const Fields& fields,
                     const plan::FromGenerator& made, const std::set<std::string_view>& unread,
                     const Input& input) {
  // If the dtype is unknown after an error, float64 is used, which causes no error of its own.
  const DType dtype = input.has_error ? DType::kFloat64 : input.dtype;
  for (const plan::GeneratorFault& fault : plan::faults_of(made, dtype, input.shape, unread)) {
    const yaml::Node* number = fault.number.empty() ? nullptr : fields.find(fault.number);
    Diag& diag = reader.error(diagnosis_of(fault.kind), number ? *number : node, fault.message)
                     .with_hint(fault.hint);
    const bool order = fault.kind == plan::GeneratorFault::Kind::kOrder;
    if (input.dtype_span.source != diag.span.source && !order)
      diag.label(input.dtype_span, "`dtype` is set here");
  }
}

void read_generator(Reader& reader, const yaml::Node& node, Input& input) {
  const ParsedVariant given(reader, node, node.span, "`from`", kGenerators);
  if (!given.variant()) return;
  plan::FromGenerator made;
  const auto unread = read_record(given.fields(), *given.variant(), made);
  check_generator(reader, node, given.fields(), made, unread, input);
  input.source = made;
}

void read_source(Reader& reader, const yaml::Node& node, const std::vector<Dataset>& datasets,
                 Input& input) {
  input.from_span = node.span;
  if (node.is_scalar()) return read_column_source(reader, node, datasets, input);
  if (node.is_mapping() && node.find("type")) return read_generator(reader, node, input);
  if (node.is_mapping() && node.find("npy")) {
    const Fields fields(reader, node, node.span, kNpySection);
    if (const auto path = fields.text("npy")) input.source = plan::FromNpy{*path};
    return;
  }
  reader
      .error(Diagnosis::kBadSource, node,
             "unknown source; expected a dataset column, a generator or a file")
      .with_hint("write `dataset.column`, `{npy: PATH}` or `{type: random_uniform}`");
}

/// Reads the smallest and the largest value of an input of integers.
void read_range(Reader& reader, const yaml::Node& node, Input& input) {
  const auto bounds = read_integers(reader, node, "`range`");
  if (!bounds) return;
  if (bounds->size() != 2 || bounds->front() > bounds->back())
    reader.error(Diagnosis::kInputRange, node, "invalid `range`; expected [smallest, largest]")
        .with_hint("write two integers, such as `range: [0, 9]`");
  else if (!input.has_error && !is_integer(input.dtype))
    reader
        .error(Diagnosis::kInputRange, node, "unexpected `range` for {}; expected integers",
               name_of(input.dtype))
        .with_hint("remove it, or use a dtype such as int32");
  else
    input.range = {bounds->front(), bounds->back()};
}

Input read_input(Reader& reader, const yaml::Entry& entry, const std::vector<Dataset>& datasets) {
  Input input;
  input.name = {entry.key, entry.key_span};
  reader.check_name(input.name);
  const Fields fields(reader, entry.value, entry.key_span, kInputSection);
  const yaml::Node *shape = fields.require("shape"), *dtype = fields.require("dtype");
  const auto read_extents = shape ? read_shape(reader, *shape, "`shape`") : std::nullopt;
  const auto read_type = dtype ? read_dtype(reader, *dtype, "`dtype`") : std::nullopt;
  input.has_error = !read_extents || !read_type;
  input.shape = read_extents.value_or(Shape{});
  input.dtype = read_type.value_or(DType::kFloat32);
  input.dtype_span = dtype ? dtype->span : entry.key_span;
  input.shape_span = shape ? shape->span : entry.key_span;
  input.rows = *fields.flag("rows");
  if (const yaml::Node* from = fields.find("from")) read_source(reader, *from, datasets, input);
  if (!input.rows && std::holds_alternative<plan::FromDataset>(input.source))
    reader.error(Diagnosis::kRowShape, fields.key_span("rows"),
                 "`{}` reads rows of a dataset; expected `rows: true`", input.name.text);
  if (input.shape.rank() == 0) input.rows = false;
  if (const yaml::Node* range = fields.find("range")) read_range(reader, *range, input);
  return input;
}

/// Checks that all inputs from datasets have the same batch size, because they advance together.
void check_batches(Reader& reader, const std::vector<Input>& inputs) {
  const Input* first = nullptr;
  for (const Input& input : inputs) {
    if (input.has_error || !std::holds_alternative<plan::FromDataset>(input.source)) continue;
    if (!first) first = &input;
    if (input.shape[0] == first->shape[0]) continue;
    reader
        .error(Diagnosis::kBatchMismatch, input.shape_span,
               "`{}` has batch size {}, but `{}` has {}", input.name.text, input.shape[0],
               first->name.text, first->shape[0])
        .label(first->shape_span, "the other batch size")
        .with_hint("use the same leading dimension for all inputs that read datasets");
  }
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
  for (const yaml::Entry& entry : reader.entries(node, "`data`")) {
    Dataset& dataset = datasets.emplace_back(Dataset{{entry.key, entry.key_span}, {}});
    reader.check_name(dataset.name);
    for (const yaml::Entry& column : reader.entries(entry.value, "a dataset")) {
      reader.check_name({column.key, column.key_span});
      dataset.columns.push_back(read_column(reader, column));
    }
    if (entry.value.is_mapping() && dataset.columns.empty())
      reader.error(Diagnosis::kBadColumn, entry.key_span, "dataset `{}` has no columns", entry.key);
  }
  return datasets;
}

std::vector<Input> read_inputs(Reader& reader, const yaml::Node& node,
                               const std::vector<Dataset>& datasets) {
  std::vector<Input> inputs;
  for (const yaml::Entry& entry : reader.entries(node, "`inputs`"))
    inputs.push_back(read_input(reader, entry, datasets));
  check_batches(reader, inputs);
  return inputs;
}

}  // namespace flow::job
