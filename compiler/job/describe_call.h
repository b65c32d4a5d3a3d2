// What an entry that calls an op may say, as people read it.
#pragma once

#include <string>

#include "compiler/ops/op_def.h"

namespace flow::job {

/// What the op takes and makes, and what the language lets every entry that calls it say.
std::string describe_call(const OpDef& op);

}  // namespace flow::job
