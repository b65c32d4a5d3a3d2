// Recognizes entries by the names, places and ops of steps.
#include "cli/show/job_tree.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/plan/model/cost.h"

namespace flow::cli {
namespace {

/// Returns the name without its last component, or an empty text if there is only one component.
std::string_view parent_of(std::string_view name) {
  const size_t cut = name.rfind('/');
  return cut == name.npos ? std::string_view() : name.substr(0, cut);
}

bool is_copy_number(std::string_view component) {
  return !component.empty() &&
         std::ranges::all_of(component, [](char c) { return c >= '0' && c <= '9'; });
}

class Recognition {
 public:
  explicit Recognition(const plan::Job& job) : job_(job) {
    for (const plan::Step& step : job.steps) {
      if (!is_written(step)) continue;
      ++members_[{parent_of(step.name), step.where}];
      steps_.insert(step.name);
    }
    for (const plan::Variable& variable : job.variables)
      if (const plan::Tensor& tensor = job[variable.tensor]; !variable.slot)
        ++members_[{parent_of(tensor.name), tensor.where}];
  }

  std::vector<WrittenEntry> run() {
    for (const plan::Step& step : job_.steps)
      if (is_written(step)) add(step);
    for (const plan::Variable& variable : job_.variables) {
      const plan::Tensor& tensor = job_[variable.tensor];
      const auto owner = found_.find(parent_of(tensor.name));
      const bool of_layer = owner != found_.end() && !owner->second.network;
      if (!variable.slot && !of_layer && !tensor.name.starts_with("minimize/"))
        add({tensor.name, "variable", tensor.where});
    }
    if (job_.loop)
      for (const plan::TensorId id : job_.loop->states) add_state(job_[id]);
    std::vector<WrittenEntry> entries;
    for (auto& [name, entry] : found_) entries.push_back(std::move(entry));
    return entries;
  }

 private:
  static bool is_written(const plan::Step& step) {
    return !step.probe && !plan::is_backward(step) && step.name.find(':') == std::string::npos &&
           !step.name.starts_with("minimize/mean_loss");
  }

  /// Returns true if the step is a part of a layer. The steps and variables of a layer have the
  /// same place in the file, the constants of an op are named after it, and a layer may use
  /// variables of another one. Entries of a network, and names that are numbers, are not parts of a
  /// layer.
  bool is_layer(std::string_view parent, const plan::Step& step) const {
    if (parent.empty() || is_copy_number(step.name.substr(parent.size() + 1))) return false;
    const auto members = members_.find({parent, step.where});
    if (members != members_.end() && members->second > 1) return true;
    return steps_.contains(parent) || shares_variables(step);
  }

  bool shares_variables(const plan::Step& step) const {
    constexpr std::array<std::string_view, 4> kMain = {"/conv", "/gather", "/matmul", "/normalize"};
    const auto ends = [&](std::string_view part) { return step.name.ends_with(part); };
    const auto variable = [&](plan::TensorId id) {
      return job_[id].role == plan::Role::kVariable &&
             job_[id].name.find(':') == std::string::npos &&
             parent_of(job_[id].name) != parent_of(step.name);
    };
    return std::ranges::any_of(kMain, ends) && std::ranges::any_of(step.inputs, variable);
  }

  void add(const plan::Step& step) {
    const std::string_view parent = parent_of(step.name);
    const bool layer = is_layer(parent, step);
    const std::string_view name = layer ? parent : std::string_view(step.name);
    const std::string_view op = layer ? step.op->layer : std::string_view();
    add({std::string(name), std::string(op.empty() ? step.op.name() : op), step.where});
    if (!op.empty()) found_.find(name)->second.op = op;  // the op of the layer's main step
    for (const plan::EpilogueOp& fused : step.epilogue)
      if (!layer || parent_of(fused.name) != parent)
        add({fused.name, fused.op.name(), place_of(step, fused)});
  }

  /// Adds the state of an entry after which no step is named. The states of inputs and of the
  /// compiler are no entries.
  void add_state(const plan::Tensor& state) {
    const std::string name = state.name.substr(0, state.name.find(':'));
    const bool is_input = std::ranges::any_of(
        job_.inputs, [&](const plan::Input& input) { return job_[input.tensor].name == name; });
    if (!is_input && state.name == name + ":state") add({name, "state", state.where});
  }

  /// Returns the place of an op that is fused onto a step. The tensor of the result has the place
  /// of the last fused op, so other ops have none.
  std::string place_of(const plan::Step& step, const plan::EpilogueOp& fused) const {
    const plan::Tensor& result = job_[step.outputs[0]];
    return result.name == fused.name ? result.where : "";
  }

  /// Adds an entry and the networks that contain it.
  void add(WrittenEntry entry) {
    size_t depth = 0;
    for (size_t cut = entry.name.find('/'); cut != std::string::npos && ++depth < kMostDepth;
         cut = entry.name.find('/', cut + 1)) {
      const std::string network = entry.name.substr(0, cut);
      if (!found_.contains(network)) found_.emplace(network, WrittenEntry{network, "", "", true});
    }
    found_.emplace(entry.name, std::move(entry));
  }

  static constexpr size_t kMostDepth = 32;

  const plan::Job& job_;
  std::map<std::pair<std::string_view, std::string_view>, size_t> members_;
  std::set<std::string_view> steps_;
  std::map<std::string, WrittenEntry, std::less<>> found_;
};

}  // namespace

std::vector<WrittenEntry> entries_of_plan(const plan::Job& job) { return Recognition(job).run(); }

}  // namespace flow::cli
