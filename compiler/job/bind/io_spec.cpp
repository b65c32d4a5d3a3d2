// Writes the parts of a plan that are not steps.
#include "compiler/job/bind/bind.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/job/read/sections.h"

namespace flow::job {
namespace {

/// Returns an input that reads the column, or null.
const Input* reader_of(const Job& job, const Dataset& dataset, const Column& column) {
  const auto reads = [&](const Input& input) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    return from && from->dataset == dataset.name.text && from->column == column.plan.name;
  };
  const auto input = std::ranges::find_if(job.inputs, reads);
  return input == job.inputs.end() ? nullptr : &*input;
}

/// Returns true if the column determines which rows the dataset has, in which order, or how they
/// are mixed, whether or not an input reads it.
bool selects_rows(const Job& job, const Dataset& dataset, const plan::Column& column) {
  const plan::Dataset& options = dataset.options;
  const auto& sampling = job.run.sampling;
  return options.on_bad_row == plan::Dataset::OnBadRow::kSkip || column.window.has_value() ||
         (options.split &&
          (options.split->by == column.name || options.split->group == column.name)) ||
         (options.mix && std::ranges::count(options.mix->columns, column.name) > 0) ||
         (sampling && sampling->dataset == dataset.name.text && sampling->column == column.name);
}

/// Returns the datasets that the inputs read, in the order of the file, with the columns that they
/// read or need.
std::vector<plan::Dataset> read_datasets(const File& file, const Job& job) {
  std::vector<plan::Dataset> read;
  for (const Dataset& dataset : file.datasets) {
    plan::Dataset made = dataset.options;
    bool any = false;
    for (const Column& column : dataset.columns) {
      const Input* input = reader_of(job, dataset, column);
      any = any || input;
      if (!input && !selects_rows(job, dataset, column.plan)) continue;
      made.columns.push_back(column.plan);
      if (input && !column.row.is_exact()) made.columns.back().row_shape = input->shape.from(1);
    }
    if (any) read.push_back(std::move(made));
  }
  return read;
}

}  // namespace

std::vector<plan::Dataset> all_datasets(const File& file) {
  std::vector<plan::Dataset> all;
  for (const Dataset& dataset : file.datasets) {
    plan::Dataset& made = all.emplace_back(dataset.options);
    for (const Column& column : dataset.columns) {
      made.columns.push_back(column.plan);
      for (const Job& job : file.jobs)
        if (const Input* input = reader_of(job, dataset, column);
            input && !column.row.is_exact() && made.columns.back().row_shape.rank() == 0)
          made.columns.back().row_shape = input->shape.from(1);
    }
  }
  return all;
}

namespace {

/// Returns the column that the input reads, or null.
const Column* column_of(const std::vector<Dataset>& datasets, const plan::FromDataset& from) {
  for (const Dataset& dataset : datasets)
    if (dataset.name.text == from.dataset)
      for (const Column& column : dataset.columns)
        if (column.plan.name == from.column) return &column;
  return nullptr;
}

/// Checks that the numbers of means and deviations fit the rows of a column without `shape:`, whose
/// shape `input` determines.
void check_channels_of(Reader& reader, const Column& column, const Input& input) {
  const auto check = [&](std::string_view key, Span span, size_t values) {
    if (values <= 1) return;
    const Shape row = input.shape.from(column.plan.window && input.shape.rank() > 1 ? 2 : 1);
    if (Diag* error = check_channels(reader, key, span, values, row))
      error->label(input.shape_span, "batch size, then the shape of a row");
  };
  check("mean", column.mean_span, column.plan.mean.values.size());
  check("std", column.std_span, column.plan.std.values.size());
}

class IoSpecWriter {
 public:
  IoSpecWriter(const Reader& reader, const ir::Graph& graph, const Lowered& lowered)
      : reader_(reader), graph_(graph), lowered_(lowered) {}

  plan::TensorId tensor(ir::ValueId value) const {
    FLOW_CHECK(value.valid() && lowered_.tensor_of[value.index()].valid(), "`{}` was not lowered",
               value.valid() ? graph_[value].name : "");
    return lowered_.tensor_of[value.index()];
  }

  std::vector<plan::Input> inputs(const Job& job) const {
    std::vector<plan::Input> made;
    for (const Input& input : job.inputs)
      made.push_back({tensor(graph_.find(input.name.text)), input.source,
                      reader_.sources.where(input.name.span),
                      reader_.sources.where(input.from_span), input.range});
    if (graph_.row_numbers.valid())
      made.push_back({tensor(graph_.row_numbers), plan::FromGenerator(plan::generators::Iota()),
                      reader_.sources.where(graph_[graph_.row_numbers].span), ""});
    return made;
  }

  /// Converts a returned value. `next` counts the leaves, whose values are in `returned`.
  plan::ReturnValue return_value(const ReturnValue& value, const std::vector<ir::ValueId>& returned,
                                 size_t& next) const {
    plan::ReturnValue made;
    made.kind = value.kind;
    made.keys = value.keys;
    made.name = value.name;
    if (made.is_leaf()) made.tensor = tensor(returned[next++]);
    for (const ReturnValue& item : value.items)
      made.items.push_back(return_value(item, returned, next));
    return made;
  }

