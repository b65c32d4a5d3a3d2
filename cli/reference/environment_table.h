// The environment variables that the programs read, and those that commands get.
#pragma once

#include <span>
#include <string_view>

namespace flow::cli {

struct EnvironmentRow {
  std::string_view name, doc;
  bool only_flowrun = false;  // the other programs do not read it
};

/// Read by the programs.
std::span<const EnvironmentRow> environment_read();
/// Set for the commands of hooks and returns.
std::span<const EnvironmentRow> environment_of_commands();

}  // namespace flow::cli
