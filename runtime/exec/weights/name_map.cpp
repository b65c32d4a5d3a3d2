// Groups the arrays that a rule matches with the same captures, and assigns each group to
// variables.
#include "runtime/exec/weights/name_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/io/elements.h"

namespace flow::exec {
namespace {

/// The arrays that one rule matches with the same captures, by their position in `from`; null for a
/// missing array.
using ArrayGroup = std::vector<const StoredItem*>;

/// Returns a text such as "`x` [3, 4]".
std::string with_shape(const StoredItem& item) {
  return fmt::format("`{}` {}", item.name, item.shape.str());
}

/// Returns the shape of the joined arrays. Returns nothing if they do not fit together; `problem`
/// is then the reason.
std::optional<Shape> joined_shape(const plan::NameRule& rule, const std::vector<StoredItem>& arrays,
                                  std::string& problem) {
  std::optional<Shape> whole;
  for (size_t i = 0; i < arrays.size(); ++i) {
    const StoredItem& item = arrays[i];
    const auto rank = static_cast<size_t>(item.shape.rank());
    if (item.shape.elements() == 0) {
      problem = with_shape(item) + " is empty";
      return {};
    }
    if (!rule.perm.empty() && rank != rule.perm.size()) {
      problem =
          fmt::format("`perm` has {} axes; {} has {}", rule.perm.size(), with_shape(item), rank);
      return {};
    }
    Shape shape = rule.perm.empty() ? item.shape : io::permuted(item.shape, rule.perm);
    const auto axis = rule.concat ? rule.concat : rule.split;
    if (axis && *axis >= shape.rank()) {
      problem = fmt::format("{} has no axis {}", with_shape(item), *axis);
      return {};
    }
    if (!rule.sizes.empty() && shape[static_cast<int>(*axis)] != rule.sizes[i]) {
      problem = fmt::format("{} has size {} along axis {}; `sizes` has {}", with_shape(item),
                            shape[static_cast<int>(*axis)], *axis, rule.sizes[i]);
      return {};
    }
    if (!whole) {
      whole = std::move(shape);
      continue;
    }
    Shape same = shape;  // the shape without the axis along which arrays are joined
    const auto grows = static_cast<int>(*rule.concat);
    if (same.rank() == whole->rank()) same[grows] = (*whole)[grows];
    if (same != *whole || item.dtype_name() != arrays[0].dtype_name()) {
      problem = fmt::format("{} {} cannot be joined with {} {}", with_shape(item),
                            item.dtype_name(), with_shape(arrays[0]), arrays[0].dtype_name());
      return {};
    }
    (*whole)[grows] += shape[grows];
  }
  return whole;
}

/// Builds a NameMap.
class NameMapper {
 public:
  NameMapper(const std::vector<StoredItem>& items, std::vector<WantedVariable> wanted,
             const std::vector<plan::NameRule>& rules)
      : items_(items), rules_(rules) {
    for (WantedVariable& variable : wanted) map_.variables.push_back({std::move(variable)});
    for (MappedVariable& variable : map_.variables) by_name_[variable.wanted.name] = &variable;
  }

  NameMap run() {
    group_arrays();
    for (const auto& [key, group] : groups_) give(key.first, key.second, group);
    for (const StoredItem* item : unmatched_) give_by_name(*item);
    for (MappedVariable& variable : map_.variables) {
      check_dtype(variable);
      if (variable.arrays.empty() && variable.problem.empty())
        variable.problem = fmt::format("no array{}", expected_for(variable.wanted.name));
    }
    for (size_t rule = 0; rule < rules_.size(); ++rule)
      if (!followed_.contains(rule)) map_.idle_rules.push_back(&rules_.rule(rule));
    return std::move(map_);
  }

 private:
  void group_arrays() {
    for (const StoredItem& item : items_) {
      const auto match = rules_.match(item.name);
      if (!match) {
        unmatched_.push_back(&item);
        continue;
      }
      followed_.insert(match->rule);
      const plan::NameRule& rule = rules_.rule(match->rule);
      if (rule.ignore) {
        map_.unused.push_back({item, &rule});
        continue;
      }
      ArrayGroup& group = groups_[{match->rule, match->captures}];
      group.resize(rule.from.size());
      const StoredItem*& place = group[match->position];
      if (place)
        map_.unused.push_back(
            {item, &rule,
             fmt::format("`{}` matches `{}` too", place->name, rule.from[match->position])});
      else
        place = &item;
    }
  }

