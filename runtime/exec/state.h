// The variables of a job on the host: where they start, and what checkpoints are made of.
#pragma once

#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/exec/backend.h"
#include "runtime/plan/plan.h"

namespace flow::exec {

/// A copy of every variable, slots too, in the plan's order.
class State {
 public:
  /// Zeros.
  explicit State(const plan::Job& job);

  struct Entry {
    const plan::Variable* variable;
    const plan::Tensor* tensor;
    Array value;
  };
  std::vector<Entry>& entries() { return entries_; }
  const std::vector<Entry>& entries() const { return entries_; }

  /// The initial value of each variable (see initial_value), or of each slot alone.
  void initialize(const plan::Job& job, const fs::path& root, bool only_slots = false);
  /// From the device; not while a call is in flight. Allocates nothing.
  void capture(const Program& program);
  void write_to(Program& program) const;

 private:
  std::vector<Entry> entries_;
};

}  // namespace flow::exec
