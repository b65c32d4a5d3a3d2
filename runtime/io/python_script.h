// Python scripts that run as commands.
#pragma once

#include "runtime/io/process.h"

namespace flow::io {

/// Whether the command runs a script with Python that imports NumPy, directly or through
/// `flowhook`, and that Python has no NumPy. False where this cannot be decided.
bool lacks_numpy(const ProcessOptions& command);

}  // namespace flow::io
