// Files of the source tree that tests read.
#pragma once

#include <filesystem>
#include <string_view>

namespace flow::test {

/// Of a file or folder, from the root of the source tree on: "jobs/lenet.yaml".
std::filesystem::path source_path(std::string_view name);

}  // namespace flow::test
