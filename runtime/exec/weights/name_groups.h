// Names that differ in numbers only, and how much alike names of two programs are.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/shape.h"

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

}  // namespace flow::exec
