// What `flowrun --version --json` prints.
#pragma once

#include <string>

namespace flow::cli {

/// An object on a line: version and build, the CPU, the GPUs or why none is usable, the MPI
/// libraries that flow was built for, and where NVIDIA's libraries were found.
std::string version_report();

}  // namespace flow::cli
