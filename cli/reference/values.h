// What completes a value on the command line.
#pragma once

#include <string>
#include <string_view>

#include "cli/shared/command_tree.h"

namespace flow::cli {

/// "files", "folders", "job_files", "runs" (a folder or a file) and "none" are for shells to know.
/// All others are kinds of `flowc complete`.
std::string_view completed_by(const CommandInfo& command, const OptionInfo& option);

}  // namespace flow::cli
