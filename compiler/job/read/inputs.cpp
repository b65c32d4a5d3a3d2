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

constexpr int64_t kUsualBatch = 100;  // used in hints

/// Checks that the shape of an input is the batch size followed by the shape of a row.
void check_row_shape(Reader& reader, const Input& input, const Column& column,
                     const std::string& source) {
  const Shape rest = input.shape.from(1);
  if (column.row.accepts(rest)) return;
  const bool lacks_batch = !column.row.scalar && column.row.accepts(input.shape);
  Diag& diag =
      reader
          .error(
              Diagnosis::kRowShape, input.shape_span,
              lacks_batch
                  ? fmt::format("`{}` has the shape of one row of `{}`; expected a batch of rows",
                                input.name.text, source)
                  : fmt::format("`{}` has shape {}, but a row of `{}` has shape {}",
                                input.name.text, input.shape.str(), source, column.row.str()))
          .label(column.span, "the shape of a row");
  if (!column.row.is_exact()) return;
  const Shape& row = column.plan.row_shape;
  std::vector<int64_t> fits{lacks_batch ? kUsualBatch : input.shape[0]};
  fits.insert(fits.end(), row.begin(), row.end());
  diag.with_hint("write {}`shape: {}`", lacks_batch ? "the batch size first: " : "",
                 Shape(fits).str());
}

void read_column_source(Reader& reader, const yaml::Node& node,
                        const std::vector<Dataset>& datasets, Input& input) {
  const auto found = find_column(reader, node, datasets);
  if (!found) return;
  input.source =
      plan::FromDataset{found->dataset->name.text, found->part, found->column->plan.name};
  if (input.has_error) return;
  if (input.shape.rank() == 0) {
    reader
        .error(Diagnosis::kRowShape, input.shape_span,
               "`{}` has shape []; expected a batch dimension", input.name.text)
        .with_hint("write the batch size first: `shape: [{}]`", kUsualBatch);
    input.has_error = true;
    return;
  }
  check_row_shape(reader, input, *found->column, node.scalar);
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

std::optional<std::pair<int64_t, int64_t>> parse_range(std::string_view text) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) return {};
  const std::string_view behind = text.substr(dots + 2);
  const auto first = parse_bound(text.substr(0, dots));
  const auto end = behind.empty() ? std::optional(Hook::kForever) : parse_bound(behind);
  if (!first || !end) return {};
  return std::pair{*first, *end};
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
