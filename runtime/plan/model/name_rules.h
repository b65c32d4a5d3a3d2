// Rules that turn arrays of other programs into variables: `names` of a checkpoint section. The
// first rule with a pattern that matches an array applies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// A rule transposes arrays by `perm`, then joins, splits or copies them, then reshapes them.
struct NameRule {
  std::vector<std::string> from = {};  // patterns of arrays
  std::vector<std::string> to = {};    // names of variables
  std::vector<int64_t> perm = {};
  std::optional<int64_t> concat = {}, split = {};  // the axis, counted after `perm`
  std::vector<int64_t> sizes = {};  // extents of arrays along the axis of `concat`; empty if equal
  bool copy = false, ignore = false, reshape = false;
  std::string where = {};  // "gpt2.yaml:88:9"
};

/// The largest number of rules in a list.
inline constexpr size_t kMostNameRules = 10'000;

/// A fault of a rule: the key, the position in the list of that key, and the reason.
struct NameRuleFault {
  std::string_view key;
  size_t position = 0;
  std::string message, hint;
};

/// Returns all faults of the rule, including an axis or extent that no tensor can have.
std::vector<NameRuleFault> faults_of(const NameRule& rule);

}  // namespace flow::plan
