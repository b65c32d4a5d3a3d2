// Variables between host and device.
#include "runtime/exec/state.h"

#include <map>
#include <string_view>

#include "runtime/exec/initialize.h"

namespace flow::exec {

State::State(const std::vector<const plan::Job*>& jobs) {
  std::map<std::string_view, size_t> by_name;
  for (const plan::Job* job : jobs) {
    std::vector<Place>& places = places_.emplace_back();
    for (const plan::Variable& variable : job->variables) {
      const plan::Tensor& tensor = (*job)[variable.tensor];
      const auto [found, fresh] = by_name.emplace(tensor.name, entries_.size());
      places.push_back({variable.tensor, found->second});
      if (fresh) entries_.push_back({job, &variable, &tensor, Array(tensor.dtype, tensor.shape)});
    }
  }
}

void State::initialize(const fs::path& root, bool only_slots) {
  for (Entry& entry : entries_)
    if (entry.variable->slot || !only_slots)
      entry.value = initial_value(*entry.job, *entry.variable, root);
}

void State::capture(const Program& program, size_t job) {
  for (const Place& place : places_[job])
    program.read_variable(place.tensor, entries_[place.entry].value.bytes());
}

void State::write_to(Program& program, size_t job) const {
  for (const Place& place : places_[job])
    program.write_variable(place.tensor, entries_[place.entry].value.view());
}

}  // namespace flow::exec
