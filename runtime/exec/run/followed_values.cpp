// Takes means from deliverers when their spans end.
#include "runtime/exec/run/followed_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/base/text.h"
#include "runtime/plan/json/json_text.h"

namespace flow::exec {
namespace {

Period span_of(const plan::FollowedValue& value) { return {value.every_steps, value.every_epochs}; }

}  // namespace

FollowedValues::FollowedValues(const RunRequest& request, const PreparedRun& prepared)
    : request_(request),
      step_index_(prepared.input_pipeline->step_index()),
      decisions_(request.job, prepared.start.decisions) {}

bool FollowedValues::due_at(int64_t steps) const {
  return std::ranges::any_of(decisions_.values_of(""), [&](const plan::FollowedValue* value) {
    return span_of(*value).ends_at(step_index_, steps);
  });
}

int64_t FollowedValues::next_after(int64_t steps) const {
  int64_t next = std::numeric_limits<int64_t>::max();
  for (const plan::FollowedValue* value : decisions_.values_of(""))
    next = std::min(next, span_of(*value).next_end(step_index_, steps));
  return next;
}

bool FollowedValues::take_own(Deliverer& deliverer, MetricsLog& metrics, int64_t steps) {
  bool any = false;
  for (const plan::FollowedValue* value : decisions_.values_of("")) {
    if (!span_of(*value).ends_at(step_index_, steps)) continue;
    const std::optional<double> mean = deliverer.take_mean(value->key());
    if (!mean) continue;  // taken before the run was stopped here
    const int64_t last = steps - 1;
    take(*value, *mean, {last, step_index_.at(last).epoch, request_.job.name}, metrics, steps);
    any = true;
  }
  return any;
}

void FollowedValues::take_of(SubJobRun& called, MetricsLog& metrics, int64_t steps) {
  for (const plan::FollowedValue* value : decisions_.values_of(called.job().name))
    if (const std::optional<double> mean = called.take_mean(value->key()))
      take(*value, *mean,
           {steps, step_index_.at(steps).epoch, called.job().name, called.steps() - 1}, metrics,
           steps);
}

void FollowedValues::take(const plan::FollowedValue& value, double number,
                          const plan::MetricsPlace& place, MetricsLog& metrics, int64_t steps) {
  const std::string text = std::isfinite(number) ? plan::json_number(number) : "null";
  metrics.append_followed({place, value.tensor, value.text, text});
  const std::optional<double> before = decisions_.learning_rate();
  found_best_ |= decisions_.take(value, number, steps);
  if (const auto rate = decisions_.learning_rate(); request_.say && rate != before)
    request_.say(
        fmt::format("after {}: `{}` does not improve; the learning rate falls from {} to {}",
                    counted(static_cast<uint64_t>(steps), "step"), value.text,
                    human_number(*before), human_number(*rate)));
}

}  // namespace flow::exec
