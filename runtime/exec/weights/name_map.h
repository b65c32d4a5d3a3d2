// Maps the arrays of files to variables by a job's rules for names, and proposes missing rules.
// Also writes files of weights for other programs, for which the rules are applied in reverse.
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

/// A variable to be loaded.
struct WantedVariable {
  std::string name;
  DType dtype;
  Shape shape;
};

/// Returns the variables that a run of these jobs loads. Each is listed once; slots of optimizers
/// are omitted.
std::vector<WantedVariable> wanted_variables(const std::vector<const plan::Job*>& jobs);

/// The part of an array that a variable receives, or the whole array if `axis` is absent.
struct AxisRange {
  std::optional<int64_t> axis;
  int64_t begin = 0, size = 0;
};

/// A variable and the arrays from which it is made.
struct MappedVariable {
  WantedVariable wanted;
  std::vector<StoredItem> arrays = {};   // ordered like `concat`; empty if the variable has none
  const plan::NameRule* rule = nullptr;  // null if the array has the same name as the variable
  AxisRange range = {};                  // the part of the joined arrays, after `perm`
  std::string problem = {};              // the reason why it cannot be loaded, or empty
};

/// An array that no variable receives, and the reason.
struct UnusedArray {
  StoredItem item;
  const plan::NameRule* rule = nullptr;  // the rule that matches it, if any
  std::string problem = {};

  bool ignored() const { return rule && rule->ignore; }
};

struct NameMap {
  std::vector<MappedVariable> variables;  // all wanted variables, in the given order
  std::vector<UnusedArray> unused;        // ignored arrays, arrays of other rules, then the rest
  std::vector<const plan::NameRule*> idle_rules = {};  // rules for which no array is left
};

/// Maps arrays to variables, and compares their shapes. REQUIRES: the rules have no faults and
/// outlive the result.
NameMap map_names(const std::vector<StoredItem>& items, std::vector<WantedVariable> wanted,
                  const std::vector<plan::NameRule>& rules);

/// The first rule with a matching pattern, the position of the pattern, and the captures.
struct RuleMatch {
  size_t rule = 0, position = 0;
  plan::Captures captures = {};
};

/// The parsed names of a rule. REQUIRES: the rule has no faults.
struct RulePatterns {
  explicit RulePatterns(const plan::NameRule& rule);
  std::vector<plan::NamePattern> from, to;
};

/// Rules with parsed patterns.
class NameRules {
 public:
  /// REQUIRES: the rules have no faults and outlive this object.
  explicit NameRules(const std::vector<plan::NameRule>& rules);

  std::optional<RuleMatch> match(const std::string& array) const;
  size_t size() const { return rules_.size(); }
  const plan::NameRule& rule(size_t index) const { return rules_[index]; }
  const RulePatterns& patterns(size_t index) const { return patterns_[index]; }

 private:
  const std::vector<plan::NameRule>& rules_;
  std::vector<RulePatterns> patterns_;
};

/// Returns the place of the rule: "gpt2.yaml:88:9: ". Empty if `rule` is null or has no place.
std::string place_of(const plan::NameRule* rule);

/// Variables made from arrays of other names. The arrays are joined, split and transposed when a
/// variable is read.
class MappedVariables : public StoredVariables {
 public:
  /// Whether variables without an array are allowed. If so, the code that loads the variables
  /// reports those that are missing everywhere.
  enum class Missing { kRefused, kAllowed };

  /// Maps the arrays by the rules of `job`, which must outlive this object. Throws RequestError
  /// that lists all arrays and variables that do not fit, except for variables that a glob of
  /// `optional` matches.
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

/// Copies a part of an array along an axis. REQUIRES: the array has these indices.
void copy_range(const Array& array, const AxisRange& range, std::span<std::byte> out);
/// Joins arrays one after another along an axis. Their other axes are equal.
void join_arrays(const std::vector<Array>& arrays, int64_t axis, std::span<std::byte> out);
/// Returns the array with permuted axes, or the array itself if `perm` is empty.
Array transposed(Array array, const std::vector<int64_t>& perm);

/// Arrays or variables of the same shape whose names differ only in numbers: "h.*.attn.weight".
struct NameGroup {
  std::string pattern;  // the unchanged name if the group has only one
  Shape shape;
  std::set<std::vector<std::string>> numbers;  // the values of the `*` in each name
  std::vector<std::string> words;              // words of the pattern, normalized and sorted
  std::vector<std::string> last_words;         // words of the pattern's last two components
  std::string parent;                          // the pattern without its last component

  size_t wildcards() const { return numbers.begin()->size(); }
};

struct NamedShape {
  std::string name;
  Shape shape;
};

/// Returns the groups in the order of their first names. Names with different shapes are in
/// different groups.
std::vector<NameGroup> group_names(std::span<const NamedShape> names);

/// Returns the number of words that an array and a variable have in common. Words of the last
/// components have more weight. Adds a fraction that is larger if fewer words of the variable
/// remain.
double similarity(const NameGroup& array, const NameGroup& variable);

/// Returns the name without its last component: "h.*.attn" for "h.*.attn.weight", and "" for a
/// single component.
std::string parent_of(const std::string& name);
/// Returns the last component of a name: "weight".
std::string leaf_of(const std::string& name);
/// Returns the number of components that two names have in common at the beginning.
size_t common_components(const std::string& a, const std::string& b);

struct ProposedRule {
  plan::NameRule rule;
  std::string remark = {};  // what the user should check; may be empty
};

/// Proposes rules for arrays that no rule matches and variables without an array, in the order of
/// the variables, followed by rules that ignore the remaining arrays. Proposals may be wrong,
/// because they depend on the similarity of names.
std::vector<ProposedRule> propose_rules(const NameMap& map);

/// Returns the rule as an item of YAML: `{from: "x", to: "y"}`.
std::string yaml_text(const plan::NameRule& rule);

/// An array to be written, and the variables from which it is made.
struct OriginalArray {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  const plan::NameRule* rule = nullptr;     // null if the array is the variable itself
  std::vector<std::string> variables = {};  // ordered like `to`
  AxisRange range = {};  // the part of the variable, if `concat` joined it from several arrays
};

/// Returns the arrays from which the rules would make these variables. Variables that no rule
/// mentions keep their names. Throws RequestError that lists all variables that cannot be converted
/// back. REQUIRES: same as map_names.
std::vector<OriginalArray> original_arrays(const std::vector<StoredItem>& variables,
                                           const std::vector<plan::NameRule>& rules);

/// Makes the array from the variables. Throws RequestError if copies of the array differ.
Array make_original(const StoredVariables& stored, const OriginalArray& original);

/// Returns the arrays of a checkpoint that are variables, without the state of optimizers.
std::vector<StoredItem> weights_in(const StoredVariables& stored);

/// Throws RequestError if the suffix of `path` does not name a format.
void require_weights_format(const fs::path& path);

/// Writes all arrays to a new file in the format of the suffix of `path`, or writes nothing if that
/// fails. Returns when the file is on the disk.
void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays);

}  // namespace flow::exec
