// Man pages, completions, and records of ops for tests.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/shared/command_tree.h"

namespace flow::cli {

struct GeneratedFile {
  std::string name, text;
};

/// flowc.1, flowrun.1, flowdiff.1 and flow-job.5.
std::vector<GeneratedFile> man_pages(std::span<const CommandInfo> programs);

/// Completions of each program: bash/NAME, zsh/_NAME, fish/NAME.fish.
std::vector<GeneratedFile> completions(std::span<const CommandInfo> programs);

/// ops.json: the primitives that a job file may name, with their examples.
std::vector<GeneratedFile> op_records();

}  // namespace flow::cli
