// Reading a plan back: strictly, since it comes from outside.
#include <fmt/format.h>

#include <array>

#include "runtime/base/error.h"
#include "runtime/base/philox.h"
#include "runtime/plan/check.h"
#include "runtime/plan/json_fields.h"
#include "runtime/plan/serialize.h"

namespace flow::plan {

namespace {

template <typename Tag>
Id<Tag> id_of(Fields& fields, const Json& json) {
  if (!json.is_number_integer()) fields.fail("an index that is no integer");
  if (json.is_number_unsigned() && json.get<uint64_t>() > INT32_MAX)
    fields.fail("an index beyond all");
  const auto value = json.get<int64_t>();
  if (value < -1) fields.fail("a negative index");
  return value < 0 ? Id<Tag>{} : Id<Tag>{static_cast<size_t>(value)};
}

std::vector<TensorId> ids_of(Fields& fields, const char* key) {
  std::vector<TensorId> ids;
  for (const Json& item : fields.list(key)) ids.push_back(id_of<TensorTag>(fields, item));
  return ids;
}

DType dtype_of(Fields& fields, const std::string& name) {
  const auto dtype = parse_dtype(name);
  if (!dtype) fields.fail(fmt::format("`{}` is no dtype", name));
  return *dtype;
}

/// The position of the text at `key` among `words`.
template <size_t n>
size_t choice(Fields& fields, const char* key, const std::array<std::string_view, n>& words) {
  const std::string word = fields.text(key);
  for (size_t i = 0; i < n; ++i)
    if (words[i] == word) return i;
  fields.fail(fmt::format("`{}` is `{}`", key, word));
}

Attributes attributes_of(Fields& fields) {
  Attributes attributes;
  const Json& object = fields.at("attributes");
  if (!object.is_object()) fields.fail("`attributes` is no object");
  Fields values = fields.object(object, fields.place());
  for (const auto& [key, value] : object.items()) {
    if (value.is_boolean())
      attributes.set(key, value.get<bool>());
    else if (value.is_number_integer())
      attributes.set(key, values.integer(key.c_str()));
    else if (value.is_number_float())
      attributes.set(key, value.get<double>());
    else if (value.is_string())
      attributes.set(key, value.get<std::string>());
    else if (value.is_array())
      attributes.set(key, values.integers(key.c_str()));
    else {
      Fields dtype = fields.object(value, fields.place());
      attributes.set(key, dtype_of(dtype, dtype.text("dtype")));
      dtype.done();
    }
  }
  return attributes;
}

Tensor tensor_of(Fields fields) {
  Tensor tensor;
  tensor.name = fields.text("name");
  tensor.dtype = dtype_of(fields, fields.text("dtype"));
  tensor.shape = Shape(fields.integers("shape"));
  tensor.role = static_cast<Role>(choice<3>(fields, "role", {"input", "variable", "result"}));
  const int64_t rows = fields.integer("rows");
  if (rows < kMixedRows || rows >= tensor.shape.rank()) fields.fail("`rows` is no axis");
  tensor.rows = static_cast<int>(rows);
  tensor.alias = id_of<TensorTag>(fields, fields.at("alias"));
  tensor.first = id_of<StepTag>(fields, fields.at("first"));
  tensor.last = id_of<StepTag>(fields, fields.at("last"));
  tensor.where = fields.text("where");
  fields.done();
  return tensor;
}

Step step_of(Fields fields) {
  Step step;
  step.op = fields.text("op");
  step.name = fields.text("name");
  step.inputs = ids_of(fields, "inputs");
  step.outputs = ids_of(fields, "outputs");
  step.attributes = attributes_of(fields);
  for (const Json& json : fields.list("posts")) {
    Fields of_post = fields.object(json, fields.place());
    Post post;
    post.op = of_post.text("op");
    post.name = of_post.text("name");
    post.operands = ids_of(of_post, "operands");
    post.attributes = attributes_of(of_post);
    of_post.done();
    step.posts.push_back(std::move(post));
  }
  step.tap = fields.boolean("tap");
  step.where = fields.text("where");
  fields.done();
  return step;
}

Variable variable_of(Fields fields) {
  Variable variable;
  variable.tensor = id_of<TensorTag>(fields, fields.at("tensor"));
  Fields initializer = fields.object(fields.at("initializer"), fields.place());
  variable.initializer.type = initializer.text("type");
  variable.initializer.values = initializer.number_map("values");
  variable.initializer.path = initializer.text("path");
  initializer.done();
  variable.trainable = fields.boolean("trainable");
  variable.slot = fields.boolean("slot");
  fields.done();
  return variable;
}

Column column_of(Fields fields) {
  Column column;
  column.name = fields.text("name");
  column.format = fields.text("format");
  column.path = fields.text("path");
  column.row_shape = Shape(fields.integers("row_shape"));
  column.scale = fields.number("scale");
  column.mean = fields.numbers("mean");
  column.std = fields.numbers("std");
  if (fields.has("rows")) {
    const auto rows = fields.integers("rows");
    if (rows.size() != 2) fields.fail("`rows` is no pair");
    column.rows = {rows[0], rows[1]};
  }
  column.where = fields.text("where");
  fields.done();
  return column;
}

Dataset dataset_of(Fields fields) {
  Dataset dataset;
  dataset.name = fields.text("name");
  for (const Json& column : fields.list("columns"))
    dataset.columns.push_back(column_of(fields.object(column, "dataset " + dataset.name)));
  dataset.where = fields.text("where");
  fields.done();
  return dataset;
}

InputSource source_of(Fields fields) {
  InputSource source;
  switch (choice<4>(fields, "type", {"command_line", "dataset", "npy", "generator"})) {
    case 0:
      source = FromCommandLine{};
      break;
    case 1:
      source = FromDataset{fields.text("dataset"), fields.text("column")};
      break;
    case 2:
      source = FromNpy{fields.text("path")};
      break;
    default:
      source = FromGenerator{fields.text("draw"), fields.number_map("values")};
  }
  fields.done();
  return source;
}

Input input_of(Fields fields) {
  Input input;
  input.tensor = id_of<TensorTag>(fields, fields.at("tensor"));
  input.source = source_of(fields.object(fields.at("source"), fields.place()));
  input.where = fields.text("where");
  input.from_where = fields.text("from_where");
  fields.done();
  return input;
}

Sink sink_of(Fields fields) {
  const size_t type = choice<3>(fields, "type", {"npy", "print", "none"});
  Sink sink = NoSink{};
  if (type == 0) sink = NpySink{fields.boolean("per_step")};
  if (type == 1) {
    PrintSink print;
    if (fields.has("label")) print.label = fields.text("label");
    const int64_t reduce = fields.integer("reduce"), over = fields.integer("over");
    if (reduce < 0 || reduce > static_cast<int64_t>(Reduce::kNorm))
      fields.fail("`reduce` is unknown");
    if (over < 0 || over > static_cast<int64_t>(Over::kRun)) fields.fail("`over` is unknown");
    print.reduce = static_cast<Reduce>(reduce);
    print.over = static_cast<Over>(over);
    print.scale = fields.number("scale");
    print.format = fields.text("format");
    print.every = fields.integer("every");
    sink = print;
  }
  fields.done();
  return sink;
}

std::vector<Sink> sinks_of(Fields& fields) {
  std::vector<Sink> sinks;
  for (const Json& sink : fields.list("sinks"))
    sinks.push_back(sink_of(fields.object(sink, fields.place())));
  return sinks;
}

ReturnValue return_value_of(Fields fields, int depth) {
  constexpr int kDeepest = 64;
  if (depth > kDeepest) fields.fail("a return value nested too deep");
  ReturnValue value;
  value.kind =
      static_cast<ReturnValue::Kind>(choice<4>(fields, "kind", {"Numpy", "List", "Tuple", "Dict"}));
  if (value.kind == ReturnValue::Kind::kNumpy) {
    value.tensor = id_of<TensorTag>(fields, fields.at("tensor"));
  } else {
    for (const Json& item : fields.list("items"))
      value.items.push_back(return_value_of(fields.object(item, fields.place()), depth + 1));
    if (value.kind == ReturnValue::Kind::kDict) value.keys = fields.texts("keys");
  }
  fields.done();
  return value;
}

Hook hook_of(Fields fields) {
  Hook hook;
  hook.kind = static_cast<Hook::Kind>(choice<2>(fields, "kind", {"watch", "watch_diff"}));
  hook.name = fields.text("name");
  hook.tensor = id_of<TensorTag>(fields, fields.at("tensor"));
  hook.factor = fields.number("factor");
  for (const Json& json : fields.list("steps")) {
    const Json wrapped{{"range", json}};
    const auto range = fields.object(wrapped, fields.place()).integers("range");
    if (range.size() != 3) fields.fail("`steps` holds no range");
    hook.steps.push_back({range[0], range[1], range[2]});
  }
  hook.check_finite = fields.boolean("check_finite");
  hook.sinks = sinks_of(fields);
  hook.where = fields.text("where");
  fields.done();
  return hook;
}

Optimizer optimizer_of(Fields fields) {
  Optimizer optimizer;
  optimizer.type = fields.text("type");
  Fields schedule = fields.object(fields.at("learning_rate"), fields.place());
  optimizer.learning_rate.type = schedule.text("type");
  optimizer.learning_rate.values = schedule.number_map("values");
  optimizer.learning_rate.boundaries = schedule.integers("boundaries");
  optimizer.learning_rate.rates = schedule.numbers("rates");
  schedule.done();
  optimizer.loss = id_of<TensorTag>(fields, fields.at("loss"));
  optimizer.loss_name = fields.text("loss_name");
  optimizer.where = fields.text("where");
  fields.done();
  return optimizer;
}

Run run_of(Fields fields) {
  Run run;
  if (fields.has("epochs")) run.epochs = fields.integer("epochs");
  if (fields.has("steps")) run.steps = fields.integer("steps");
  run.shuffle = fields.boolean("shuffle");
  run.log_every = fields.integer("log_every");
  run.fail_on_nonfinite = fields.boolean("fail_on_nonfinite");
  Fields saved = fields.object(fields.at("checkpoint"), fields.place());
  const auto path = [&](const char* key, std::optional<std::string>& into, std::string& where) {
    if (!saved.has(key)) return;
    Fields of = saved.object(saved.at(key), saved.place());
    into = of.text("path");
    where = of.text("where");
    of.done();
  };
  path("load", run.checkpoint.load, run.checkpoint.load_where);
  path("save", run.checkpoint.save, run.checkpoint.save_where);
  run.checkpoint.every_steps = saved.integer("every_steps");
  run.checkpoint.every_epochs = saved.integer("every_epochs");
  run.checkpoint.keep = saved.integer("keep");
  saved.done();
  fields.done();
  return run;
}

template <typename Read>
auto list_of(Fields& fields, const char* key, Read read) {
  std::vector<decltype(read(fields))> items;
  const Json& list = fields.list(key);
  for (size_t i = 0; i < list.size(); ++i)
    items.push_back(read(fields.object(list[i], fmt::format("{}, {} {}", fields.place(), key, i))));
  return items;
}

Job job_of(Fields fields) {
  Job job;
  job.name = fields.text("name");
  job.train = choice<2>(fields, "type", {"predict", "train"}) == 1;
  job.device = static_cast<DeviceKind>(choice<2>(fields, "device", {"cpu", "gpu"}));
  job.precision = fields.text("precision");
  job.seed = fields.natural("seed");
  job.tensors = list_of(fields, "tensors", tensor_of);
  job.variables = list_of(fields, "variables", variable_of);
  job.datasets = list_of(fields, "datasets", dataset_of);
  job.inputs = list_of(fields, "inputs", input_of);
  job.steps = list_of(fields, "steps", step_of);
  job.hooks = list_of(fields, "hooks", hook_of);
  if (fields.has("returns")) {
    Fields returns = fields.object(fields.at("returns"), fields.place() + ", returns");
    job.returns.emplace();
    job.returns->type = returns.text("type");
    job.returns->value = return_value_of(returns.object(returns.at("value"), returns.place()), 0);
    job.returns->sinks = sinks_of(returns);
    job.returns->where = returns.text("where");
    returns.done();
  }
  if (fields.has("optimizer"))
    job.optimizer =
        optimizer_of(fields.object(fields.at("optimizer"), fields.place() + ", optimizer"));
  job.run = run_of(fields.object(fields.at("run"), fields.place() + ", run"));
  job.where = fields.text("where");
  fields.done();
  return job;
}

void check_version(Fields& fields, const std::string& path) {
  const int64_t version = fields.integer("version");
  if (version != kVersion)
    throw RequestError(fmt::format("{}: a plan of version {}; this flow reads version {}", path,
                                   version, kVersion),
                       "build it again with this flowc");
}

/// The checksum stands on the last line but one and covers every byte before its key.
void check_sum(Fields& fields, std::string_view text) {
  const std::string sum = fields.text("checksum");
  const size_t at = text.rfind("\"checksum\"");
  const std::string tail = fmt::format("\"checksum\":\"{}\"\n}}\n", sum);
  if (at == text.npos || text.substr(at) != tail ||
      fmt::format("{:016x}", fnv1a64(text.substr(0, at))) != sum)
    fields.fail("the checksum does not fit: the file was changed after flowc wrote it");
}

}  // namespace

Plan from_json(std::string_view text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded())
    throw RequestError(fmt::format("{}: not a plan: it is no JSON", path),
                       "plans are written by `flowc build`");
  Fields fields(json, path, "plan");
  check_version(fields, path);
  check_sum(fields, text);
  Plan plan;
  plan.source = fields.text("source");
  plan.root = fields.text("root");
  plan.notes = fields.texts("notes");
  const Json& jobs = fields.list("jobs");
  for (size_t i = 0; i < jobs.size(); ++i)
    plan.jobs.push_back(job_of(fields.object(jobs[i], fmt::format("job {}", i))));
  if (fields.text("hash") != hash(plan)) fields.fail("the hash does not fit what the plan says");
  fields.done();
  check(plan, path);
  return plan;
}

}  // namespace flow::plan
