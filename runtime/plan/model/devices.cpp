// Which devices a job needs.
#include <algorithm>

#include "runtime/plan/json/fields.h"

namespace flow::plan {

std::string_view name_of(DeviceKind device) { return spelled(device); }

bool has_two_devices(const Job& job) {
  const auto is_elsewhere = [](const auto& one) { return one.device.has_value(); };
  return std::ranges::any_of(job.steps, is_elsewhere) ||
         std::ranges::any_of(job.tensors, is_elsewhere);
}

}  // namespace flow::plan
