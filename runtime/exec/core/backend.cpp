// Which steps run only for what is delivered: seen from the end of the call. Numbers that a call
// delivers. Errors of steps.
#include "runtime/exec/core/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "runtime/exec/core/kernel.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::exec {

std::vector<std::vector<size_t>> readers_of_probes(const plan::Job& job,
                                                   std::span<const plan::TensorId> deliverables,
                                                   std::span<const TransferredTensor> transferred) {
  std::vector<std::vector<size_t>> needed_by(job.tensors.size()), probes(job.steps.size());
  for (size_t i = 0; i < deliverables.size(); ++i)
    if (deliverables[i].valid()) needed_by[deliverables[i].index()].push_back(i);
  for (const TransferredTensor& tensor : transferred)
    needed_by[tensor.tensor.index()] = tensor.wanted_by;
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    if (!step.probe) continue;
    std::vector<size_t>& readers = probes[i];
    for (plan::TensorId id : step.outputs) {
      if (!id.valid()) continue;
      const std::vector<size_t>& more = needed_by[id.index()];
      readers.insert(readers.end(), more.begin(), more.end());
    }
    std::ranges::sort(readers);
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    plan::visit_operands(step, [&](plan::TensorId id) {
      needed_by[id.index()].insert(needed_by[id.index()].end(), readers.begin(), readers.end());
    });
  }
  return probes;
}

double delivered_scalar(const Program& program, plan::TensorId tensor, size_t slot) {
  const std::span<const std::byte> bytes = program.delivered(tensor, slot);
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, bytes.data(), sizeof value);
    return static_cast<double>(value);
  };
  return bytes.size() == sizeof(double) ? read(double{}) : read(float{});
}

RunError at_step(const plan::Step& step, const RunError& error) {
  return error.at(fmt::format("{}: step `{}`", step.where, step.name));
}

}  // namespace flow::exec
