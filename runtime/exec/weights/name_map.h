// Which arrays of a file become which variables, by the rules for names of a job.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace flow::exec
