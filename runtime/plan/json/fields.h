// The keys of each struct of a plan, sorted, defined once for writing and reading. `text` is a
// JsonWriter or a JsonReader. The verb of a key states how it is written:
// - text(key, value) writes it on the line of its object.
// - text.given(key, value) writes it the same way, but only if there is a value, an element or
//   `true`.
// - text.one_or_more(key, list) writes the element of a list of one, and null for an empty list.
// - text.remark(key, value) writes it like text(key, value), but excludes it from the plan's hash.
//   It is for values that do not affect a run.
// - text.remarks(key, texts) is also excluded from the hash. It writes the string of a list of one,
//   and "" for an empty list.
// - text.named(variant, noun, write) calls write(values) with the values of a record by name.
#pragma once

#include <concepts>
#include <string_view>
#include <type_traits>

#include "runtime/plan/json/dataset_fields.h"
#include "runtime/plan/json/records.h"
#include "runtime/plan/model/enum_names.h"
#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// The only attribute whose value is a DType; its value is always one.
inline constexpr std::string_view kDTypeAttribute = "dtype";

/// A variant that is written as an object with one key, unlike variants of records.
template <typename T>
concept HasEnumNames = requires {
  EnumNames<T>::words;
};

/// List elements that are each written on a line of their own.
template <typename T>
concept OnOwnLine = std::same_as<T, Dataset> || std::same_as<T, Hook> || std::same_as<T, Input> ||
    std::same_as<T, Job> || std::same_as<T, Step> || std::same_as<T, Tensor> ||
    std::same_as<T, Variable>;

/// True for objects whose keys are each written on a line of their own.
template <typename T>
inline constexpr bool kSpread = false;

void fields(auto& text, Is<Tensor> auto& tensor) {
  text("alias", tensor.alias);
  text.given("combine", tensor.combine);
  text.given("device", tensor.device);
  text("dtype", tensor.dtype);
  text("first", tensor.first);
  text("last", tensor.last);
  text("name", tensor.name);
  text("role", tensor.role);
  text("rows", tensor.batch_axis);
  text("shape", tensor.shape);
  text.remark("where", tensor.where);
}

void fields(auto& text, Is<EpilogueOp> auto& fused) {
  text("attributes", fused.attributes);
  text("name", fused.name);
  text("op", fused.op);
  text("operands", fused.operands);
}

void fields(auto& text, Is<Step> auto& step) {
  text("attributes", step.attributes);
  text.given("device", step.device);
  text("inputs", step.inputs);
  text("name", step.name);
  text("op", step.op);
  text("outputs", step.outputs);
  text.given("per_shard", step.per_shard);
  text("posts", step.epilogue);
  text("tap", step.probe);
  text.remark("where", step.where);
}

void fields(auto& text, Is<Initializer> auto& initializer) {
  text.named(initializer, "", [&](auto& values) {
    text("path", values.path);
    text("type", values.type);
    text("values", values.numbers);
  });
}

void fields(auto& text, Is<Variable> auto& variable) {
  text("initializer", variable.initializer);
  text("slot", variable.slot);
  text("tensor", variable.tensor);
  text("trainable", variable.trainable);
}

void fields(auto&, Is<FromCommandLine> auto&) {}

void fields(auto& text, Is<FromDataset> auto& source) {
  text("column", source.column);
  text("dataset", source.dataset);
  text.given("part", source.part);
}

void fields(auto& text, Is<FromNpy> auto& source) { text("path", source.path); }

void fields(auto& text, Is<FromGenerator> auto& source) {
  text.named(source, "", [&](auto& values) {
    text("type", values.type);
    text("values", values.numbers);
  });
}

void fields(auto& text, Is<Input> auto& input) {
  text.remark("from_where", input.from_where);
  text.given("range", input.range);
  text("source", input.source);
  text("tensor", input.tensor);
  text.remark("where", input.where);
}

void fields(auto& text, Is<NpySink> auto& sink) { text("per_step", sink.per_step); }

void fields(auto& text, Is<Metric> auto& metric) {
  text("average", metric.average);
  text("classes", metric.classes);
  text("ignored", metric.ignored);
  text("type", metric.type);
}

void fields(auto& text, Is<PrintSink> auto& sink) {
  text("every", sink.every);
  text("format", sink.format);
  text("label", sink.label);
  text.given("metric", sink.metric);
  text("over", sink.over);
  text("reduce", sink.reduce);
  text("scale", sink.scale);
  text.given("step", sink.step);
}