  std::optional<plan::DynamicLossScale> loss_scale(const passes::Context& context) const {
    if (!context.loss_scale.valid()) return {};
    return plan::DynamicLossScale{tensor(context.loss_scale), tensor(context.factor)};
  }

  std::optional<plan::TensorId> gradient_norm(const passes::Context& context) const {
    if (!context.gradient_norm.valid()) return {};
    return tensor(context.gradient_norm);
  }

  /// Returns the factor on a gradient of the scaled, summed loss.
  double gradient_factor(const Hook& hook, const passes::Context& context) const {
    const passes::Training& training = *context.training;
    return (hook.mean ? 1 / static_cast<double>(context.loss_elements) : 1) /
           training.static_scale();
  }

  plan::Hook hook(const Watched& watched, const passes::Context& context) const {
    const Hook& hook = *watched.hook;
    const bool diff = watched.kind == plan::Hook::Kind::kWatchDiff;
    plan::Hook made = hook.plan;
    made.kind = watched.kind;
    made.name = watched.name;
    made.tensor =
        tensor(diff ? passes::delivered_gradient(graph_, context, watched.value) : watched.value);
    made.factor = diff ? gradient_factor(hook, context) : 1;
    if (hook.kind == Hook::Kind::kWatchScope) {
      made.scope = hook.pattern.text;
      made.op = watched.op;
    }
    made.where = reader_.sources.where(hook.span);
    return made;
  }

 private:
  const Reader& reader_;
  const ir::Graph& graph_;
  const Lowered& lowered_;
};

}  // namespace

void write_io_spec(Reader& reader, const File& file, const Job& job, const ir::Graph& graph,
                   const Bindings& bindings, const Lowered& lowered, plan::Job& made) {
  const IoSpecWriter writer(reader, graph, lowered);
  made.name = job.name.text;
  made.train = job.train;
  made.precision = job.precision;
  made.deterministic = job.deterministic;
  made.seed = file.seed;
  made.run = job.run;
  made.where = reader.sources.where(job.name.span);
  made.datasets = read_datasets(file, job);
  made.inputs = writer.inputs(job);
  if (job.returns) {
    size_t next = 0;
    made.returns = {job.returns->type, job.returns->callback,
                    writer.return_value(job.returns->value, bindings.returned, next),
                    job.returns->sinks, reader.sources.where(job.returns->span)};
  }
  const auto& training = bindings.context.training;
  for (const Watched& watched : bindings.watched)
    made.hooks.push_back(writer.hook(watched, bindings.context));
  if (training)
    made.optimizer = {std::string(plan::type_name(job.optimizer->rule)),
                      job.optimizer->learning_rate,
                      writer.tensor(bindings.context.mean_loss),
                      training->loss_name(),
                      writer.loss_scale(bindings.context),
                      writer.gradient_norm(bindings.context),
                      reader.sources.where(job.optimizer->span)};
}

namespace {

/// Checks that a train job reads mixed columns as fractions.
void check_mixed_inputs(Reader& reader, const File& file, const Job& job) {
  if (!job.train) return;
  for (const Input& input : job.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from || input.has_error || is_float(input.dtype)) continue;
    const auto dataset = std::ranges::find(file.datasets, from->dataset,
                                           [](const Dataset& one) { return one.name.text; });
    const auto& mix = dataset->options.mix;
    if (mix && std::ranges::count(mix->columns, from->column) > 0)
      reader
          .error(Diagnosis::kDatasetOptions, input.dtype_span,
                 "`{}` is {}, but `mix` of dataset `{}` makes fractions", input.name.text,
                 name_of(input.dtype), from->dataset)
          .with_hint("use float32, and `one_hot` for a column of categories");
  }
}

}  // namespace

void check_implied_rows(Reader& reader, const File& file, const Job& job) {
  check_mixed_inputs(reader, file, job);
  std::map<const Column*, const Input*> readers;
  for (const Input& input : job.inputs) {
    const auto* from = std::get_if<plan::FromDataset>(&input.source);
    if (!from || input.has_error) continue;
    const Column* column = column_of(file.datasets, *from);
    if (!column || column->row.is_exact()) continue;
    const auto [first, fresh] = readers.try_emplace(column, &input);
    if (fresh) {
      check_channels_of(reader, *column, input);
      continue;
    }
    const Input& other = *first->second;
    if (other.shape.from(1) == input.shape.from(1)) continue;
    reader
        .error(Diagnosis::kRowShape, input.shape_span,
               "`{}` reads rows of shape {} from `{}`, but `{}` reads {}", input.name.text,
               input.shape.from(1).str(), column->plan.name, other.name.text,
               other.shape.from(1).str())
        .label(other.shape_span, "the other input");
  }
}

}  // namespace flow::job