  /// Returns the name of an array, such as "`h.0.w`" for the pattern `h.*.w`. Returns the pattern
  /// if the captures do not determine the name.
  std::string array_of(size_t rule, size_t position, const plan::Captures& captures) const {
    return fmt::format("`{}`", rules_.patterns(rule).from[position].fill(captures).value_or(
                                   rules_.rule(rule).from[position]));
  }

  /// Returns the arrays from which a rule makes the variable: "; expected `h.0.w` (job.yaml:3:5)".
  /// Empty if no rule makes it.
  std::string expected_for(const std::string& variable) const {
    std::vector<std::string> texts;
    for (size_t rule = 0; rule < rules_.size(); ++rule)
      for (const plan::NamePattern& to : rules_.patterns(rule).to)
        if (const auto captures = to.match(variable)) {
          std::vector<std::string> names;
          for (size_t i = 0; i < rules_.rule(rule).from.size(); ++i)
            names.push_back(array_of(rule, i, *captures));
          const std::string& where = rules_.rule(rule).where;
          texts.push_back(join(names, ", ") + (where.empty() ? "" : fmt::format(" ({})", where)));
          break;
        }
    return texts.empty() ? "" : fmt::format("; expected {}", join(texts, " or "));
  }

  /// Adds all arrays of the group to the unused arrays, with the reason.
  void refuse(const plan::NameRule& rule, const ArrayGroup& group, const std::string& problem) {
    for (const StoredItem* item : group)
      if (item) map_.unused.push_back({*item, &rule, problem});
  }

  /// Returns the names of the group's arrays that the file does not contain, or that an earlier
  /// rule matches.
  std::string missing_of(size_t rule, const plan::Captures& captures,
                         const ArrayGroup& group) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < group.size(); ++i)
      if (!group[i]) names.push_back(array_of(rule, i, captures));
    return join(names, ", ");
  }

  void give(size_t index, const plan::Captures& captures, const ArrayGroup& group) {
    const plan::NameRule& rule = rules_.rule(index);
    if (const std::string missing = missing_of(index, captures, group); !missing.empty())
      return refuse(rule, group, fmt::format("{} is missing to join it with", missing));
    std::vector<MappedVariable*> targets;
    for (size_t i = 0; i < rule.to.size(); ++i) {
      const auto name = rules_.patterns(index).to[i].fill(captures);
      if (!name)
        return refuse(rule, group,
                      fmt::format("a capture of `{}` is not a number that fits", rule.to[i]));
      const auto found = by_name_.find(*name);
      if (found == by_name_.end())
        return refuse(rule, group, fmt::format("the job has no variable `{}`", *name));
      if (!found->second->arrays.empty())
        return refuse(
            rule, group,
            fmt::format("`{}` already gets `{}`", *name, found->second->arrays.front().name));
      if (std::ranges::count(targets, found->second) > 0)
        return refuse(rule, group, fmt::format("`to` names `{}` twice", *name));
      targets.push_back(found->second);
    }
    if (rule.split) return give_parts(rule, group, targets);
    for (MappedVariable* variable : targets) assign(*variable, rule, group, {});
  }

  void give_parts(const plan::NameRule& rule, const ArrayGroup& group,
                  const std::vector<MappedVariable*>& targets) {
    const std::vector<StoredItem> arrays{*group[0]};
    std::string problem;
    const auto whole = joined_shape(rule, arrays, problem);
    const auto axis = static_cast<int>(*rule.split);
    // The number of elements at one index of the axis.
    const int64_t slice = whole ? whole->elements() / (*whole)[axis] : 1;
    int64_t at = 0;
    bool fits = true;
    std::vector<AxisRange> ranges;
    for (const MappedVariable* variable : targets) {
      const int64_t elements = variable->wanted.shape.elements();
      fits = fits && elements % slice == 0;
      ranges.push_back({rule.split, at, elements / slice});
      at += elements / slice;
    }
    if (whole && (!fits || at != (*whole)[axis]))
      problem = fmt::format("{} cannot be split along axis {} into these shapes",
                            with_shape(arrays[0]), axis);
    for (size_t i = 0; i < targets.size(); ++i) {
      targets[i]->problem = problem;
      assign(*targets[i], rule, group, ranges[i]);
    }
  }

