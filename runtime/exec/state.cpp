// Variables between host and device.
#include "runtime/exec/state.h"

#include "runtime/exec/initialize.h"

namespace flow::exec {

State::State(const plan::Job& job) {
  for (const plan::Variable& variable : job.variables) {
    const plan::Tensor& tensor = job[variable.tensor];
    entries_.push_back({&variable, &tensor, Array(tensor.dtype, tensor.shape)});
  }
}

void State::initialize(const plan::Job& job, const fs::path& root, bool only_slots) {
  for (Entry& entry : entries_)
    if (entry.variable->slot || !only_slots)
      entry.value = initial_value(job, *entry.variable, root);
}

void State::capture(const Program& program) {
  for (Entry& entry : entries_) program.read_variable(entry.variable->tensor, entry.value.bytes());
}

void State::write_to(Program& program) const {
  for (const Entry& entry : entries_)
    program.write_variable(entry.variable->tensor, entry.value.view());
}

}  // namespace flow::exec
