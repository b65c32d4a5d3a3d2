// Checks rules for names.
#include "runtime/plan/model/name_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/core/limits.h"
#include "runtime/base/names.h"
#include "runtime/base/text.h"
#include "runtime/plan/model/name_pattern.h"

namespace flow::plan {
namespace {

/// Finds the faults of one rule.
class RuleCheck {
 public:
  explicit RuleCheck(const NameRule& rule) : rule_(rule) {}

  std::vector<NameRuleFault> run() {
    check_patterns();
    if (rule_.ignore)
      check_ignored();
    else
      check_mapped();
    return std::move(faults_);
  }

 private:
  void fail(std::string_view key, std::string message, std::string hint = {}, size_t position = 0) {
    faults_.push_back({key, position, std::move(message), std::move(hint)});
  }

  void check_patterns() {
    if (rule_.from.empty()) fail("from", "`from` is empty", "name the arrays that are read");
    std::optional<Wildcards> all;
    for (size_t i = 0; i < rule_.from.size(); ++i) {
      Wildcards wildcards;
      NamePatternError error;
      if (!parse_pattern(rule_.from[i], wildcards, error)) {
        fail("from", error.message, error.hint, i);
        return;
      }
      if (!all) all = wildcards;
      if (wildcards != *all)
        return fail("from",
                    fmt::format("`{}` has other wildcards than `{}`", rule_.from[i], rule_.from[0]),
                    "use `*` and `**` in the same order in all names of `from`", i);
      if (std::ranges::count(rule_.from, rule_.from[i]) > 1)
        return fail("from", fmt::format("duplicate name `{}` in `from`", rule_.from[i]),
                    "name each once", i);
    }
    wildcards_ = all.value_or(Wildcards());
  }

  void check_targets() {
    for (size_t i = 0; i < rule_.to.size(); ++i) {
      NamePatternError error;
      const auto target = parse_template(rule_.to[i], wildcards_, error);
      if (!target) {
        fail("to", error.message, error.hint, i);
        continue;
      }
      Captures numbers;
      numbers.fill("1000000");
      if (!is_safe_name(target->fill(numbers).value_or("")))
        fail("to", fmt::format("`{}` cannot be the name of a variable", rule_.to[i]),
             "use names as `flowc show FILE --steps` lists them, such as net/conv1/weight", i);
      if (std::ranges::count(rule_.to, rule_.to[i]) > 1)
        fail("to", fmt::format("duplicate name `{}` in `to`", rule_.to[i]), "name each once", i);
    }
  }

  void check_ignored() {
    const auto conflict = [&](bool given, std::string_view key) {
      if (given)
        fail(key, fmt::format("`{}` conflicts with `ignore`", key), "write a rule for each");
    };
    conflict(!rule_.to.empty(), "to");
    conflict(!rule_.perm.empty(), "perm");
    conflict(rule_.concat.has_value(), "concat");
    conflict(rule_.split.has_value(), "split");
    conflict(!rule_.sizes.empty(), "sizes");
    conflict(rule_.copy, "copy");
    conflict(rule_.reshape, "reshape");
  }

  void check_mapped() {
    if (rule_.to.empty())
      fail("to", "a rule requires `to` or `ignore`",
           "add `to: NAME`, or `ignore: true` for arrays that are not read");
    if (!rule_.from.empty() && faults_.empty()) check_targets();
    check_numbers();
    check_ways();
    check_axes();
  }

  /// A rule with several names on one side must join, split or copy.
  void check_ways() {
    if (rule_.concat && rule_.split)
      fail("split", "`split` conflicts with `concat`", "write a rule for each");
    if (rule_.copy && (rule_.concat || rule_.split))
      fail("copy", fmt::format("`copy` conflicts with `{}`", rule_.concat ? "concat" : "split"),
           "write a rule for each");
    if (rule_.concat.has_value() != (rule_.from.size() > 1))
      fail(rule_.concat ? "concat" : "from",
           fmt::format("{} in `from` {} `concat`", flow::counted(rule_.from.size(), "name"),
                       rule_.concat ? "with" : "without"),
           rule_.concat ? "list the arrays that are joined: `from: [a, b]`"
                        : "add `concat: AXIS` to join them, or write a rule for each");
    const bool many = rule_.to.size() > 1;
    const bool divided = rule_.split || rule_.copy;
    if (many != divided && !rule_.to.empty())
      fail(divided ? (rule_.copy ? "copy" : "split") : "to",
           fmt::format("{} in `to` {} `split` or `copy`", flow::counted(rule_.to.size(), "name"),
                       divided ? "with" : "without"),
           divided ? "list the variables: `to: [a, b]`"
                   : "add `split: AXIS` or `copy: true`, or write a rule for each");
  }

  void check_numbers() {
    std::vector<int64_t> sorted = rule_.perm;
    std::ranges::sort(sorted);
    for (size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<int64_t>(i))
        return fail("perm",
                    fmt::format("`perm` is [{}]; expected each axis from 0 to {} once",
                                fmt::join(rule_.perm, ", "), rule_.perm.size() - 1),
                    "write `perm: [1, 0]` to transpose a matrix");
    if (rule_.perm.size() > static_cast<size_t>(ops::kMaxRank))
      fail("perm", fmt::format("`perm` has {} axes; expected at most {}", rule_.perm.size(),
                               ops::kMaxRank));
    if (rule_.sizes.empty()) return;
    if (!rule_.concat)
      fail("sizes", "`sizes` requires `concat`", "`split` takes the sizes of its variables");
    else if (rule_.sizes.size() != rule_.from.size())
      fail("sizes",
           fmt::format("`sizes` has {} for {}", flow::counted(rule_.sizes.size(), "number"),
                       flow::counted(rule_.from.size(), "array")),
           "write a size for each name in `from`");
    if (std::ranges::any_of(rule_.sizes, [](int64_t size) { return size < 1; }))
      fail("sizes", "`sizes` has a number below 1", "write sizes of the arrays along the axis");
  }

  void check_axes() {
    const auto check = [&](std::string_view key, const std::optional<int64_t>& axis) {
      const auto rank =
          static_cast<int64_t>(rule_.perm.empty() ? ops::kMaxRank : rule_.perm.size());
      if (axis && (*axis < 0 || *axis >= rank))
        fail(key, fmt::format("`{}` is {}; expected an axis from 0 to {}", key, *axis, rank - 1));
    };
    check("concat", rule_.concat);
    check("split", rule_.split);
  }

  const NameRule& rule_;
  Wildcards wildcards_;
  std::vector<NameRuleFault> faults_;
};

}  // namespace

std::vector<NameRuleFault> faults_of(const NameRule& rule) { return RuleCheck(rule).run(); }

}  // namespace flow::plan
