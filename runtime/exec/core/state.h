// The variables of a run in host memory: their initial values, and the values in checkpoints. Also
// functions that round the numbers of an array and find those that are not finite.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/data/sources/learned.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// Returns the initial value with the variable's dtype and shape. Random values are drawn in
/// float64, seeded by the variable's name at step 0, and rounded to float32 in every precision.
/// Constants and .npy files (with a path relative to `root`) are exact in float64. Throws
/// RequestError naming the variable if an .npy file has another shape, RunError if the file cannot
/// be read.
Array initial_value(const plan::Job& job, const plan::Variable& variable, const fs::path& root);

/// Copies of all variables, including slots, of the jobs of one run. Each job's variables are in
/// the plan's order; a variable of several jobs is listed with the first of them. The programs
/// share the variables that the jobs share.
class State {
 public:
  /// Makes a state without jobs.
  State() = default;
  /// Lists the variables without values; `initialize` or loading provides these. The jobs must
  /// outlive the state, and variables of the same name must have the same shape and dtype. Throws
  /// RunError if the system does not have enough memory for all of them.
  explicit State(const std::vector<const plan::Job*>& jobs);

  struct Entry {
    const plan::Job* job;  // the first job that has the variable
    const plan::Variable* variable;
    const plan::Tensor* tensor;
    Array value;  // empty on a rank that does not lead, whose programs have the variables
  };
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// Sets each variable to its initial value (see initial_value), or only the slots.
  void initialize(const fs::path& root, bool only_slots = false);
  /// Copies the variables that are listed with `job` from its program. Must not be called while a
  /// call is in flight. Allocates nothing.
  void capture(const plan::Job& job, const Program& program);
  /// Writes the variables that have a value to the program.
  void write_to(const plan::Job& job, Program& program) const;

  /// What columns of datasets learned. Checkpoints keep it next to the variables.
  const data::Learned& learned() const { return learned_; }
  void set_learned(data::Learned learned) { learned_ = std::move(learned); }

 private:
  std::vector<Entry> entries_;
  data::Learned learned_;
};

/// Describes the first element that is not a finite number, if any: "nan at [3, 0]".
std::optional<std::string> first_nonfinite(const ArrayView& value);

/// Describes the first of the variables that `wanted` selects and that is not finite, if any: "`w`
/// is nan at [3, 0] (the first of 2 such variables)".
std::optional<std::string> nonfinite_variables(
    const State& state, const std::function<bool(const plan::Variable&)>& wanted);

/// Writes each value to `out` as `dtype`. Floats are rounded to nearest; integers must be whole and
/// in range; bools are true if the value is not 0. REQUIRES: `out` has room for values.size()
/// elements.
void round_to(std::span<const double> values, DType dtype, std::span<std::byte> out);

/// Returns `array` converted to another dtype. Throws RunError naming `name` if a value does not
/// fit.
Array convert(const Array& array, DType dtype, const std::string& name);

}  // namespace flow::exec
