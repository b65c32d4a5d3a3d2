// `inputs:` of a job: shapes, dtypes, and where each step's values come from.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/job/read/read_record.h"
#include "compiler/job/read/sections.h"
#include "compiler/job/read/variant.h"
#include "compiler/job/tables/tables.h"

namespace flow::job {
namespace {

/// The column that `text` ("mnist_train.images") names; null after an error.
const Column* find_column(Reader& reader, const yaml::Node& node,
                          const std::vector<Dataset>& datasets) {
  const std::string& text = node.scalar;
  const size_t dot = text.find('.');
  const bool is_file = text.ends_with(".npy");
  if (dot == std::string::npos || is_file) {
    reader
        .error(Diagnosis::kBadSource, node,
               fmt::format("unknown source `{}`; expected a dataset column, a generator or a file",
                           text))
        .with_hint(is_file ? fmt::format("write the file as `{{npy: {}}}`", text)
                   : find_variant(generators(), text)
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
    reader
        .error(Diagnosis::kUnknownDataset, node, fmt::format("unknown dataset `{}`", dataset_name))
        .with_hint(names.empty() ? "add a `data:` section to the file"
                                 : suggestion(dataset_name, names, "available datasets:"));
    return nullptr;
  }
  for (const Column& column : dataset->columns) {
    if (column.plan.name == column_name) return &column;
    names.push_back(column.plan.name);
  }
  reader
      .error(Diagnosis::kUnknownColumn, node,
             fmt::format("unknown column `{}` of dataset `{}`", column_name, dataset_name))
      .label(dataset->name.span, "the dataset")
      .with_hint(suggestion(column_name, names, "available columns:"));
  return nullptr;
}

constexpr int64_t kUsualBatch = 100;  // in hints

/// An input's shape is the batch, then the shape of a row.
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
      .with_hint(fmt::format("write {}`shape: {}`", lacks_batch ? "the batch size first: " : "",
                             Shape(fits).str()));
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
               fmt::format("`{}` has shape []; expected a batch dimension", input.name.text))
        .with_hint(fmt::format("write the batch size first: `shape: [{}]`", kUsualBatch));
    input.has_error = true;
    return;
  }
  check_row_shape(reader, input, *column, node.scalar);
}

Diagnosis diagnosis_of(plan::GeneratorFault::Kind kind) {
  switch (kind) {
    case plan::GeneratorFault::Kind::kOrder:
      return Diagnosis::kOutOfRange;
    case plan::GeneratorFault::Kind::kFractions:
      return Diagnosis::kBadSource;
    case plan::GeneratorFault::Kind::kMisfit:
      break;
  }
  return Diagnosis::kBadGenerator;
}

/// `node`: of `from:`, whose `fields` give the generator's numbers, but for those `unread`.
void check_generator(Reader& reader, const yaml::Node& node, const Fields& fields,
                     const plan::FromGenerator& made, const std::set<std::string_view>& unread,
                     const Input& input) {
  // What is not known must not be what is wrong.
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
  const ParsedVariant given(reader, node, node.span, "`from`", generators());
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
    const Fields fields(reader, node, node.span, npy_section());
    if (const auto path = fields.text("npy")) input.source = plan::FromNpy{*path};
    return;
  }
  reader
      .error(Diagnosis::kBadSource, node,
             "unknown source; expected a dataset column, a generator or a file")
      .with_hint("write `dataset.column`, `{npy: PATH}` or `{type: random_uniform}`");
}

/// The smallest and the largest value of an input of integers.
void read_range(Reader& reader, const yaml::Node& node, Input& input) {
  const auto bounds = read_integers(reader, node, "`range`");
  if (!bounds) return;
  if (bounds->size() != 2 || bounds->front() > bounds->back())
    reader.error(Diagnosis::kInputRange, node, "invalid `range`; expected [smallest, largest]")
        .with_hint("write two integers, such as `range: [0, 9]`");
  else if (!input.has_error && !is_integer(input.dtype))
    reader
        .error(Diagnosis::kInputRange, node,
               fmt::format("unexpected `range` for {}; expected integers", name_of(input.dtype)))
        .with_hint("remove it, or use a dtype such as int32");
  else
    input.range = {bounds->front(), bounds->back()};
}

Input read_input(Reader& reader, const yaml::Entry& entry, const std::vector<Dataset>& datasets) {
  Input input;
  input.name = {entry.key, entry.key_span};
  reader.check_name(input.name);
  const Fields fields(reader, entry.value, entry.key_span, input_section());
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
    reader.error(
        Diagnosis::kRowShape, fields.key_span("rows"),
        fmt::format("`{}` reads rows of a dataset; expected `rows: true`", input.name.text));
  if (input.shape.rank() == 0) input.rows = false;
  if (const yaml::Node* range = fields.find("range")) read_range(reader, *range, input);
  return input;
}

/// Inputs that come from datasets advance together: one batch for all.
void check_batches(Reader& reader, const std::vector<Input>& inputs) {
  const Input* first = nullptr;
  for (const Input& input : inputs) {
    if (input.has_error || !std::holds_alternative<plan::FromDataset>(input.source)) continue;
    if (!first) first = &input;
    if (input.shape[0] == first->shape[0]) continue;
    reader
        .error(Diagnosis::kBatchMismatch, input.shape_span,
               fmt::format("`{}` has batch size {}, but `{}` has {}", input.name.text,
                           input.shape[0], first->name.text, first->shape[0]))
        .label(first->shape_span, "the other batch size")
        .with_hint("use the same leading dimension for all inputs that read datasets");
  }
}

}  // namespace

std::vector<Input> read_inputs(Reader& reader, const yaml::Node& node,
                               const std::vector<Dataset>& datasets) {
  std::vector<Input> inputs;
  if (!reader.expect(node, yaml::Kind::kMapping, "`inputs`")) return inputs;
  for (const yaml::Entry& entry : node.entries)
    if (!reader.take_note(entry)) inputs.push_back(read_input(reader, entry, datasets));
  check_batches(reader, inputs);
  return inputs;
}

}  // namespace flow::job
