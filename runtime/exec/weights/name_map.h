// Which arrays of a file become which variables, by the rules for names of a job; rules that nobody
// has written yet; and files of weights for other programs, whose names such rules say, too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/exec/weights/stored_variables.h"
#include "runtime/plan/model/name_pattern.h"
#include "runtime/plan/model/name_rules.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

using StoredItem = StoredVariables::Item;

/// A variable that is to be loaded.
struct WantedVariable {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Those that a run of these jobs loads: each once, without the slots of optimizers.
std::vector<WantedVariable> wanted_variables(const std::vector<const plan::Job*>& jobs);

/// The part of an array that a variable gets: all of it where `axis` is absent.
struct AxisRange {
  std::optional<int64_t> axis;
  int64_t begin = 0, size = 0;
};

/// A variable, and what it gets.
struct MappedVariable {
  WantedVariable wanted;
  std::vector<StoredItem> arrays = {};   // in the order of `concat`; none: it gets nothing
  const plan::NameRule* rule = nullptr;  // null: the array is called like the variable
  AxisRange range = {};                  // of the joined arrays, after `perm`
  std::string problem = {};              // why it cannot be loaded; empty: it can
};

/// An array that no variable gets, and why.
struct UnusedArray {
  StoredItem item;
  const plan::NameRule* rule = nullptr;  // that matches it, if one does
  std::string problem = {};

  bool ignored() const { return rule && rule->ignore; }
};

struct NameMap {
  std::vector<MappedVariable> variables;  // all that are wanted, in their order
  std::vector<UnusedArray> unused;        // ignored ones, those of other rules, then the rest
  std::vector<const plan::NameRule*> idle_rules = {};  // that no array is left for
};

/// REQUIRES: the rules have no faults, and outlive the result. Shapes of arrays are compared with
/// those of the variables.
NameMap map_names(const std::vector<StoredItem>& items, std::vector<WantedVariable> wanted,
                  const std::vector<plan::NameRule>& rules);

/// The first rule with a pattern that matches, which pattern, and the captures.
struct RuleMatch {
  size_t rule = 0, position = 0;
  plan::Captures captures = {};
};

/// The names of a rule, parsed. REQUIRES: the rule has no faults.
struct RulePatterns {
  explicit RulePatterns(const plan::NameRule& rule);
  std::vector<plan::NamePattern> from, to;
};

/// Rules with their patterns parsed.
class NameRules {
 public:
  /// REQUIRES: the rules have no faults, and outlive this.
  explicit NameRules(const std::vector<plan::NameRule>& rules);

  std::optional<RuleMatch> match(const std::string& array) const;
  size_t size() const { return rules_.size(); }
  const plan::NameRule& rule(size_t index) const { return rules_[index]; }
  const RulePatterns& patterns(size_t index) const { return patterns_[index]; }

 private:
  const std::vector<plan::NameRule>& rules_;
  std::vector<RulePatterns> patterns_;
};

/// "gpt2.yaml:88:9: "; empty without a rule, or where the rule does not say where it is.
std::string place_of(const plan::NameRule* rule);

/// Arrays are joined, split and transposed when a variable is read.
class MappedVariables : public StoredVariables {
 public:
  /// May variables have no array? Then whoever loads them reports those that nothing has.
  enum class Missing { kRefused, kAllowed };

  /// By the rules of `job`, which outlives this. RequestError that lists all arrays and variables
  /// that do not fit, but for variables that a glob of `optional` matches.
  MappedVariables(std::unique_ptr<StoredVariables> stored, const plan::Job& job,
                  std::vector<WantedVariable> wanted, const std::vector<std::string>& optional,
                  Missing missing = Missing::kRefused);

  const fs::path& path() const override { return stored_->path(); }
  std::vector<Item> items() const override;
  Array read(const std::string& name) const override;
  bool is_replaced() const override { return stored_->is_replaced(); }

 private:
  std::unique_ptr<StoredVariables> stored_;
  std::map<std::string, MappedVariable> variables_;
};

/// A part of an array along an axis. REQUIRES: it has these indices.
void copy_range(const Array& array, const AxisRange& range, std::span<std::byte> out);
/// Arrays one after another along an axis, in which alone they differ.
void join_arrays(const std::vector<Array>& arrays, int64_t axis, std::span<std::byte> out);
/// The array with its axes in another order, or itself where `perm` is empty.
Array transposed(Array array, const std::vector<int64_t>& perm);

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

/// An array to be written, and the variables that it is made of.
struct OriginalArray {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  const plan::NameRule* rule = nullptr;     // null: the variable itself
  std::vector<std::string> variables = {};  // in the order of `to`
  AxisRange range = {};                     // of the variable: a part that `concat` joined
};

/// The arrays that the rules make these variables of, and variables that no rule names, under their
/// own names. RequestError that lists all variables that cannot be turned round. REQUIRES: as
/// map_names.
std::vector<OriginalArray> original_arrays(const std::vector<StoredItem>& variables,
                                           const std::vector<plan::NameRule>& rules);

/// The array. RequestError where copies of it differ.
Array make_original(const StoredVariables& stored, const OriginalArray& original);

/// The arrays of a checkpoint that are variables, without the state of optimizers.
std::vector<StoredItem> weights_in(const StoredVariables& stored);

/// RequestError where the suffix of `path` is not that of a format.
void require_weights_format(const fs::path& path);

/// Writes the arrays to a new file, all or nothing, and returns when it is on the disk. The suffix
/// of `path` is the format.
void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays);

}  // namespace flow::exec
