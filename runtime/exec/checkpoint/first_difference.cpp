// Where two runs part, by the golden one's plan and its lists of steps.
#include "runtime/exec/checkpoint/first_difference.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/exec/run/run_files.h"
#include "runtime/io/npy.h"
#include "runtime/plan/json/json_text.h"
#include "runtime/plan/json/serialize.h"

namespace flow::exec {
namespace {

/// The job that ran: run.json names it, and a plan of one job.
const plan::Job* find_job(const plan::Plan& plan, const fs::path& run) {
  std::error_code ignored;
  const fs::path record = run / "run.json";
  if (!fs::is_regular_file(record, ignored)) return plan.jobs.size() == 1 ? &plan.jobs[0] : nullptr;
  const Json json = plan::parse_json(read_text(record), record.string());
  const auto name = json.find("job");
  if (name == json.end() || !name->is_string()) return nullptr;
  const auto job = std::ranges::find(plan.jobs, name->get<std::string>(), &plan::Job::name);
  return job == plan.jobs.end() ? nullptr : &*job;
}

/// What a file below a delivery's folder is: "value", "diff", or one of a step, "000020".
struct ArrayPart {
  bool stacked = false;
  std::optional<int64_t> step;
};

std::optional<ArrayPart> part_of(const Delivery& delivery, std::string_view name) {
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

/// The step of the first element over tolerance, if each value of the stack has one.
std::optional<int64_t> step_in_stack(const fs::path& run, const Delivery& delivery,
                                     const io::ArrayDifference& array) {
  if (array.first_mismatch.empty()) return {};
  const Array steps =
      io::read_npy(run / delivery.folder / (delivery.gradient ? "diff_steps.npy" : "steps.npy"));
  const int64_t at = array.first_mismatch[0];
  const bool one_each = steps.dtype() == DType::kInt64 && steps.shape().rank() == 1 &&
                        steps.shape()[0] == array.shape[0];
  return one_each ? std::optional(steps.view().as<int64_t>()[at]) : std::nullopt;
}

std::optional<FirstDifference> search(const fs::path& golden, const io::Comparison& comparison) {
  const plan::Plan plan =
      plan::from_json(read_text(golden / kPlanFile), (golden / kPlanFile).string());
  const plan::Job* job = find_job(plan, golden);
  if (!job) return {};
  const std::vector<Delivery> deliveries = list_deliveries(*job, StepIndex());
  std::optional<FirstDifference> first;
  std::tuple<int64_t, std::tuple<bool, bool, plan::TensorId>> earliest;
  for (const io::ArrayDifference& array : comparison.arrays) {
    if (array.verdict != io::ArrayDifference::Verdict::kDiffers) continue;
    for (const Delivery& delivery : deliveries) {
      const std::optional<ArrayPart> part = part_of(delivery, array.name);
      if (!part) continue;
      const auto step = part->stacked ? step_in_stack(golden, delivery, array) : part->step;
      const auto when =
          std::tuple(step.value_or(std::numeric_limits<int64_t>::max()), order_of(*job, delivery));
      if (first && when >= earliest) continue;
      earliest = when;
      first = {array.name, step};
    }
  }
  return first;
}

}  // namespace

std::optional<FirstDifference> first_difference(const fs::path& golden,
                                                const io::Comparison& comparison) try {
  if (comparison.failed() == 0) return {};
  return search(golden, comparison);
} catch (const RunError&) {
  return {};  // it is not what is compared
}

}  // namespace flow::exec
