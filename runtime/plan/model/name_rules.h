// Rules by which arrays of other programs become variables: `names` of a checkpoint section. The
// first rule with a pattern that matches an array is the one that counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace flow::plan {

/// Arrays are transposed by `perm`, then joined, split or copied, then reshaped.
struct NameRule {
  std::vector<std::string> from = {};  // patterns of arrays
  std::vector<std::string> to = {};    // names of variables
  std::vector<int64_t> perm = {};
  std::optional<int64_t> concat = {}, split = {};  // the axis, after `perm`
  std::vector<int64_t> sizes = {};  // of the arrays along the axis of `concat`; none: equal
  bool copy = false, ignore = false, reshape = false;
  std::string where = {};  // "gpt2.yaml:88:9"
};

/// No list has more rules.
inline constexpr size_t kMostNameRules = 10'000;

/// What is wrong with a rule: a key of it, the position in the list of that key, and why.
struct NameRuleFault {
  std::string_view key;
  size_t position = 0;
  std::string message, hint;
};

/// All faults; an axis or extent that a tensor cannot have is one.
std::vector<NameRuleFault> faults_of(const NameRule& rule);

}  // namespace flow::plan
