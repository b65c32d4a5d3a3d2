// The small JSON files of a run directory.
#include "runtime/plan/json/records.h"

#include <fmt/format.h>

#include <cmath>

#include "runtime/base/error.h"
#include "runtime/base/names.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/json/structs.h"

namespace flow::plan {

namespace {

std::string number(double value) {
  return std::isfinite(value) ? json_number(value) : std::string("null");
}

/// The beginning `{"step":4,...` of a line; the caller continues it with a comma.
std::string opened(const MetricsPlace& place) {
  std::string text = fmt::format(R"({{"step":{},"epoch":{},"job":{})", place.step, place.epoch,
                                 json_string(place.job));
  if (place.job_step) text += fmt::format(R"(,"job_step":{})", *place.job_step);
  return text;
}

}  // namespace

std::string to_json_line(const Metrics& metrics) {
  std::string more;
  if (metrics.gradient_norm) more = R"(,"gradient_norm":)" + number(*metrics.gradient_norm);
  if (metrics.loss_scale) more += R"(,"loss_scale":)" + number(*metrics.loss_scale);
  if (metrics.skipped) more += R"(,"skipped":true)";
  if (metrics.main_step) more += fmt::format(R"(,"main_step":{})", *metrics.main_step);
  return fmt::format(R"({{"step":{},"epoch":{},"loss":{},"learning_rate":{},"seconds":{}{}}})",
                     metrics.step, metrics.epoch, number(metrics.loss),
                     number(metrics.learning_rate), number(metrics.seconds), more);
}

MetricsPlace metrics_place(const std::string& job, int64_t step, int64_t epoch,
                           const std::optional<CallPlace>& call) {
  if (!call) return {step, epoch, job};
  return {call->step, call->epoch, job, step};
}

std::string to_json_line(const ReducedMetrics& metrics) {
  return fmt::format(R"({},"name":{},"label":{},"value":{}}})", opened(metrics.place),
                     json_string(metrics.name), json_string(metrics.label), metrics.value);
}

std::string to_json_line(const CalledMetrics& metrics) {
  return fmt::format(R"({},"loss":{},"learning_rate":{}}})", opened(metrics.place),
                     number(metrics.loss), number(metrics.learning_rate));
}

namespace {

template <typename Record>
std::string sealed(Record record) {
  record.checksum = kNoChecksum;
  return with_checksum(JsonWriter(JsonWriter::Remarks::kKept).write(record));
}

[[noreturn]] void refuse_damaged(const std::string& path, const std::string& what) {
  throw RequestError(fmt::format("{}: {}", path, what),
                     "the checkpoint is damaged; use another one");
}

void require_sealed(const std::string& text, const std::string& path) {
  if (!has_checksum(text)) refuse_damaged(path, "the checksum does not match");
}

}  // namespace

std::string to_json(const CheckpointRecord& record) { return sealed(record); }

CheckpointRecord checkpoint_from_json(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  CheckpointRecord record;
  JsonReader(json, path).read(record);
  const auto refuse = [&path](const std::string& what) { refuse_damaged(path, what); };
  if (record.version != CheckpointRecord().version)
    refuse(fmt::format("unsupported checkpoint version {}; expected {}", record.version,
                       CheckpointRecord().version));
  const auto check_count = [&](const std::string& what, int64_t count) {
    if (count < 0 || count > kMostSteps)
      refuse(fmt::format("{} is {}; expected 0 to {}", what, count, kMostSteps));
  };
  check_count("step", record.step);
  check_count("epoch", record.epoch);
  check_count("row", record.row);
  check_count("metrics_rows", record.metrics_rows.value_or(0));
  for (const auto& [decision, state] : record.decisions.value_or(DecisionRecords())) {
    check_count(fmt::format("step of `{}`", decision), state.step);
    check_count(fmt::format("count of `{}`", decision), state.bad);
    check_count(fmt::format("cooldown of `{}`", decision), state.cooldown);
    if (std::isnan(state.best.value_or(0)) || !(state.rate.value_or(0) >= 0))
      refuse(fmt::format("a number of `{}` is out of range", decision));
  }
  for (const auto& [job, steps] : record.also) check_count(fmt::format("step of `{}`", job), steps);
  for (const auto& [file, checksum] : record.checksums)
    if (!is_safe_name(file)) refuse(fmt::format("invalid checkpoint file name `{}`", file));
  if (record.checksum) require_sealed(text, path);
  return record;
}

std::string to_json(const FilesRecord& record) { return sealed(record); }

FilesRecord files_from_json(const std::string& text, const std::string& path) {
  const Json json = parse_json(text, path);
  FilesRecord record;
  JsonReader(json, path).read(record);
  require_sealed(text, path);
  return record;
}

std::string to_json(const ScopeRecord& record) {
  OrderedJson arrays = OrderedJson::array();
  for (const ScopeRecord::Array& array : record.arrays)
    arrays.push_back(OrderedJson{{"name", array.name},
                                 {"event", array.event},
                                 {"op", array.op},
                                 {"dtype", array.dtype},
                                 {"shape", array.shape}});
  const OrderedJson json{
      {"scope", record.scope}, {"placement", record.placement}, {"arrays", arrays}};
  return json.dump(2) + "\n";
}

std::string to_json(const RunRecord& record) {
  OrderedJson json{{"job", record.job},
                   {"source", record.source},
                   {"plan_hash", record.plan_hash},
                   {"overrides", record.overrides},
                   {"seed", record.seed},
                   {"host", record.host},
                   {"device", record.device},
                   {"instruction_set", record.instruction_set},
                   {"version", record.version},
                   {"libraries", record.libraries},
                   {"threads", record.threads},
                   {"started", record.started},
                   {"first_step", record.first_step},
                   {"last_step", record.last_step},
                   {"epochs", record.epochs},
                   {"seconds", record.seconds},
                   {"seconds_to_first_step", record.seconds_to_first_step},
                   {"arena_bytes", record.arena_bytes},
                   {"peak_memory_bytes", record.peak_memory_bytes},
                   {"stop_reason", record.stop_reason},
                   {"exit_status", record.exit_status},
                   {"error", record.error}};
  if (record.load.size() == 1)
    json["load"] = record.load.front();
  else if (!record.load.empty())
    json["load"] = record.load;
  if (record.fingerprint_every > 0) json["fingerprint_every"] = record.fingerprint_every;
  if (record.ranks)
    json["ranks"] = {{"count", record.ranks->count}, {"bytes_a_step", record.ranks->bytes_a_step}};
  for (const auto& [name, data] : record.data) {
    OrderedJson& written = json["data"][name];
    if (data.rows) written["rows"] = *data.rows;
    if (data.bad_rows) written["bad_rows"] = *data.bad_rows;
    written["files"] = data.files;
    written["bytes"] = data.bytes;
    written["digest"] = data.digest;
    if (!data.columns.empty()) written["columns"] = data.columns;
  }
  // Command lines and paths need not be UTF-8. The record is written all the same.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace flow::plan