void fields(auto& text, Is<CommandSink> auto& sink) {
  text("ack", sink.ack);
  text("env", sink.env);
  text("format", sink.format);
  text("mode", sink.mode);
  text("on_error", sink.on_error);
  text("run", sink.run);
  text("shell", sink.shell);
  text("timeout", sink.timeout);
}

void fields(auto& text, Is<StatsSink> auto& sink) { text("bins", sink.bins); }

void fields(auto&, Is<NoSink> auto&) {}

void fields(auto& text, Is<MeanSink> auto& sink) {
  text.given("metric", sink.metric);
  text("value", sink.value);
}

void fields(auto& text, Is<ReturnValue> auto& value) {
  text("items", value.items);
  text("keys", value.keys);
  text("kind", value.kind);
  text("name", value.name);
  text("tensor", value.tensor);
}

void fields(auto& text, Is<Returns> auto& returns) {
  text("callback", returns.callback);
  text("sinks", returns.sinks);
  text("type", returns.type);
  text("value", returns.value);
  text.remark("where", returns.where);
}

void fields(auto& text, Is<StepRange> auto& range) {
  text("end", range.end);
  text("first", range.first);
  text("stride", range.stride);
}

void fields(auto& text, Is<Hook> auto& hook) {
  text("check_finite", hook.check_finite);
  text("factor", hook.factor);
  text("kind", hook.kind);
  text("name", hook.name);
  text("op", hook.op);
  text("per_device", hook.per_device);
  text("scope", hook.scope);
  text("sinks", hook.sinks);
  text("steps", hook.steps);
  text.given("stops", hook.stops);
  text("tensor", hook.tensor);
  text.given("when", hook.when);
  text.remark("where", hook.where);
}

void fields(auto& text, Is<Warmup> auto& warmup) {
  text("multiplier", warmup.multiplier);
  text("steps", warmup.steps);
  text("type", warmup.type);
}

void fields(auto& text, Is<FollowedValue> auto& value) {
  text("every_epochs", value.every_epochs);
  text("every_steps", value.every_steps);
  text("job", value.job);
  text("mode", value.mode);
  text("tensor", value.tensor);
  text("text", value.text);
  text.remark("where", value.where);
}

void fields(auto& text, Is<EarlyStopping> auto& stopping) {
  text("min_delta", stopping.min_delta);
  text("patience", stopping.patience);
  text("value", stopping.value);
}

void fields(auto& text, Is<ScheduleStage> auto& stage) {
  text.named(stage.function, "learning rate", [&](auto& values) {
    text("boundaries", values.boundaries);
    text("from", stage.from);
    text("rates", values.rates);
    text("type", values.type);
    text("values", values.numbers);
  });
  text("warmup", stage.warmup);
}

void fields(auto& text, Is<Schedule> auto& schedule) {
  text.named(schedule.function, "learning rate", [&](auto& values) {
    text("boundaries", values.boundaries);
    text.given("follows", schedule.follows);
    text("rates", values.rates);
    text.given("stages", schedule.stages);
    text("type", values.type);
    text("values", values.numbers);
  });
  text("warmup", schedule.warmup);
}

void fields(auto& text, Is<DynamicLossScale> auto& scale) {
  text("factor", scale.factor);
  text("scale", scale.scale);
}

void fields(auto& text, Is<Optimizer> auto& optimizer) {
  text.given("gradient_norm", optimizer.gradient_norm);
  text("learning_rate", optimizer.learning_rate);
  text("loss", optimizer.loss);
  text("loss_name", optimizer.loss_name);
  text("loss_scale", optimizer.loss_scale);
  text("type", optimizer.type);
  text.remark("where", optimizer.where);
}

void fields(auto& text, Is<NameRule> auto& rule) {
  text.given("concat", rule.concat);
  text.given("copy", rule.copy);
  text("from", rule.from);
  text.given("ignore", rule.ignore);
  text.given("perm", rule.perm);
  text.given("reshape", rule.reshape);
  text.given("sizes", rule.sizes);
  text.given("split", rule.split);
  text.given("to", rule.to);
  text.remark("where", rule.where);
}

void fields(auto& text, Is<Checkpointing> auto& checkpoint) {
  text("every_epochs", checkpoint.every_epochs);
  text.given("every_minutes", checkpoint.every_minutes);
  text("every_steps", checkpoint.every_steps);
  text("keep", checkpoint.keep);
  text.given("keep_best", checkpoint.keep_best);
  text.one_or_more("load", checkpoint.load);
  text.remarks("load_where", checkpoint.load_where);
  text.given("names", checkpoint.names);
  text.given("rolls", checkpoint.rolls);
  text("save", checkpoint.save);
  text.remark("save_where", checkpoint.save_where);
}

