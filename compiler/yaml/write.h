// A tree as the text of a job file.
#pragma once

#include <string>

#include "compiler/yaml/tree.h"

namespace flow::yaml {

/// Reads back as the same tree. Collections that hold nothing but mappings stand in lines of their
/// own, others in one where it fits.
std::string write(const Node& mapping);

}  // namespace flow::yaml
