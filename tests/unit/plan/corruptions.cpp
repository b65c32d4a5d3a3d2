// Corruptions of a sample plan, each of which the check must refuse.
#include "tests/unit/plan/corruptions.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "runtime/base/error.h"
#include "runtime/plan/check/check.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::plan::sample {

std::string refusal(const Plan& plan) {
  try {
    check(plan, "a.plan");
    return {};
  } catch (const RequestError& error) {
    return error.what();
  }
}

Step& step_named(Job& job, std::string_view name) {
  return *std::ranges::find(job.steps, name, &Step::name);
}
Tensor& tensor_named(Job& job, std::string_view name) {
  return *std::ranges::find(job.tensors, name, &Tensor::name);
}
TensorId id_named(const Job& job, std::string_view name) {
  return TensorId(static_cast<size_t>(std::ranges::find(job.tensors, name, &Tensor::name) -
                                      job.tensors.begin()));
}
void check_corruptions(const std::vector<Corruption>& corruptions, bool lifetimes,
                       const Plan& from) {
  for (const Corruption& corruption : corruptions) {
    Plan plan = from;
    corruption.corrupt(plan.jobs[0]);
    if (lifetimes) assign_lifetimes(plan.jobs[0]);
    const std::string message = refusal(plan);
    INFO(corruption.expected);
    CHECK_THAT(message, Catch::Matchers::StartsWith("a.plan: job `train`"));
    CHECK_THAT(message, Catch::Matchers::Contains(corruption.expected));
  }
}

}  // namespace flow::plan::sample
