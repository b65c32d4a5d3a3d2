// Variables between host and device.
#include "runtime/exec/core/state.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "runtime/base/available_memory.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/initialize.h"
#include "runtime/exec/core/memory.h"

namespace flow::exec {

namespace {

/// RunError that names the largest where not all of them fit.
void check_variables_fit(const std::vector<State::Entry>& entries) {
  size_t needed = 0;
  for (const State::Entry& entry : entries) needed += bytes_of(*entry.tensor);
  const size_t available = available_memory();
  if (needed <= available) return;
  const State::Entry& largest = *std::ranges::max_element(
      entries, {}, [](const State::Entry& entry) { return bytes_of(*entry.tensor); });
  throw RunError(fmt::format(
      "{}: variable `{}` is {}; all variables of the run need {} of memory, {} available",
      largest.tensor->where, largest.tensor->name, human_bytes(bytes_of(*largest.tensor)),
      human_bytes(needed), human_bytes(available)));
}

}  // namespace

State::State(const std::vector<const plan::Job*>& jobs) {
  std::set<std::string_view> names;
  for (const plan::Job* job : jobs)
    for (const plan::Variable& variable : job->variables) {
      const plan::Tensor& tensor = (*job)[variable.tensor];
      if (names.insert(tensor.name).second) entries_.push_back({job, &variable, &tensor, {}});
    }
  check_variables_fit(entries_);
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
    if (entry.job == &job && !entry.value.bytes().empty())
      program.write_variable(entry.variable->tensor, entry.value.view());
}

}  // namespace flow::exec
