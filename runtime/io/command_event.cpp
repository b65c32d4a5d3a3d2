// The encoding of events as the bytes that a command reads.
#include "runtime/io/commands.h"

#include <fmt/format.h>

#include "runtime/base/text.h"
#include "runtime/io/npy.h"
#include "runtime/io/numpy_text.h"
#include "runtime/plan/json/json.h"

namespace flow::io {

namespace {

using plan::json_string;
using plan::ReturnValue;

void append_structure(const ReturnValue& value, int64_t devices, size_t& next, std::string& text) {
  if (value.kind == ReturnValue::Kind::kNumpy) {
    text += std::to_string(next++);
    return;
  }
  if (value.kind == ReturnValue::Kind::kListNumpy) {
    for (int64_t device = 0; device < devices; ++device)
      text += fmt::format("{}{}", device == 0 ? "[" : ",", next++);
    text += ']';
    return;
  }
  const bool dict = value.kind == ReturnValue::Kind::kDict;
  text += dict ? '{' : '[';
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (i > 0) text += ',';
    if (dict) text += json_string(value.keys[i]) + ':';
    append_structure(value.items[i], devices, next, text);
  }
  text += dict ? '}' : ']';
}

/// Returns the elements separated by spaces, with one line for each index of the first axis.
std::string rows_text(const ArrayView& array) {
  const int rank = array.shape.rank();
  const int64_t rows = rank > 0 ? array.shape[0] : 1;
  const int64_t columns = rank > 0 ? array.shape.elements(1, rank) : 1;
  std::string text;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column) {
      text += format_element(array, row * columns + column);
      text += column + 1 < columns ? ' ' : '\n';
    }
  return text;
}

std::string extents_text(const Shape& shape) {
  std::vector<std::string> extents;
  for (const int64_t extent : shape) extents.push_back(std::to_string(extent));
  return join(extents, ",");
}

std::string call_json(const CommandEvent& event) {
  if (!event.call) return {};
  return fmt::format(R"("main_step":{},"main_epoch":{},)", event.call->step, event.call->epoch);
}

std::string array_json(const Encoded& array) {
  return fmt::format(R"({{"name":{},"dtype":"{}","shape":[{}],"bytes":{}}})",
                     json_string(array.name), name_of(array.dtype), extents_text(array.shape),
                     array.bytes());
}

}  // namespace

std::string structure_of(const ReturnValue& value, int64_t devices) {
  std::string text;
  size_t next = 0;
  append_structure(value, devices, next, text);
  return text;
}

Encoded::Encoded(const NamedArray& array, plan::CommandSink::Format format)
    : name(array.name),
      dtype(Delivered::dtype_of(array.value.dtype)),
      shape(array.value.shape),
      delivered_(array.value.dtype, array.value.shape) {
  body = delivered_(array.value);
  if (format == plan::CommandSink::Format::kNpy) {
    head = npy_header(dtype, shape);
  } else {
    head = rows_text(body);
    body.data = nullptr;
  }
}

std::string event_line(const std::string& job, const CommandEvent& event,
                       const std::vector<Encoded>& arrays) {
  std::vector<std::string> texts;
  for (const Encoded& array : arrays) texts.push_back(array_json(array));
  std::string more = call_json(event);
  if (!event.scope.empty())
    more += fmt::format(R"("scope":{},"op":{},"placement":{},)", json_string(event.scope),
                        json_string(event.op), json_string(event.placement));
  return fmt::format(
      R"({{"flow":1,"event":"{}","job":{},"name":{},"step":{},"epoch":{},{}"value":{},"arrays":[{}]}})"
      "\n",
      event.kind, json_string(job), json_string(event.name), event.step, event.epoch, more,
      event.value, join(texts, ","));
}

std::string pass_end_line(const std::string& job, const CommandEvent& event) {
  return fmt::format(
      R"({{"flow":1,"event":"pass_end","job":{},"step":{},"epoch":{},{}"arrays":[]}})"
      "\n",
      json_string(job), event.step, event.epoch, call_json(event));
}

std::string start_line(const std::string& job, const std::string& plan_hash,
                       const std::vector<std::string>& names, std::optional<int64_t> resumed_from) {
  std::vector<std::string> texts;
  for (const std::string& name : names) texts.push_back(json_string(name));
  return fmt::format(
      R"({{"flow":1,"event":"start","job":{},"plan":"{}","names":[{}],"resumed_from":{},"arrays":[]}})"
      "\n",
      json_string(job), plan_hash, join(texts, ","),
      resumed_from ? std::to_string(*resumed_from) : "null");
}

std::string end_line(const std::string& job, std::string_view status) {
  return fmt::format(R"({{"flow":1,"event":"end","job":{},"status":"{}","arrays":[]}})"
                     "\n",
                     json_string(job), status);
}

std::map<std::string, std::string> event_environment(const std::string& job,
                                                     const CommandEvent& event,
                                                     const std::vector<Encoded>& arrays) {
  std::vector<std::string> dtypes, shapes;
  for (const Encoded& array : arrays) {
    dtypes.emplace_back(name_of(array.dtype));
    shapes.push_back(extents_text(array.shape));
  }
  std::map<std::string, std::string> variables = {{"FLOW_EVENT", event.kind},
                                                  {"FLOW_JOB", job},
                                                  {"FLOW_NAME", event.name},
                                                  {"FLOW_STEP", std::to_string(event.step)},
                                                  {"FLOW_EPOCH", std::to_string(event.epoch)},
                                                  {"FLOW_DTYPE", join(dtypes, ";")},
                                                  {"FLOW_SHAPE", join(shapes, ";")}};
  if (event.call) {
    variables["FLOW_MAIN_STEP"] = std::to_string(event.call->step);
    variables["FLOW_MAIN_EPOCH"] = std::to_string(event.call->epoch);
  }
  return variables;
}

}  // namespace flow::io
