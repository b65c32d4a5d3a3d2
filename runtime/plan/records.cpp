// The small JSON files of a run directory.
#include "runtime/plan/records.h"

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/plan/json.h"

namespace flow::plan {

namespace {

constexpr int kIndent = 2;

/// JSON has no NaN and no infinities.
OrderedJson finite_or_null(double value) {
  return std::isfinite(value) ? OrderedJson(value) : OrderedJson(nullptr);
}

}  // namespace

std::string to_json_line(const Metrics& metrics) {
  return OrderedJson{{"step", metrics.step},
                     {"epoch", metrics.epoch},
                     {"loss", finite_or_null(metrics.loss)},
                     {"learning_rate", metrics.learning_rate},
                     {"seconds", metrics.seconds}}
      .dump();
}

std::string to_json(const CheckpointRecord& record) {
  return OrderedJson{{"flow_checkpoint", 1},
                     {"job", record.job},
                     {"step", record.step},
                     {"epoch", record.epoch},
                     {"row", record.row},
                     {"seed", record.seed},
                     {"plan_hash", record.plan_hash},
                     {"resume_hash", record.resume_hash},
                     {"files", record.checksums}}
             .dump(kIndent) +
         "\n";
}

CheckpointRecord checkpoint_from_json(const std::string& text, const std::string& path) {
  try {
    const Json json = Json::parse(text);
    if (json.at("flow_checkpoint").get<int>() != 1)
      throw RequestError(path + ": a checkpoint of another version");
    CheckpointRecord record;
    json.at("job").get_to(record.job);
    json.at("step").get_to(record.step);
    json.at("epoch").get_to(record.epoch);
    json.at("row").get_to(record.row);
    json.at("seed").get_to(record.seed);
    json.at("plan_hash").get_to(record.plan_hash);
    json.at("resume_hash").get_to(record.resume_hash);
    json.at("files").get_to(record.checksums);
    if (record.step < 0 || record.epoch < 0 || record.row < 0)
      throw RequestError(path + ": a negative step, epoch or row");
    return record;
  } catch (const Json::exception& error) {
    throw RequestError(
        path + ": not a checkpoint's record",
        "a checkpoint is a directory that `flowrun` wrote, with its checkpoint.json");
  }
}

std::string to_json(const RunRecord& record) {
  const int64_t steps = record.last_step - record.first_step;
  OrderedJson json{
      {"job", record.job},
      {"source", record.source},
      {"plan_hash", record.plan_hash},
      {"overrides", record.overrides},
      {"seed", record.seed},
      {"device", record.device},
      {"instruction_set", record.instruction_set},
      {"threads", record.threads},
      {"version", record.version},
      {"libraries", record.libraries},
      {"first_step", record.first_step},
      {"last_step", record.last_step},
      {"epochs", record.epochs},
      {"seconds", record.seconds},
      {"seconds_to_first_step", record.seconds_to_first_step},
      {"steps_per_second", record.seconds > 0 ? static_cast<double>(steps) / record.seconds : 0},
      {"arena_bytes", record.arena_bytes},
      {"peak_memory_bytes", record.peak_memory_bytes},
      {"exit_status", record.exit_status}};
  if (!record.error.empty()) json["error"] = record.error;
  return json.dump(kIndent, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace flow::plan
