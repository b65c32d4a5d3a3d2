// What does not fit is refused before anything is allocated.
#include <algorithm>
#include <string>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/memory.h"

namespace flow::exec {
namespace {

RunError too_large(const plan::Job& job, size_t needed, size_t available, std::string_view kind,
                   const std::string& largest) {
  return RunError(fmt::format("{}: job `{}` needs {} of {}; {} available; largest: {}", job.where,
                              job.name, human_bytes(needed), kind, human_bytes(available), largest),
                  "use a smaller batch");
}

}  // namespace

void check_tensors_fit(const plan::Job& job, size_t available, std::string_view kind) {
  const auto check = [&](const plan::Tensor& tensor, size_t bytes) {
    if (bytes > available) throw too_large(job, bytes, available, kind, "`" + tensor.name + "`");
  };
  for (const plan::Tensor& tensor : job.tensors)
    if (tensor.role != plan::Role::kResult) check(tensor, whole_bytes_of(job, tensor));
  // Results that no step makes are another device's.
  for (const plan::Step& step : job.steps)
    for (const plan::TensorId id : step.outputs)
      if (id.valid()) check(job[id], bytes_of(job[id]));
}

void check_memory_fits(const plan::Job& job, size_t needed, const MemoryReport& report,
                       size_t available, std::string_view kind) {
  if (needed <= available) return;
  std::vector<std::string> largest;
  for (const MemoryReport::Holder& holder : report.at_peak) {
    if (largest.size() == 3) break;
    largest.push_back(fmt::format("`{}` {}", holder.name, human_bytes(holder.bytes)));
  }
  throw too_large(job, needed, available, kind, join(largest, ", "));
}

}  // namespace flow::exec
