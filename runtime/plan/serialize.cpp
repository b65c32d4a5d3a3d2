// The plan as text, and the hashes that name it.
#include "runtime/plan/serialize.h"

#include <fmt/format.h>

#include "runtime/base/philox.h"
#include "runtime/plan/to_json.h"

namespace flow::plan {

namespace {

std::string hex(uint64_t value) { return fmt::format("{:016x}", value); }

/// Lists of many elements go one element a line, so that diffs read.
std::string job_text(const Job& job) {
  std::string text = "{\n";
  bool first = true;
  for (const auto& [key, value] : json_of(job, true).items()) {
    text += fmt::format("{}{}:", first ? "" : ",\n", Json(key).dump());
    first = false;
    if (!value.is_array() || value.empty()) {
      text += value.dump();
      continue;
    }
    for (size_t i = 0; i < value.size(); ++i) text += (i ? ",\n" : "[\n") + value[i].dump();
    text += "\n]";
  }
  return text + "\n}";
}

}  // namespace

std::string hash(const Plan& plan) {
  std::string text = fmt::format("{}\n{}\n", plan.version, plan.source);
  for (const Job& job : plan.jobs) text += json_of(job, false).dump() + "\n";
  return hex(fnv1a64(text));
}

std::string resume_hash(const Job& job) {
  // By name, without taps: a hook more or less moves indices but changes no number.
  const auto names = [&job](const std::vector<TensorId>& ids) {
    Json list = Json::array();
    for (const TensorId id : ids) list.push_back(id.valid() ? job[id].name : "");
    return list;
  };
  Json whole = json_of(job, false);
  Json steps = Json::array();
  for (size_t i = 0; i < job.steps.size(); ++i) {
    if (job.steps[i].tap) continue;
    Json step = whole["steps"][i];
    step["inputs"] = names(job.steps[i].inputs);
    step["outputs"] = names(job.steps[i].outputs);
    for (size_t p = 0; p < job.steps[i].posts.size(); ++p)
      step["posts"][p]["operands"] = names(job.steps[i].posts[p].operands);
    steps.push_back(std::move(step));
  }
  for (size_t i = 0; i < job.variables.size(); ++i) {
    const Tensor& tensor = job[job.variables[i].tensor];
    whole["variables"][i]["tensor"] = {tensor.name, name_of(tensor.dtype), tensor.shape.extents()};
  }
  for (size_t i = 0; i < job.inputs.size(); ++i) {
    const Tensor& tensor = job[job.inputs[i].tensor];
    whole["inputs"][i]["tensor"] = {tensor.name, name_of(tensor.dtype), tensor.shape.extents()};
  }
  if (job.optimizer) whole["optimizer"]["loss"] = job[job.optimizer->loss].name;
  const Json kept = {{"job", job.name},
                     {"seed", job.seed},
                     {"precision", job.precision},
                     {"steps", steps},
                     {"variables", whole["variables"]},
                     {"datasets", whole["datasets"]},
                     {"inputs", whole["inputs"]},
                     {"optimizer", job.optimizer ? whole["optimizer"] : Json()}};
  return hex(fnv1a64(kept.dump()));
}

std::string to_json(const Plan& plan) {
  // `checksum` covers every byte before it, also those that the hash leaves out.
  std::string text =
      fmt::format("{{\n\"version\":{},\n\"hash\":\"{}\",\n\"source\":{},\n\"root\":{},\n",
                  plan.version, hash(plan), Json(plan.source).dump(), Json(plan.root).dump());
  text += fmt::format("\"notes\":{},\n\"jobs\":[", Json(plan.notes).dump());
  for (size_t i = 0; i < plan.jobs.size(); ++i) text += (i ? ",\n" : "\n") + job_text(plan.jobs[i]);
  text += "\n],\n";
  return text + fmt::format("\"checksum\":\"{}\"\n}}\n", hex(fnv1a64(text)));
}

}  // namespace flow::plan
