// Faults of a call as text, in which form they go from rank to rank.
#pragma once

#include <string>

#include "runtime/exec/core/backend.h"

namespace flow::exec {

std::string to_text(const Fault& fault);
/// REQUIRES: to_text made it.
Fault fault_of(const std::string& text);

}  // namespace flow::exec
