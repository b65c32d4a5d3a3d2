// A tree as the text of a job file.
#pragma once

#include <string>

#include "compiler/yaml/tree.h"

namespace flow::yaml {

/// Reads back as the same tree. Collections that contain only mappings are written in block style,
/// others on one line if they fit.
std::string write(const Node& mapping);

}  // namespace flow::yaml
