// Applies rules for names in reverse, and writes the arrays one after another, so that only one is
// in memory at a time.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/weights/name_map.h"
#include "runtime/exec/weights/stored_variables.h"
#include "runtime/io/elements.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"

namespace flow::exec {
namespace {

/// The variables of one rule with the same captures, by their position in `to`; null for a missing
/// variable.
using VariableGroup = std::vector<const StoredItem*>;

std::vector<int64_t> inverse(const std::vector<int64_t>& perm) {
  std::vector<int64_t> made(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    made[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  return made;
}

class NameTurner {
 public:
  NameTurner(const std::vector<StoredItem>& variables, const std::vector<plan::NameRule>& rules)
      : variables_(variables), rules_(rules) {}

  std::vector<OriginalArray> run() {
    for (const StoredItem& variable : variables_) place(variable);
    for (const auto& [key, group] : groups_) make(key.first, key.second, group);
    std::set<std::string> names;
    for (const OriginalArray& array : arrays_)
      if (!names.insert(array.name).second)
        problems_.push_back(fmt::format("`{}`: several variables become this array", array.name));
    if (!problems_.empty())
      throw RequestError(fmt::format("cannot turn the rules for names round: {}{}",
                                     counted(problems_.size(), "problem"), bounded_list(problems_)),
                         "change these rules, or export without --names");
    return std::move(arrays_);
  }

 private:
  /// Returns the captures with which the rule makes the variable from arrays that no earlier rule
  /// matches. Sets `lossy` to the rule if `to` does not contain all captures that `from` needs.
  std::optional<plan::Captures> captures_of(size_t rule, const plan::NamePattern& to,
                                            const std::string& variable,
                                            const plan::NameRule*& lossy) const {
    const auto captures = to.match(variable);
    if (!captures) return {};
    const std::vector<plan::NamePattern>& from = rules_.patterns(rule).from;
    for (size_t i = 0; i < from.size(); ++i) {
      const auto name = from[i].fill(*captures);
      if (!name) lossy = &rules_.rule(rule);
      const auto match = name ? rules_.match(*name) : std::nullopt;
      if (!match || match->rule != rule || match->position != i) return {};
    }
    return captures;
  }

  void place(const StoredItem& variable) {
    const plan::NameRule* lossy = nullptr;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      const std::vector<plan::NamePattern>& to = rules_.patterns(rule).to;
      for (size_t i = 0; i < to.size(); ++i)
        if (const auto captures = captures_of(rule, to[i], variable.name, lossy)) {
          VariableGroup& group = groups_[{rule, *captures}];
          group.resize(to.size());
          group[i] = &variable;
          return;
        }
    }
    if (!lossy) return keep_name(variable);
    problems_.push_back(
        fmt::format("{}variable `{}`: `from` has a wildcard that `to` does not name",
                    place_of(lossy), variable.name));
  }

  void keep_name(const StoredItem& variable) {
    if (const auto match = rules_.match(variable.name))
      problems_.push_back(
          fmt::format("{}variable `{}` has no other name, and this rule would take it",
                      place_of(&rules_.rule(match->rule)), variable.name));
    arrays_.push_back({.name = variable.name,
                       .dtype = variable.dtype,
                       .shape = variable.shape,
                       .variables = {variable.name}});
  }

  void fail(const plan::NameRule& rule, const VariableGroup& group, const std::string& problem) {
    std::vector<std::string> names;
    for (const StoredItem* variable : group)
      if (variable) names.push_back(fmt::format("`{}` {}", variable->name, variable->shape.str()));
    problems_.push_back(fmt::format("{}{}: {}", place_of(&rule), join(names, ", "), problem));
  }

  void make(size_t index, const plan::Captures& captures, const VariableGroup& group) {
    const plan::NameRule& rule = rules_.rule(index);
    if (rule.reshape) return fail(rule, group, "the shape before `reshape` is not known");
    std::vector<std::string> names;
    for (const StoredItem* variable : group) {
      if (!variable) return fail(rule, group, "other variables of `to` are missing");
      names.push_back(variable->name);
    }
    const auto shape = whole_shape(rule, group);
    if (!shape) return;
    const std::vector<plan::NamePattern>& from = rules_.patterns(index).from;
    int64_t begin = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      OriginalArray array{.name = *from[i].fill(captures),
                          .dtype = group[0]->dtype,
                          .shape = *shape,
                          .rule = &rule,
                          .variables = names};
      if (rule.concat) {
        const int64_t extent = (*shape)[static_cast<int>(*rule.concat)];
        const int64_t size =
            rule.sizes.empty() ? extent / static_cast<int64_t>(from.size()) : rule.sizes[i];
        array.range = {rule.concat, begin, size};
        array.shape[static_cast<int>(*rule.concat)] = size;
        begin += size;
      }
      if (!rule.perm.empty()) array.shape = io::permuted(array.shape, inverse(rule.perm));
      arrays_.push_back(std::move(array));
    }
  }

  /// Returns the shape of the joined variables if the rule's axes fit it; otherwise adds a problem
  /// and returns nothing.
  std::optional<Shape> whole_shape(const plan::NameRule& rule, const VariableGroup& group) {
    Shape whole = group[0]->shape;
    const auto axis = rule.concat ? rule.concat : rule.split;
    if ((axis && *axis >= whole.rank()) ||
        (!rule.perm.empty() && rule.perm.size() != static_cast<size_t>(whole.rank()))) {
      fail(rule, group, "`perm`, `concat` or `split` does not fit the number of axes");
      return {};
    }
    for (const StoredItem* variable : std::span(group).subspan(1)) {
      Shape same = variable->shape;
      const auto grows = static_cast<int>(rule.split.value_or(0));
      if (rule.split && same.rank() == whole.rank()) same[grows] = whole[grows];
      if (same != whole || variable->dtype != group[0]->dtype) {
        fail(rule, group, "the shapes or dtypes do not fit together");
        return {};
      }
      if (rule.split) whole[grows] += variable->shape[grows];
    }
    if (rule.concat && !sizes_fit(rule, whole[static_cast<int>(*rule.concat)])) {
      fail(rule, group,
           rule.sizes.empty()
               ? fmt::format("cannot be cut into {} equal parts along axis {}; add `sizes`",
                             rule.from.size(), *rule.concat)
               : fmt::format("`sizes` do not add up along axis {}", *rule.concat));
      return {};
    }
    return whole;
  }

  static bool sizes_fit(const plan::NameRule& rule, int64_t extent) {
    if (rule.sizes.empty()) return extent % static_cast<int64_t>(rule.from.size()) == 0;
    for (const int64_t size : rule.sizes) {
      if (size > extent) return false;
      extent -= size;
    }
    return extent == 0;
  }

  const std::vector<StoredItem>& variables_;
  const NameRules rules_;
  /// Indexed by rule and captures.
  std::map<std::pair<size_t, plan::Captures>, VariableGroup> groups_;
  std::vector<OriginalArray> arrays_;
  std::vector<std::string> problems_;
};

/// Reads one of several variables, and checks that all are equal.
Array read_equal(const StoredVariables& stored, const OriginalArray& original) {
  Array first = stored.read(original.variables[0]);
  for (const std::string& name : std::span(original.variables).subspan(1))
    if (!std::ranges::equal(stored.read(name).bytes(), first.bytes()))
      throw RequestError(
          fmt::format("{}`{}` and `{}` differ; `copy` writes them as one array, `{}`",
                      place_of(original.rule), original.variables[0], name, original.name),
          "write a rule for each of them");
  return first;
}

constexpr const char* kNpzSuffix = ".npz";

bool is_safetensors(const fs::path& path) { return path.extension() == io::kSafetensorsSuffix; }

/// Returns true for the scale of a loss, which is a scalar named JOB/loss_scale.
bool is_loss_scale(const StoredItem& item) {
  const size_t slash = item.name.find('/');
  return item.shape.rank() == 0 && slash != item.name.npos &&
         item.name.substr(slash) == "/loss_scale";
}

void write_safetensors(File& file, const StoredVariables& stored,
                       const std::vector<OriginalArray>& arrays) {
  std::map<std::string, const OriginalArray*> by_name;
  std::vector<io::SafetensorsItem> items;
  for (const OriginalArray& array : arrays) {
    by_name[array.name] = &array;
    items.push_back({array.name, array.dtype, array.shape});
  }
  file.write(io::safetensors_header(items));
  for (const io::SafetensorsItem& item : items)
    file.write(make_original(stored, *by_name.at(item.name)).bytes());
}

void write_npz(File& file, const StoredVariables& stored,
               const std::vector<OriginalArray>& arrays) {
  io::NpzWriter writer(file);
  for (const OriginalArray& array : arrays)
    writer.add(array.name, make_original(stored, array).view());
  writer.finish();
}

}  // namespace

std::vector<OriginalArray> original_arrays(const std::vector<StoredItem>& variables,
                                           const std::vector<plan::NameRule>& rules) {
  return NameTurner(variables, rules).run();
}

Array make_original(const StoredVariables& stored, const OriginalArray& original) {
  if (!original.rule) return stored.read(original.variables[0]);
  const plan::NameRule& rule = *original.rule;
  const std::vector<int64_t> back = inverse(rule.perm);
  if (!rule.split && !rule.concat) return transposed(read_equal(stored, original), back);
  // A rule applies `perm` first, so the reverse applies it last.
  Array joined(original.dtype,
               rule.perm.empty() ? original.shape : io::permuted(original.shape, rule.perm));
  if (rule.concat) {
    copy_range(stored.read(original.variables[0]), original.range, joined.bytes());
  } else {
    std::vector<Array> parts;
    for (const std::string& name : original.variables) parts.push_back(stored.read(name));
    join_arrays(parts, *rule.split, joined.bytes());
  }
  return transposed(std::move(joined), back);
}

std::vector<StoredItem> weights_in(const StoredVariables& stored) {
  std::vector<StoredItem> items = stored.items();
  std::set<std::string> names;
  for (const StoredItem& item : items) names.insert(item.name);
  std::erase_if(items, [&](const StoredItem& item) {
    return is_loss_scale(item) || is_slot_name(item.name, names);
  });
  return items;
}

void require_weights_format(const fs::path& path) {
  if (!is_safetensors(path) && path.extension() != kNpzSuffix)
    throw RequestError(fmt::format("{} has no known format", path.string()),
                       "end the name in .safetensors or .npz, or for a job file in .onnx");
}

void write_weights(const fs::path& path, const StoredVariables& stored,
                   const std::vector<OriginalArray>& arrays) {
  require_weights_format(path);
  Replacement fresh(path);
  (is_safetensors(path) ? write_safetensors : write_npz)(fresh.file(), stored, arrays);
  fresh.file().sync();
  fresh.commit();
  Folder(path.parent_path()).sync();
}

}  // namespace flow::exec
