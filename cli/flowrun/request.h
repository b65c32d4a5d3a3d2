// What flowrun's options ask of the compiler and of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/flowrun/options.h"
#include "compiler/compile.h"

namespace flow::cli {

/// `gpu`: is one usable?
CompileRequest compile_request(const RunOptions& options, bool gpu);

/// NAME and SPEC of each `--input NAME=SPEC`. RequestError where one has no `=`.
std::vector<std::pair<std::string, std::string>> inputs_of(const RunOptions& options);

}  // namespace flow::cli
