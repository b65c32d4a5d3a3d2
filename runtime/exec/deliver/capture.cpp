// Chooses steps by name, and delivers their operands and results.
#include "runtime/exec/deliver/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/model/operands.h"
#include "runtime/plan/model/schedule.h"

namespace flow::exec {
namespace {

using plan::TensorId;

bool makes(const plan::Job& job, const plan::Step& step, const std::string& tensor) {
  return std::ranges::any_of(step.outputs,
                             [&](TensorId id) { return id.valid() && job[id].name == tensor; });
}

/// Those of that name; else that make the tensor; else the forward ones below the name.
std::vector<const plan::Step*> steps_of_entry(const plan::Job& job, const std::string& entry) {
  std::vector<const plan::Step*> named, making, below;
  for (const plan::Step& step : job.steps) {
    if (step.probe) continue;
    if (step.name == entry) named.push_back(&step);
    if (makes(job, step, entry)) making.push_back(&step);
    const bool forward = step.name.find(':') == std::string::npos;
    if (forward && step.name.starts_with(entry + "/")) below.push_back(&step);
  }
  return !named.empty() ? named : !making.empty() ? making : below;
}

[[noreturn]] void refuse_entry(const plan::Job& job, const std::string& entry) {
  std::vector<std::string> names;
  for (const plan::Step& step : job.steps)
    if (!step.probe) names.push_back(step.name);
  const std::vector<std::string> near = suggest(entry, names);
  throw RequestError(fmt::format("--capture: job `{}` has no step `{}`", job.name, entry),
                     near.empty()
                         ? fmt::format("list the steps with flowc show --job {} --steps", job.name)
                         : fmt::format("did you mean {}?", quoted_alternatives(near)));
}

class Captured {
 public:
  Captured(const plan::Job& job, const std::vector<bool>& own, int64_t step)
      : job_(job), own_(own), step_(step) {}

  void add(const char* folder, TensorId tensor, const std::string& where) {
    if (!tensor.valid() || own_[tensor.index()] || !seen_.insert({folder, tensor}).second) return;
    Delivery delivery;
    delivery.tensor = tensor;
    delivery.name = delivery.label = job_[tensor].name;
    delivery.folder = fmt::format("{}/{}/{}", kCaptureFolder, folder, delivery.name);
    delivery.steps = {{step_, step_ + 1, 1}};
    delivery.sinks = {plan::NpySink{.per_step = true}};
    delivery.where = where;
    deliveries.push_back(std::move(delivery));
  }

  std::vector<Delivery> deliveries;

 private:
  const plan::Job& job_;
  const std::vector<bool>& own_;
  const int64_t step_;
  std::set<std::pair<std::string, TensorId>> seen_;
};

}  // namespace

CaptureRequest parse_capture(const std::string& text) {
  const size_t at = text.rfind('@');
  const auto step = at == text.npos ? std::nullopt : whole_number(text.substr(at + 1));
  if (!step || at == 0 || *step < 0 || *step >= plan::kMostSteps)
    throw RequestError(fmt::format("--capture: invalid value `{}`; expected ENTRY@STEP", text),
                       "name a step of the plan and a global step: --capture lenet/conv1@20");
  return {text.substr(0, at), *step};
}

std::vector<Delivery> list_captured(const plan::Job& job, const std::vector<bool>& own,
                                    const CaptureRequest& request) {
  const std::vector<const plan::Step*> steps = steps_of_entry(job, request.entry);
  if (steps.empty()) refuse_entry(job, request.entry);
  std::set<TensorId> made;
  for (const plan::Step* step : steps) made.insert(step->outputs.begin(), step->outputs.end());
  Captured captured(job, own, request.step);
  for (const plan::Step* step : steps)
    plan::visit_operands(*step, [&](TensorId id) {
      if (!made.contains(id)) captured.add("inputs", id, step->where);
    });
  for (const plan::Step* step : steps)
    for (const TensorId id : step->outputs) captured.add("outputs", id, step->where);
  return std::move(captured.deliveries);
}

}  // namespace flow::exec
