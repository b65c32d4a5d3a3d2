// Variables that rules for names make of the arrays of a file.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/weights/name_map.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

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
