// Variables between host and device.
#include "runtime/exec/state.h"

#include <set>
#include <string_view>

#include "runtime/exec/initialize.h"

namespace flow::exec {

State::State(const std::vector<const plan::Job*>& jobs) {
  std::set<std::string_view> names;
  for (const plan::Job* job : jobs)
    for (const plan::Variable& variable : job->variables) {
      const plan::Tensor& tensor = (*job)[variable.tensor];
      if (names.insert(tensor.name).second)
        entries_.push_back({job, &variable, &tensor, Array(tensor.dtype, tensor.shape)});
    }
}

void State::initialize(const fs::path& root, bool only_slots) {
  for (Entry& entry : entries_)
    if (entry.variable->slot || !only_slots)
      entry.value = initial_value(*entry.job, *entry.variable, root);
}

void State::capture(const plan::Job& job, const Program& program) {
  for (Entry& entry : entries_)
    if (entry.job == &job) program.read_variable(entry.variable->tensor, entry.value.bytes());
}

void State::write_to(const plan::Job& job, Program& program) const {
  for (const Entry& entry : entries_)
    if (entry.job == &job) program.write_variable(entry.variable->tensor, entry.value.view());
}

}  // namespace flow::exec