  void assign(MappedVariable& variable, const plan::NameRule& rule, const ArrayGroup& group,
              AxisRange range) {
    for (const StoredItem* item : group) variable.arrays.push_back(*item);
    variable.rule = &rule;
    variable.range = range;
    if (!variable.problem.empty()) return;
    auto shape = joined_shape(rule, variable.arrays, variable.problem);
    if (!shape) return;
    if (range.axis) (*shape)[static_cast<int>(*range.axis)] = range.size;
    check_shape(variable, *shape);
  }

  void give_by_name(const StoredItem& item) {
    const auto found = by_name_.find(item.name);
    if (found == by_name_.end()) return map_.unused.push_back({item, nullptr, "no rule"});
    MappedVariable& variable = *found->second;
    if (!variable.arrays.empty())
      return map_.unused.push_back({item, nullptr,
                                    fmt::format("variable `{}` already gets `{}`", item.name,
                                                variable.arrays.front().name)});
    variable.arrays = {item};
    check_shape(variable, item.shape);
  }

  static void check_shape(MappedVariable& variable, const Shape& shape) {
    const Shape& wanted = variable.wanted.shape;
    const bool may_reshape = variable.rule && variable.rule->reshape;
    if (shape == wanted || (may_reshape && shape.elements() == wanted.elements())) return;
    variable.problem = fmt::format("shape {}; expected {}", shape.str(), wanted.str());
    if (io::are_transposed(shape, wanted))
      variable.problem += variable.rule && !variable.rule->perm.empty()
                              ? "; omit `perm`"
                              : "; transpose it with `perm: [1, 0]`";
  }

  static void check_dtype(MappedVariable& variable) {
    if (!variable.problem.empty() || variable.arrays.empty()) return;
    const StoredItem& item = variable.arrays.front();
    if (is_convertible(item, variable.wanted.dtype)) return;
    variable.problem =
        fmt::format("dtype {}; expected float16, bfloat16, float32 or float64", item.dtype_name());
  }

  const std::vector<StoredItem>& items_;
  const NameRules rules_;
  NameMap map_;
  std::map<std::string, MappedVariable*> by_name_;
  std::map<std::pair<size_t, plan::Captures>, ArrayGroup> groups_;  // indexed by rule and captures
  std::vector<const StoredItem*> unmatched_;
  std::set<size_t> followed_;  // rules that match an array
};

}  // namespace

std::vector<WantedVariable> wanted_variables(const std::vector<const plan::Job*>& jobs) {
  std::vector<WantedVariable> wanted;
  std::set<std::string_view> names;
  for (const plan::Job* job : jobs)
    for (const plan::Variable& variable : job->variables) {
      const plan::Tensor& tensor = (*job)[variable.tensor];
      if (!variable.slot && names.insert(tensor.name).second)
        wanted.push_back({tensor.name, tensor.dtype, tensor.shape});
    }
  return wanted;
}

RulePatterns::RulePatterns(const plan::NameRule& rule) {
  plan::Wildcards wildcards;
  plan::NamePatternError error;
  for (const std::string& text : rule.from) {
    wildcards = {};
    from.push_back(parse_pattern(text, wildcards, error).value());
  }
  for (const std::string& text : rule.to)
    to.push_back(parse_template(text, wildcards, error).value());
}

NameRules::NameRules(const std::vector<plan::NameRule>& rules) : rules_(rules) {
  for (const plan::NameRule& rule : rules) patterns_.emplace_back(rule);
}

std::optional<RuleMatch> NameRules::match(const std::string& array) const {
  for (size_t rule = 0; rule < patterns_.size(); ++rule)
    for (size_t i = 0; i < patterns_[rule].from.size(); ++i)
      if (const auto captures = patterns_[rule].from[i].match(array))
        return RuleMatch{rule, i, *captures};
  return {};
}

NameMap map_names(const std::vector<StoredItem>& items, std::vector<WantedVariable> wanted,
                  const std::vector<plan::NameRule>& rules) {
  return NameMapper(items, std::move(wanted), rules).run();
}

std::string place_of(const plan::NameRule* rule) {
  return rule && !rule->where.empty() ? rule->where + ": " : "";
}

}  // namespace flow::exec
