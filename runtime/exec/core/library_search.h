// Where NVIDIA's libraries may be beyond the places that the loader knows: beside flow, in a CUDA
// toolkit, or in the wheels of a Python environment, as PyTorch installs them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/core/environment.h"

namespace flow::exec {

/// Folders to search, in their order, as far as they exist. `own`: the folder of flow.
std::vector<fs::path> nvidia_folders(const fs::path& own, const Environment& environment);

/// The same for this process.
std::vector<fs::path> nvidia_folders();

/// Opens the library of that file name from the first folder where that succeeds. It stays open:
/// what needs it by its name finds it.
bool open_from(const std::vector<fs::path>& folders, const std::string& library);

/// The libraries of NVIDIA that this process has opened: files by their names, "libcudnn.so.9".
std::map<std::string, std::string> opened_nvidia_libraries();

}  // namespace flow::exec
