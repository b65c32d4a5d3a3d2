// Reads the plan of a run directory, and finds where two runs diverge by the golden plan and its
// lists of steps.
#include "runtime/compare/run_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "runtime/base/display.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/io/checkpoint_folder.h"
#include "runtime/io/npy.h"
#include "runtime/plan/difference.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/serialize.h"

namespace flow::compare {
namespace {

/// Returns the job that ran. run.json names it; without run.json, it is the only job of the plan.
std::optional<size_t> job_that_ran(const plan::Plan& plan,
                                   const std::optional<std::string>& record) {
  if (!record) return plan.jobs.size() == 1 ? std::optional<size_t>(0) : std::nullopt;
  const std::string name = facts_of(plan::parse_json(*record, exec::kRunRecord)).job;
  const auto job = std::ranges::find(plan.jobs, name, &plan::Job::name);
  if (job == plan.jobs.end()) return {};
  return static_cast<size_t>(job - plan.jobs.begin());
}

using DataFile = RunFacts::DataFile;

/// Returns the facts about data files from run.json or, without it, from the newest checkpoint.
std::map<std::string, DataFile> data_of(const fs::path& run) {
  auto text = read_if_there(run, exec::kRunRecord, kLargestRecord);
  const io::CheckpointFolder checkpoints(run);
  if (const auto steps = checkpoints.steps(); !text && !steps.empty())
    text = read_inside(run, checkpoints.at(steps.back()) / io::kCheckpointRecord, kLargestRecord);
  return text ? facts_of(Json::parse(*text, nullptr, false)).data
              : std::map<std::string, DataFile>();
}

std::string rows_text(const DataFile& golden, const DataFile& out) {
  if (!golden.rows || !out.rows) return "";
  return golden.rows == out.rows ? fmt::format(", rows {}", *golden.rows)
                                 : fmt::format(", rows {} and {}", *golden.rows, *out.rows);
}

using exec::Delivery;

/// Returns the step of the first element over tolerance, if each value of the stack has a step.
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
  return {};  // the verdict of that array reports it
}

/// Returns true if both sides have an array of this delivery.
bool is_compared(const Delivery& delivery, const Comparison& comparison) {
  return std::ranges::any_of(comparison.arrays, [&](const ArrayDifference& array) {
    return array.verdict <= Verdict::kDiffers && part_of(delivery, array.name);
  });
}

/// Adds the tensors that the step which computes `tensor` reads. Those that are delivered all pass,
/// because one that differs would come first.
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

/// The sort key of arrays: group, order of computation, name.
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
  // An optimizer slot, "dense/weight/momentum", is sorted after its variable.
  for (const std::string& variable : {stored.substr(0, stored.rfind('/')), stored})
    if (const auto found = variables.find(variable); found != variables.end())
      return {1, {false, false, false, found->second}, name};
  return {1, {true, false, false, {}}, name};
}

}  // namespace

