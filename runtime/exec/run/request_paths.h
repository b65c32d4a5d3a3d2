// Where what is asked for reads and saves.
#pragma once

#include <optional>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/exec/checkpoint/loaded_variables.h"
#include "runtime/exec/run/run.h"

namespace flow::exec {

/// What the variables are loaded from: `--load`, else the file's words; nothing where it is
/// "none". RequestError where "none" is one of several.
std::vector<LoadedPath> loaded_from(const RunRequest& request);

/// What a run of this request reads: data, the checkpoint, arrays that variables start with.
/// RequestError where an `--input` cannot be read.
std::vector<fs::path> paths_read(const RunRequest& request);

/// Where `save` goes, links followed. RequestError when it is there and no checkpoint, is a file's
/// name, or cannot be written.
std::optional<fs::path> save_target(const RunRequest& request);

}  // namespace flow::exec
