// The parts of a plan as JSON values.
#include "runtime/plan/to_json.h"

#include <array>

namespace flow::plan {

namespace {

Json json_of(TensorId id) { return id.value; }

Json json_of(const std::vector<TensorId>& ids) {
  Json list = Json::array();
  for (const TensorId id : ids) list.push_back(id.value);
  return list;
}

Json json_of(const Attributes& attributes) {
  Json object = Json::object();
  for (const auto& [name, attribute] : attributes)
    std::visit(
        [&, &key = name](const auto& value) {
          if constexpr (std::is_same_v<std::decay_t<decltype(value)>, DType>)
            object[key] = Json{{"dtype", name_of(value)}};
          else
            object[key] = value;
        },
        attribute);
  return object;
}

Json json_of(const Tensor& tensor) {
  constexpr std::array kRoles = {"input", "variable", "result"};
  return {{"name", tensor.name},
          {"dtype", name_of(tensor.dtype)},
          {"shape", tensor.shape.extents()},
          {"role", kRoles[static_cast<size_t>(tensor.role)]},
          {"rows", tensor.rows},
          {"alias", json_of(tensor.alias)},
          {"first", tensor.first.value},
          {"last", tensor.last.value},
          {"where", tensor.where}};
}

Json json_of(const Step& step) {
  Json posts = Json::array();
  for (const Post& post : step.posts)
    posts.push_back({{"op", post.op},
                     {"name", post.name},
                     {"operands", json_of(post.operands)},
                     {"attributes", json_of(post.attributes)}});
  return {{"op", step.op},
          {"name", step.name},
          {"inputs", json_of(step.inputs)},
          {"outputs", json_of(step.outputs)},
          {"attributes", json_of(step.attributes)},
          {"posts", posts},
          {"tap", step.tap},
          {"where", step.where}};
}

Json json_of(const Variable& variable) {
  return {{"tensor", json_of(variable.tensor)},
          {"initializer",
           {{"type", variable.initializer.type},
            {"values", variable.initializer.values},
            {"path", variable.initializer.path}}},
          {"trainable", variable.trainable},
          {"slot", variable.slot}};
}

Json json_of(const Dataset& dataset) {
  Json columns = Json::array();
  for (const Column& column : dataset.columns) {
    Json json = {{"name", column.name},   {"format", column.format},
                 {"path", column.path},   {"row_shape", column.row_shape.extents()},
                 {"scale", column.scale}, {"mean", column.mean},
                 {"std", column.std},     {"where", column.where}};
    if (column.rows) json["rows"] = {column.rows->first, column.rows->second};
    columns.push_back(std::move(json));
  }
  return {{"name", dataset.name}, {"columns", columns}, {"where", dataset.where}};
}

struct SourceToJson {
  Json operator()(const FromCommandLine&) const { return {{"type", "command_line"}}; }
  Json operator()(const FromDataset& from) const {
    return {{"type", "dataset"}, {"dataset", from.dataset}, {"column", from.column}};
  }
  Json operator()(const FromNpy& from) const { return {{"type", "npy"}, {"path", from.path}}; }
  Json operator()(const FromGenerator& from) const {
    return {{"type", "generator"}, {"draw", from.type}, {"values", from.values}};
  }
};

Json json_of(const Input& input) {
  return {{"tensor", json_of(input.tensor)},
          {"source", std::visit(SourceToJson{}, input.source)},
          {"where", input.where},
          {"from_where", input.from_where}};
}

struct SinkToJson {
  Json operator()(const NpySink& sink) const {
    return {{"type", "npy"}, {"per_step", sink.per_step}};
  }
  Json operator()(const PrintSink& sink) const {
    Json json = {{"type", "print"},
                 {"reduce", static_cast<int>(sink.reduce)},
                 {"over", static_cast<int>(sink.over)},
                 {"scale", sink.scale},
                 {"format", sink.format},
                 {"every", sink.every}};
    if (sink.label) json["label"] = *sink.label;
    return json;
  }
  Json operator()(const NoSink&) const { return {{"type", "none"}}; }
};

Json json_of(const std::vector<Sink>& sinks) {
  Json list = Json::array();
  for (const Sink& sink : sinks) list.push_back(std::visit(SinkToJson{}, sink));
  return list;
}

Json json_of(const ReturnValue& value) {
  constexpr std::array kKinds = {"Numpy", "List", "Tuple", "Dict"};
  Json json = {{"kind", kKinds[static_cast<size_t>(value.kind)]}};
  if (value.kind == ReturnValue::Kind::kNumpy) {
    json["tensor"] = json_of(value.tensor);
    return json;
  }
  json["items"] = Json::array();
  for (const ReturnValue& item : value.items) json["items"].push_back(json_of(item));
  if (value.kind == ReturnValue::Kind::kDict) json["keys"] = value.keys;
  return json;
}

Json json_of(const Hook& hook) {
  Json steps = Json::array();
  for (const StepRange& range : hook.steps) steps.push_back({range.first, range.end, range.stride});
  return {{"kind", hook.kind == Hook::Kind::kWatch ? "watch" : "watch_diff"},
          {"name", hook.name},
          {"tensor", json_of(hook.tensor)},
          {"factor", hook.factor},
          {"steps", steps},
          {"check_finite", hook.check_finite},
          {"sinks", json_of(hook.sinks)},
          {"where", hook.where}};
}

Json json_of(const Optimizer& optimizer) {
  const Schedule& schedule = optimizer.learning_rate;
  return {{"type", optimizer.type},
          {"learning_rate",
           {{"type", schedule.type},
            {"values", schedule.values},
            {"boundaries", schedule.boundaries},
            {"rates", schedule.rates}}},
          {"loss", json_of(optimizer.loss)},
          {"loss_name", optimizer.loss_name},
          {"where", optimizer.where}};
}

Json json_of(const Run& run) {
  const Checkpointing& checkpoint = run.checkpoint;
  Json saved = {{"every_steps", checkpoint.every_steps},
                {"every_epochs", checkpoint.every_epochs},
                {"keep", checkpoint.keep}};
  if (checkpoint.load)
    saved["load"] = {{"path", *checkpoint.load}, {"where", checkpoint.load_where}};
  if (checkpoint.save)
    saved["save"] = {{"path", *checkpoint.save}, {"where", checkpoint.save_where}};
  Json json = {{"shuffle", run.shuffle},
               {"log_every", run.log_every},
               {"fail_on_nonfinite", run.fail_on_nonfinite},
               {"checkpoint", saved}};
  if (run.epochs) json["epochs"] = *run.epochs;
  if (run.steps) json["steps"] = *run.steps;
  return json;
}

template <typename T>
Json list_of(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(json_of(item));
  return list;
}

void drop_places(Json& json) {
  if (json.is_object()) {
    json.erase("where");
    json.erase("from_where");
  }
  if (json.is_structured())
    for (Json& item : json) drop_places(item);
}

}  // namespace

Json json_of(const Job& job, bool with_places) {
  Json json = {{"name", job.name},
               {"type", job.train ? "train" : "predict"},
               {"device", job.device == DeviceKind::kCpu ? "cpu" : "gpu"},
               {"precision", job.precision},
               {"seed", job.seed},
               {"tensors", list_of(job.tensors)},
               {"variables", list_of(job.variables)},
               {"datasets", list_of(job.datasets)},
               {"inputs", list_of(job.inputs)},
               {"steps", list_of(job.steps)},
               {"hooks", list_of(job.hooks)},
               {"run", json_of(job.run)},
               {"where", job.where}};
  if (job.returns)
    json["returns"] = {{"type", job.returns->type},
                       {"value", json_of(job.returns->value)},
                       {"sinks", json_of(job.returns->sinks)},
                       {"where", job.returns->where}};
  if (job.optimizer) json["optimizer"] = json_of(*job.optimizer);
  if (!with_places) drop_places(json);
  return json;
}

}  // namespace flow::plan