RunFacts facts_of(const Json& json) {
  RunFacts facts;
  constexpr std::pair<const char*, std::string RunFacts::*> kTexts[] = {
      {"job", &RunFacts::job},
      {"source", &RunFacts::source},
      {"plan_hash", &RunFacts::plan_hash},
      {"device", &RunFacts::device},
      {"instruction_set", &RunFacts::instruction_set},
      {"version", &RunFacts::version},
      {"host", &RunFacts::host},
      {"started", &RunFacts::started},
      {"stop_reason", &RunFacts::stop_reason},
      {"error", &RunFacts::error}};
  constexpr std::pair<const char*, std::optional<int64_t> RunFacts::*> kIntegers[] = {
      {"seed", &RunFacts::seed},
      {"threads", &RunFacts::threads},
      {"first_step", &RunFacts::first_step},
      {"last_step", &RunFacts::last_step},
      {"epochs", &RunFacts::epochs},
      {"exit_status", &RunFacts::exit_status},
      {"fingerprint_every", &RunFacts::fingerprint_every},
      {"arena_bytes", &RunFacts::arena_bytes},
      {"peak_memory_bytes", &RunFacts::peak_memory_bytes}};
  for (const auto& [key, member] : kTexts) facts.*member = plan::text_in(json, key);
  for (const auto& [key, member] : kIntegers) facts.*member = plan::integer_in(json, key);
  facts.overrides = plan::texts_in(json, "overrides");
  facts.load = plan::texts_in(json, "load");
  facts.libraries = plan::named_texts_in(json, "libraries");
  if (const auto found = json.find("seconds"); found != json.end() && found->is_number())
    facts.seconds = found->get<double>();
  if (const auto found = json.find("ranks"); found != json.end() && found->is_object())
    facts.ranks = plan::integer_in(*found, "count");
  if (const auto data = json.find("data"); data != json.end() && data->is_object())
    for (const auto& [name, file] : data->items()) {
      if (file.is_string()) facts.data[name].digest = file.get<std::string>();  // from a checkpoint
      if (!file.is_object()) continue;
      const auto columns = plan::named_texts_in(file, "columns");
      for (const auto& [column, digest] : columns)
        facts.data[name + "." + column] = {plan::integer_in(file, "rows"), digest};
      if (columns.empty())  // an input, or a column in a record of an older version
        facts.data[name] = {plan::integer_in(file, "rows"), plan::text_in(file, "digest")};
    }
  return facts;
}

std::optional<RunPlan> read_run_plan(const fs::path& run) {
  const auto text = read_if_there(run, exec::kPlanFile, kLargestPlan);
  const auto record = read_if_there(run, exec::kRunRecord, kLargestRecord);
  if (!text) return {};
  try {
    RunPlan read{.plan = plan::from_json(*text, exec::kPlanFile), .deliveries = {}};
    const auto job = job_that_ran(read.plan, record);
    if (!job) return {};
    read.job = *job;
    read.deliveries = exec::list_deliveries(read.ran(), exec::StepIndex());
    return read;
  } catch (const RunError&) {
    return {};  // a damaged plan counts as missing
  }
}

std::vector<std::string> data_changes(const fs::path& golden, const fs::path& out) {
  constexpr size_t kMostShown = 5, kShownDigits = 12;
  const auto before = data_of(golden), after = data_of(out);
  std::vector<std::string> lines;
  for (const auto& [name, file] : before) {
    const auto other = after.find(name);
    if (other == after.end() || other->second.digest == file.digest) continue;
    lines.push_back(fmt::format("data differ: {}{}, digest {} and {}", name,
                                rows_text(file, other->second), file.digest.substr(0, kShownDigits),
                                other->second.digest.substr(0, kShownDigits)));
  }
  if (lines.size() > kMostShown) {
    const std::string rest = fmt::format("data differ: {} more", lines.size() - kMostShown);
    lines.resize(kMostShown);
    lines.push_back(rest);
  }
  return lines;
}

std::optional<ArrayPart> part_of(const exec::Delivery& delivery, std::string_view name) {
  const std::string folder = delivery.folder + "/";
  if (!name.starts_with(folder)) return {};
  name.remove_prefix(folder.size());
  if (name == (delivery.gradient ? "diff" : "value")) return ArrayPart{true, {}};
  if (delivery.gradient) {
    if (!name.starts_with("diff_")) return {};
    name.remove_prefix(5);
  }
  const auto step = whole_number(name);
  return step ? std::optional(ArrayPart{false, *step}) : std::nullopt;
}

std::string plan_changes(const RunPlan& golden, const RunPlan& out) {
  constexpr size_t kMostShown = 3;
  const std::string& job = golden.ran().name;
  if (job != out.ran().name) return fmt::format("different jobs: {} -> {}", job, out.ran().name);
  const auto changes = plan::list_job_changes(golden.plan, out.plan, job);
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kMostShown, changes.size()); ++i)
    shown.push_back(
        fmt::format("{} {} -> {}", changes[i].key, changes[i].before, changes[i].after));
  if (shown.empty()) return {};
  if (changes.size() > kMostShown)
    shown.push_back(fmt::format("{} more", changes.size() - kMostShown));
  return fmt::format("plans differ: {}", join(shown, ", "));
}

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
