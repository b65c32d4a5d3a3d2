// Follows a tensor to the loss.
#include "runtime/verify/loss_paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/plan/model/operands.h"

namespace flow::verify {
namespace {

/// By tensor: is the loss computed from it? Steps are in the order of execution.
std::vector<bool> ancestors_of(const plan::Job& job, plan::TensorId loss) {
  std::vector<bool> found(job.tensors.size());
  found[loss.index()] = true;
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    const bool leads = std::ranges::any_of(
        step.outputs, [&](plan::TensorId id) { return id.valid() && found[id.index()]; });
    if (leads) plan::visit_operands(step, [&](plan::TensorId id) { found[id.index()] = true; });
  }
  return found;
}

bool casts(const plan::Step& step) {
  const auto is_cast = [](const ops::OpSpec& op) { return op.epilogue == ops::Epilogue::kCast; };
  return is_cast(*step.op) || std::ranges::any_of(step.epilogue, [&](const plan::EpilogueOp& op) {
           return is_cast(*op.op);
         });
}

std::string at(std::string_view op, const plan::Step& step) {
  return fmt::format("{} `{}` ({})", op, step.name, step.where);
}

}  // namespace

std::optional<std::string> broken_path(
    const plan::Job& job, plan::TensorId tensor,
    const std::function<std::string(const std::string&)>& written_op) {
  constexpr std::string_view kStop = "stop_gradient";
  const std::vector<bool> to_loss = ancestors_of(job, job.optimizer->loss);
  std::vector<bool> reached(job.tensors.size());
  reached[tensor.index()] = true;
  for (const plan::Step& step : job.steps) {
    bool reads = false;
    plan::visit_operands(step, [&](plan::TensorId id) { reads = reads || reached[id.index()]; });
    if (!reads) continue;
    bool leads = false, floats = true;
    for (const plan::TensorId id : step.outputs) {
      if (!id.valid() || !to_loss[id.index()]) continue;
      leads = reached[id.index()] = true;
      floats = floats && is_float(job[id].dtype);
    }
    if (!leads) continue;
    if (written_op && written_op(step.name) == kStop) return at(kStop, step);
    if (casts(step)) return at("cast", step);
    if (!floats) return at(step.op->name, step);
  }
  return {};
}

}  // namespace flow::verify
