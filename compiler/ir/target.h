// The device that a plan is made for.
#pragma once

#include "runtime/plan/model/plan.h"

namespace flow {

/// What the plan is for. `auto` placements become `device` of it; `gpu` and `cpu` stay what they
/// are, wherever the plan is made.
struct Target {
  plan::DeviceKind device = plan::DeviceKind::kCpu;
  bool forced = false;  // `--device cpu`: placements of the file give way
};

}  // namespace flow
