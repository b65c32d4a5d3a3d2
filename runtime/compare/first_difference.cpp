// Where two runs part, by the golden one's plan and its lists of steps.
#include "runtime/compare/first_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/io/npy.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::compare {
namespace {

using exec::Delivery;

/// The step of the first element over tolerance, if each value of the stack has one.
std::optional<int64_t> step_in_stack(const fs::path& run, const Delivery& delivery,
                                     const ArrayDifference& array) try {
  if (array.first_mismatch.empty()) return {};
  const Array steps =
      io::read_npy(run / delivery.folder / (delivery.gradient ? "diff_steps.npy" : "steps.npy"));
  const int64_t at = array.first_mismatch[0];
  const bool one_each = steps.dtype() == DType::kInt64 && steps.shape().rank() == 1 &&
                        steps.shape()[0] == array.shape[0];
  return one_each ? std::optional(steps.view().as<int64_t>()[at]) : std::nullopt;
} catch (const RunError&) {
  return {};  // its own verdict says so
}

/// Is there an array of this delivery that both sides have?
bool is_compared(const Delivery& delivery, const Comparison& comparison) {
  return std::ranges::any_of(comparison.arrays, [&](const ArrayDifference& array) {
    return array.verdict <= Verdict::kDiffers && part_of(delivery, array.name);
  });
}

/// Tensors that the step reads which computes `tensor`. All that are delivered pass: one that
/// differs would come first.
void add_inputs(const RunPlan& run, plan::TensorId tensor, const Comparison& comparison,
                FirstDifference& first) {
  const plan::Job& job = run.ran();
  const auto step = std::ranges::find_if(job.steps, [&](const plan::Step& one) {
    return std::ranges::count(one.outputs, tensor) > 0;
  });
  if (step == job.steps.end() || job[tensor].role != plan::Role::kResult) return;
  plan::visit_operands(*step, [&](plan::TensorId input) {
    const auto watched = std::ranges::find_if(run.deliveries, [&](const Delivery& delivery) {
      return delivery.tensor == input && is_compared(delivery, comparison);
    });
    const bool known = watched != run.deliveries.end();
    auto& names = known ? first.passing_inputs : first.unwatched_inputs;
    const std::string& name = known ? watched->name : job[input].name;
    if (std::ranges::count(names, name) == 0) names.push_back(name);
  });
}

/// What arrays are sorted by: group, order of computing, name.
using PlanOrder = std::tuple<int, std::tuple<bool, bool, bool, plan::TensorId>, std::string>;

PlanOrder order_in(const RunPlan& run, const std::map<std::string, plan::TensorId>& variables,
                   const std::string& name) {
  constexpr std::string_view kCheckpoint = "checkpoint/";
  for (const Delivery& delivery : run.deliveries) {
    if (!name.starts_with(delivery.folder + "/")) continue;
    const std::string last = name.substr(delivery.folder.size() + 1);
    const bool is_steps = last == (delivery.gradient ? "diff_steps" : "steps");
    if (!is_steps && !part_of(delivery, name)) continue;
    const auto [gradient, result, tensor] = exec::order_of(run.ran(), delivery);
    return {0, {delivery.every_step, gradient, result, tensor}, name};
  }
  if (!name.starts_with(kCheckpoint)) return {2, {}, name};
  const std::string stored = name.substr(kCheckpoint.size());
  // A slot, "dense/weight/momentum", follows its variable.
  for (const std::string& variable : {stored.substr(0, stored.rfind('/')), stored})
    if (const auto found = variables.find(variable); found != variables.end())
      return {1, {false, false, false, found->second}, name};
  return {1, {true, false, false, {}}, name};
}

}  // namespace

std::optional<FirstDifference> first_difference(const RunPlan& golden, const fs::path& run,
                                                const Comparison& comparison) {
  std::optional<FirstDifference> first;
  plan::TensorId tensor;
  std::tuple<int64_t, std::tuple<bool, bool, plan::TensorId>> earliest;
  for (const ArrayDifference& array : comparison.arrays) {
    if (array.verdict != Verdict::kDiffers) continue;
    for (const Delivery& delivery : golden.deliveries) {
      const std::optional<ArrayPart> part = part_of(delivery, array.name);
      if (!part) continue;
      const auto step = part->stacked ? step_in_stack(run, delivery, array) : part->step;
      const auto when = std::tuple(step.value_or(std::numeric_limits<int64_t>::max()),
                                   exec::order_of(golden.ran(), delivery));
      if (first && when >= earliest) continue;
      earliest = when;
      first = {array.name, step, {}, {}};
      tensor = delivery.tensor;
    }
  }
  if (first) add_inputs(golden, tensor, comparison, *first);
  return first;
}

std::string text_of(const FirstDifference& first) {
  std::string text = fmt::format("first difference in computation order: {}", escaped(first.array));
  if (first.step) text += fmt::format(", at step {}", *first.step);
  if (!first.passing_inputs.empty())
    text += fmt::format("; inputs pass: {}", join(first.passing_inputs, ", "));
  if (!first.unwatched_inputs.empty())
    text += fmt::format("; inputs not watched: {}", join(first.unwatched_inputs, ", "));
  return text;
}

void order_by_plan(const RunPlan& golden, Comparison& comparison) {
  std::map<std::string, plan::TensorId> variables;
  for (const plan::Variable& variable : golden.ran().variables)
    variables.emplace(golden.ran()[variable.tensor].name, variable.tensor);
  std::vector<std::pair<PlanOrder, ArrayDifference>> keyed;
  for (ArrayDifference& array : comparison.arrays)
    keyed.emplace_back(order_in(golden, variables, array.name), std::move(array));
  std::ranges::sort(keyed, {}, [](const auto& entry) -> const PlanOrder& { return entry.first; });
  for (size_t i = 0; i < keyed.size(); ++i) comparison.arrays[i] = std::move(keyed[i].second);
}

}  // namespace flow::compare
