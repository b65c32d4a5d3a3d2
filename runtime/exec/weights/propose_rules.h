// Rules for names that nobody has written yet, by shapes and similar names: names that differ in
// numbers only, and how much alike names of two programs are.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/exec/weights/name_map.h"

namespace flow::exec {

/// Arrays or variables of one shape whose names differ in numbers: "h.*.attn.weight".
struct NameGroup {
  std::string pattern;  // a name as it is, where there is only one
  Shape shape;
  std::set<std::vector<std::string>> numbers;  // what `*` stands for, in each name
  std::vector<std::string> words;              // of the pattern, in plain spelling, sorted
  std::vector<std::string> last_words;         // of its last two components
  std::string parent;                          // of the pattern

  size_t wildcards() const { return numbers.begin()->size(); }
};

struct NamedShape {
  std::string name;
  Shape shape;
};

/// Groups in the order of their first names. Names whose shapes differ stay apart.
std::vector<NameGroup> group_names(std::span<const NamedShape> names);

/// How many words an array and a variable have in common. Those of the last components count more,
/// and a fraction is added that is larger where fewer words of the variable are left over.
double similarity(const NameGroup& array, const NameGroup& variable);

/// The name without its last component: "h.*.attn" of "h.*.attn.weight"; "" of one component.
std::string parent_of(const std::string& name);
/// The last component: "weight".
std::string leaf_of(const std::string& name);
/// How many components two names have in common at their start.
size_t common_components(const std::string& a, const std::string& b);

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
