// The variables of a run on the host: where they start, and what checkpoints are made of.
#pragma once

#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/core/backend.h"
#include "runtime/plan/model/plan.h"

namespace flow::exec {

/// A copy of every variable, slots too, of the jobs of one run: those of each in the plan's order,
/// what several have standing with the first. Their programs share what the jobs share.
class State {
 public:
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

}  // namespace flow::exec
