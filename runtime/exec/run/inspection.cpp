// Losses of a call, and where in the data the value of a fault is.
#include "runtime/exec/run/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>

#include "runtime/base/text.h"

namespace flow::exec {
namespace {

/// "row 3", "[12, 5] (row 3900 of data/labels.npy)"
std::string place_of(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline) {
  const auto operand = std::ranges::find(job.tensors, fault.operand, &plan::Tensor::name);
  if (operand == job.tensors.end() || operand->shape.elements() <= fault.row)
    return fmt::format("row {}", fault.row);
  const std::string place = operand->shape.rank() < 2 ? fmt::format("row {}", fault.row)
                                                      : operand->shape.index_str(fault.row);
  const int64_t batch = input_pipeline.step_index().batch();
  if (batch == 0 || operand->batch_axis != 0 || operand->shape[0] != batch) return place;
  const int64_t row = fault.row / operand->shape.elements(1, operand->shape.rank());
  return fmt::format("{} ({})", place, input_pipeline.row_text(fault.operand, step, row));
}

/// What other programs call a label that does not count; a loss takes it, an index of a table does
/// not.
std::string hint_for(const Fault& fault, const plan::Job& job) {
  constexpr int64_t kIgnored = -100;
  const bool ignores = std::ranges::any_of(job.steps, [&](const plan::Step& step) {
    return step.where == fault.where && step.op->attribute("ignore_index");
  });
  const std::string from_zero = "count labels and indices from 0";
  if (!ignores || fault.value != kIgnored) return from_zero;
  return fmt::format("{}, or write `ignore_index: {}` if such labels do not count", from_zero,
                     kIgnored);
}

}  // namespace

double delivered_scalar(const Program& program, plan::TensorId tensor, size_t slot) {
  const std::span<const std::byte> bytes = program.delivered(tensor, slot);
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<double>(value);
  };
  return bytes.size() == sizeof(double) ? read(double{}) : read(float{});
}

void read_losses(const Program& program, size_t slot, const plan::Job& job, StepRecord& record) {
  const auto scalar = [&](plan::TensorId id) { return delivered_scalar(program, id, slot); };
  record.loss = scalar(job.optimizer->loss);
  record.without_labels = std::isnan(*record.loss) &&
                          std::ranges::any_of(divisors_of_loss(job),
                                              [&](plan::TensorId id) { return scalar(id) == 0; });
  if (job.optimizer->gradient_norm) record.gradient_norm = scalar(*job.optimizer->gradient_norm);
  if (const auto& scale = job.optimizer->loss_scale) {
    record.loss_scale = scalar(scale->scale);
    record.skipped = std::isnan(scalar(scale->factor));
  }
}

std::string text_of_loss(const plan::Optimizer& optimizer, const StepRecord& record) {
  return fmt::format("the loss `{}` is {}{}", optimizer.loss_name, shortest(*record.loss),
                     record.without_labels ? ": all labels are ignored or have weight 0" : "");
}

RunError fault_error(const Fault& fault, int64_t step, const plan::Job& job,
                     const InputPipeline& input_pipeline) {
  return RunError(fmt::format("{}: step {}: `{}` contains {} at {}; expected a value in [0, {})",
                              fault.where, step, fault.operand, fault.value,
                              place_of(fault, step, job, input_pipeline), fault.limit),
                  hint_for(fault, job));
}

}  // namespace flow::exec
