// The variables of a run on the host: where they start, and what checkpoints are made of.
#pragma once

#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/backend.h"
#include "runtime/plan/plan.h"

namespace flow::exec {

/// A copy of every variable, slots too, of the jobs of one run: those of each in the plan's order,
/// what several have standing with the first.
class State {
 public:
  /// Zeros. The jobs outlive it; what has one name is of one shape and dtype.
  explicit State(const plan::Job& job) : State(std::vector<const plan::Job*>{&job}) {}
  explicit State(const std::vector<const plan::Job*>& jobs);

  struct Entry {
    const plan::Job* job;  // the first that has it
    const plan::Variable* variable;
    const plan::Tensor* tensor;
    Array value;
  };
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The initial value of each variable (see initial_value), or of each slot alone.
  void initialize(const fs::path& root, bool only_slots = false);
  /// From the program of one of the jobs; not while a call is in flight. Allocates nothing.
  void capture(const Program& program, size_t job = 0);
  void write_to(Program& program, size_t job = 0) const;

 private:
  /// A variable of a job: where its value stands.
  struct Place {
    plan::TensorId tensor;
    size_t entry;
  };
  std::vector<Entry> entries_;
  std::vector<std::vector<Place>> places_;  // by job
};

}  // namespace flow::exec
