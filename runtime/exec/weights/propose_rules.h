// Rules for names that nobody has written yet, by shapes and similar names.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/weights/name_map.h"

namespace flow::exec {

struct ProposedRule {
  plan::NameRule rule;
  std::string remark = {};  // what to check; may be empty
};

/// Rules for arrays that no rule matches and variables that get no array, in the order of the
/// variables; last, arrays that can be ignored. A proposal, not a proof: names are only similar.
std::vector<ProposedRule> propose_rules(const NameMap& map);

/// The rule as an item of YAML: `{from: "x", to: "y"}`.
std::string yaml_text(const plan::NameRule& rule);

}  // namespace flow::exec
