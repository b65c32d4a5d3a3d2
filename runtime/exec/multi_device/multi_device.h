// Jobs that run on a CPU and a GPU together: a program of each, which take turns.
#pragma once

#include <memory>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

/// A call returns from its launch when the CPU's turns are over; nothing is launched ahead of one
/// that is not complete. Jobs of one device run as their own backend runs them, in turn.
std::unique_ptr<Backend> make_multi_device_backend(std::unique_ptr<Backend> cpu,
                                                   std::unique_ptr<Backend> gpu);

}  // namespace flow::exec
