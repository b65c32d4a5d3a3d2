// The variables of a run on the host: what they start with, and what checkpoints are made of. The
// numbers in arrays: rounded, and which are not finite.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// The initial value, of the variable's dtype and shape. Random ones are drawn in float64 by the
/// variable's name at step 0 and rounded to float32 in every precision; constants and .npy (its
/// path relative to `root`) are exact in float64. RequestError naming the variable where an .npy
/// has another shape, RunError where it cannot be read.
Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root);

/// A copy of every variable, slots too, of the jobs of one run: those of each in the plan's order,
/// what several have standing with the first. Their programs share what the jobs share.
class State {
 public:
  /// Of no job.
  State() = default;
  /// Without values: these come from initialize, or from what is loaded. The jobs outlive it; what
  /// has one name is of one shape and dtype. RunError where the system has no room for all of them.
  explicit State(const std::vector<const plan::Job*>& jobs);

  struct Entry {
    const plan::Job* job;  // the first that has it
    const plan::Variable* variable;
    const plan::Tensor* tensor;
    Array value;  // of a rank that does not lead: empty, its programs have the variables
  };
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The initial value of each variable (see initial_value), or of each slot alone.
  void initialize(const fs::path& root, bool only_slots = false);
  /// What stands with the job, from its program; not while a call is in flight. Allocates nothing.
  void capture(const plan::Job& job, const Program& program);
  /// Writes what has a value.
  void write_to(const plan::Job& job, Program& program) const;

 private:
  std::vector<Entry> entries_;
};

/// "nan at [3, 0]": the first element that is no finite number, where there is one.
std::optional<std::string> first_nonfinite(const ArrayView& value);

/// "`w` is nan at [3, 0] (the first of 2 such variables)": of those that are wanted.
std::optional<std::string> nonfinite_variables(
    const State& state, const std::function<bool(const plan::Variable&)>& wanted);

/// Writes each value to `out` as `dtype`: floats to the nearest, integers must be whole and in
/// range, bools are what is not 0. REQUIRES: out holds values.size() elements.
void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out);

/// `array` as another dtype. RunError naming `name` where a value does not fit.
Array convert(const Array& array, DType dtype, const std::string& name);

}  // namespace flow::exec
