// The devices that `ids` names, one by one.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/plan/model/plan.h"

namespace flow::plan {

/// A device by its index on a machine. Machines have numbers, not names.
struct DeviceId {
  int64_t machine = 0, device = 0;

  auto operator<=>(const DeviceId&) const = default;
};

/// In the order of the ranges.
std::vector<DeviceId> devices_of(std::span<const DeviceRange> ids);

/// A device that the ranges name twice, or nothing.
std::optional<DeviceId> device_named_twice(std::span<const DeviceRange> ids);

/// How many machines the ranges name.
size_t machines_of(std::span<const DeviceRange> ids);

/// As a job file writes them: `"0:0-3", "1:0"`.
std::string ids_text(std::span<const DeviceRange> ids);

}  // namespace flow::plan
