// Counts and lists the devices of ranges and of jobs.
#include "runtime/plan/model/device_ids.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runtime/plan/model/enum_names.h"

namespace flow::plan {

std::vector<DeviceId> devices_of(std::span<const DeviceRange> ids) {
  std::vector<DeviceId> devices;
  for (const auto& [machine, first, last] : ids)
    for (int64_t device = first; device <= last; ++device) devices.push_back({machine, device});
  return devices;
}

std::optional<DeviceId> device_named_twice(std::span<const DeviceRange> ids) {
  std::vector<DeviceId> devices = devices_of(ids);
  std::ranges::sort(devices);
  const auto twice = std::ranges::adjacent_find(devices);
  if (twice == devices.end()) return {};
  return *twice;
}

size_t machines_of(std::span<const DeviceRange> ids) {
  std::set<int64_t> machines;
  for (const DeviceRange& range : ids) machines.insert(range.machine);
  return machines.size();
}

std::string ids_text(std::span<const DeviceRange> ids) {
  std::string text;
  for (const auto& [machine, first, last] : ids)
    text += fmt::format("{}\"{}:{}{}\"", text.empty() ? "" : ", ", machine, first,
                        last == first ? "" : fmt::format("-{}", last));
  return text;
}

std::string_view name_of(DeviceKind device) { return spelled(device); }

bool has_two_devices(const Job& job) {
  const auto is_elsewhere = [](const auto& one) { return one.device.has_value(); };
  return std::ranges::any_of(job.steps, is_elsewhere) ||
         std::ranges::any_of(job.tensors, is_elsewhere);
}

}  // namespace flow::plan