void fields(auto& text, Is<SubJob> auto& also) {
  text.given("averaged", also.averaged);
  text("every_epochs", also.every_epochs);
  text("every_steps", also.every_steps);
  text("job", also.job);
  text.remark("where", also.where);
}

void fields(auto& text, Is<Run> auto& run) {
  text("also", run.also);
  text("checkpoint", run.checkpoint);
  text.given("data_threads", run.data_threads);
  text.given("early_stopping", run.early_stopping);
  text("epochs", run.epochs);
  text("fail_on_nonfinite", run.fail_on_nonfinite);
  text("log_every", run.log_every);
  text("pipeline", run.pipeline);
  text.given("sampling", run.sampling);
  text("shuffle", run.shuffle);
  text.given("shuffle_buffer", run.shuffle_buffer);
  text("steps", run.steps);
}

/// The steps are written as a number, not as a name, because no step may follow those of the
/// shards.
void fields(auto& text, Is<Sharding> auto& sharding) {
  text("count", sharding.count);
  text("steps", sharding.steps.value);
}

/// Steps are written as numbers, like those of shards.
void fields(auto& text, Is<Loop> auto& loop) {
  text("end", loop.end.value);
  text("first", loop.first.value);
  text("passes", loop.passes);
  text("states", loop.states);
  text("until", loop.until);
}

void fields(auto& text, Is<DeviceRange> auto& range) {
  text("first", range.first);
  text("last", range.last);
  text("machine", range.machine);
}

template <>
inline constexpr bool kSpread<Job> = true;

void fields(auto& text, Is<Job> auto& job) {
  text.names_of(job);  // ids are written as names, which change less from plan to plan than numbers
  text("datasets", job.datasets);
  text("deterministic", job.deterministic);
  text("device", job.device);
  text("devices", job.devices);
  text("hooks", job.hooks);
  text.given("ids", job.ids);
  text("inputs", job.inputs);
  text.given("loop", job.loop);
  text("name", job.name);
  text("optimizer", job.optimizer);
  text("precision", job.precision);
  text("returns", job.returns);
  text("run", job.run);
  text("seed", job.seed);
  text.given("shards", job.sharding);
  text("steps", job.steps);
  text("tensors", job.tensors);
  text("train", job.train);
  text("variables", job.variables);
  text.remark("where", job.where);
}

/// A plan as it is stored in a file.
struct Document {
  std::string checksum, hash;  // 16 hex digits each
  Plan plan;
};
template <>
inline constexpr bool kSpread<Document> = true;

void fields(auto& text, Is<Document> auto& document) {
  text.remark("checksum", document.checksum);
  text.remark("hash", document.hash);
  text("jobs", document.plan.jobs);
  text.remark("notes", document.plan.notes);
  text.remark("root", document.plan.root);
  text.remark("source", document.plan.source);
  text("version", document.plan.version);
}

void fields(auto& text, Is<DecisionRecord> auto& record) {
  text("bad", record.bad);
  text.given("best", record.best);
  text("cooldown", record.cooldown);
  text("mode", record.mode);
  text.given("rate", record.rate);
  text("step", record.step);
  text("watch", record.watch);
}

template <>
inline constexpr bool kSpread<CheckpointRecord> = true;

void fields(auto& text, Is<CheckpointRecord> auto& record) {
  text("also", record.also);
  text.given("checksum", record.checksum);
  text("checksums", record.checksums);
  text.given("data", record.data);
  text.given("decisions", record.decisions);
  text("epoch", record.epoch);
  text.given("inputs", record.inputs);
  text("job", record.job);
  text.given("learned", record.learned);
  text.given("metrics_rows", record.metrics_rows);
  text("plan_hash", record.plan_hash);
  text("resume_hash", record.resume_hash);
  text("row", record.row);
  text("seed", record.seed);
  text("step", record.step);
  text.given("sums", record.sums);
  text("version", record.version);
}

void fields(auto& text, Is<FileStamp> auto& stamp) {
  text("changed", stamp.changed);
  text("inode", stamp.inode);
  text("modified", stamp.modified);
  text("size", stamp.size);
}

void fields(auto& text, Is<OutputRecord> auto& output) {
  text("bytes", output.bytes);
  text("digest", output.digest);
}

void fields(auto& text, Is<DataFileRecord> auto& file) {
  text("digest", file.digest);
  text("name", file.name);
  text("size", file.size);
}

template <>
inline constexpr bool kSpread<FilesRecord> = true;

void fields(auto& text, Is<FilesRecord> auto& record) {
  text("checksum", record.checksum);
  text("data", record.data);
  text.given("files", record.files);
  text("outputs", record.outputs);
  text("version", record.version);
}

}  // namespace flow::plan
