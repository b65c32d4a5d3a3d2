// `--set PATH=YAML`, `--set +PATH=YAML` and `--set ~PATH`: changes to the tree before it is read.
#pragma once

#include <string>
#include <vector>

#include "compiler/job/text/reader.h"

namespace flow::job {

/// Applies the overrides in order to the top-level mapping `file`. Each becomes a source of its
/// own, so that messages about it, and about values it brings, point into `--set ...`.
void apply_overrides(Reader& reader, yaml::Node& file, const std::vector<std::string>& sets);

}  // namespace flow::job
