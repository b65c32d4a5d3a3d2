// `names` of a checkpoint section: rules by which arrays become variables.
#pragma once

#include <vector>

#include "compiler/job/text/reader.h"
#include "runtime/plan/model/name_rules.h"

namespace flow::job {

/// Those rules that have no errors.
std::vector<plan::NameRule> read_name_rules(Reader& reader, const yaml::Node& node);

}  // namespace flow::job
