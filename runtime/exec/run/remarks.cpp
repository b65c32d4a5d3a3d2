// Prints what a user should know about a run before its first step.
#include "runtime/exec/run/preparation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <variant>

#include "ops/core/spec.h"
#include "runtime/base/text.h"

namespace flow::exec {
namespace {

/// Returns the names of the variables that the optimizers of these jobs update.
std::set<std::string_view> trained_by(const std::vector<const plan::Job*>& jobs) {
  std::set<std::string_view> names;
  for (const plan::Job* job : jobs) {
    const auto add = [&](const ops::OpSpec& op, const std::vector<plan::TensorId>& operands) {
      if (op.result(0).updates && !op.for_updates)
        for (const plan::TensorId id : operands) names.insert((*job)[id].name);
    };
    for (const plan::Step& step : job->steps) {
      add(*step.op, step.inputs);
      for (const plan::EpilogueOp& fused : step.epilogue) add(*fused.op, fused.operands);
    }
  }
  return names;
}

bool is_random(const plan::Initializer& initializer) {
  return std::holds_alternative<plan::initializers::Uniform>(initializer) ||
         std::holds_alternative<plan::initializers::Normal>(initializer) ||
         std::holds_alternative<plan::initializers::TruncatedNormal>(initializer);
}

void say_products(const RunRequest& request, const Backend& backend) {
  const std::map<std::string, std::string> libraries = backend.libraries();
  if (const auto products = libraries.find("products"); products != libraries.end())
    request.say("products are computed " + products->second);
}

/// Reports each column once, even if several jobs read it.
void say_nonfinite_data(const RunRequest& request, const PreparedRun& prepared) {
  std::set<std::string> said;
  const auto say = [&](const InputPipeline& from) {
    for (const std::string& remark : from.remarks())
      if (said.insert(remark).second) request.say(remark);
  };
  say(*prepared.input_pipeline);
  for (const auto& job : prepared.called.jobs()) say(*job->prepared().input_pipeline);
}

/// Reports variables that are not finite. The loss may not show them, because not every variable
/// contributes to it.
void say_nonfinite(const RunRequest& request, const State& state) {
  if (const auto found = nonfinite_variables(state, [](const plan::Variable&) { return true; }))
    request.say("a loaded variable is not finite: " + *found);
}

/// Reports variables that are neither trained nor loaded. For example, a called job may have a
/// layer under a different name from the one that is trained, or nothing was loaded into a teacher;
/// both compute something nevertheless. A predict job is not checked, because its user wrote
/// `--load none`.
void say_untrained(const RunRequest& request, const State& state) {
  if (!request.job.train) return;
  const std::set<std::string_view> trained = trained_by(jobs_of(request));
  std::vector<std::string> names;
  for (const State::Entry& entry : state.entries())
    if (is_random(entry.variable->initializer) && !trained.contains(entry.tensor->name))
      names.push_back(fmt::format("`{}` of job `{}`", entry.tensor->name, entry.job->name));
  if (names.empty()) return;
  const std::string others =
      names.size() > 1 ? fmt::format(" and {} more", names.size() - 1) : std::string();
  request.say(fmt::format("neither loaded nor trained: {}{}; the random initial values remain",
                          names.front(), others));
}

void say_dropped_rows(const RunRequest& request, const StepIndex& step_index) {
  if (request.job.train && step_index.incomplete_rows() > 0)
    request.say(fmt::format("the last {} rows of an epoch are dropped: {} rows in batches of {}",
                            step_index.incomplete_rows(), step_index.rows(), step_index.batch()));
}

void say_hooks(const RunRequest& request, const PreparedRun& prepared) {
  const int64_t first = prepared.start.first, end = prepared.end;
  if (end == std::numeric_limits<int64_t>::max()) return;  // the end of a stream is not known
  std::set<std::string_view> said;                         // a hook on a scope has many deliveries
  for (const Delivery& delivery : prepared.deliveries)
    if (first == 0 && end > 0 && delivery.count(end) == 0 && said.insert(delivery.where).second)
      request.say(
          fmt::format("{}: the hook never fires in steps 0 to {}", delivery.where, end - 1));
  const bool bounded = std::ranges::any_of(
      prepared.deliveries, [](const Delivery& delivery) { return delivery.when.has_value(); });
  if (const uint64_t bytes = hook_bytes(prepared.deliveries, *prepared.whole, first, end);
      bytes > 0)
    request.say(
        fmt::format("hooks will write {}{}", bounded ? "at most " : "", human_bytes(bytes)));
}

}  // namespace

void say_remarks(const RunRequest& request, const Backend& backend, const PreparedRun& prepared) {
  say_products(request, backend);
  say_nonfinite_data(request, prepared);
  if (request.resume || !loaded_from(request).empty())
    say_nonfinite(request, prepared.start.state);
  else
    say_untrained(request, prepared.start.state);
  say_dropped_rows(request, prepared.input_pipeline->step_index());
  say_hooks(request, prepared);
}

}  // namespace flow::exec
