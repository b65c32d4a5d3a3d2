// Compares gradients with differences of the whole loss, in float64. Finds paths from a tensor to
// the loss on which the gradient of the tensor is not that of the loss.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "ops/core/spec.h"
#include "runtime/base/philox.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/exec/run/executor.h"
#include "runtime/exec/run/preparation.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/plan.h"
#include "runtime/verify/bench.h"

namespace flow::verify {
namespace {

/// The differences of the loss for one step size h.
struct Differences {
  Differences(const std::function<double(double)>& loss_at, double middle, double h) {
    const double up = loss_at(h), down = loss_at(-h);
    central = (up - down) / (2 * h);
    bend = std::abs((up - middle) - (middle - down)) / h;
    size = std::max(std::abs(up), std::abs(down));
  }
  double central = 0;
  double bend = 0;  // between forward and backward difference
  double size = 0;  // the magnitude of the loss
};

/// The relative error of the loss, which is a sum of many terms. Each difference of losses may be
/// wrong by this share of the loss.
constexpr double kNoise = 256 * std::numeric_limits<double>::epsilon();

/// Returns, indexed by TensorId, whether the loss is computed from the tensor. Steps are in the
/// order of execution.
std::vector<bool> ancestors_of(const plan::Job& job, plan::TensorId loss) {
  std::vector<bool> found(job.tensors.size());
  found[loss.index()] = true;
  for (size_t i = job.steps.size(); i-- > 0;) {
    const plan::Step& step = job.steps[i];
    const bool leads = std::ranges::any_of(
        step.outputs, [&](plan::TensorId id) { return id.valid() && found[id.index()]; });
    if (leads) plan::visit_operands(step, [&](plan::TensorId id) { found[id.index()] = true; });
  }
  return found;
}

bool casts(const plan::Step& step) {
  const auto is_cast = [](const ops::OpSpec& op) { return op.epilogue == ops::Epilogue::kCast; };
  return is_cast(*step.op) || std::ranges::any_of(step.epilogue, [&](const plan::EpilogueOp& op) {
           return is_cast(*op.op);
         });
}

std::string at(std::string_view op, const plan::Step& step) {
  return fmt::format("{} `{}` ({})", op, step.name, step.where);
}

/// Returns the first step, in plan order, between `tensor` and the loss that stops or rounds
/// gradients: a stop_gradient, a cast, or an op whose result is not a float. Its text is
/// "stop_gradient `s` (net.yaml:9:7)". Returns nothing if all paths have gradients. `written_op`
/// returns the op that the author wrote at the entry with that name, or "" if there is no such
/// entry. REQUIRES: the job has an optimizer.
std::optional<std::string> broken_path(
    const plan::Job& job, plan::TensorId tensor,
    const std::function<std::string(const std::string&)>& written_op) {
  constexpr std::string_view kStop = "stop_gradient";
  const std::vector<bool> to_loss = ancestors_of(job, job.optimizer->loss);
  std::vector<bool> reached(job.tensors.size());
  reached[tensor.index()] = true;
  for (const plan::Step& step : job.steps) {
    bool reads = false;
    plan::visit_operands(step, [&](plan::TensorId id) { reads = reads || reached[id.index()]; });
    if (!reads) continue;
    bool leads = false, floats = true;
    for (const plan::TensorId id : step.outputs) {
      if (!id.valid() || !to_loss[id.index()]) continue;
      leads = reached[id.index()] = true;
      floats = floats && is_float(job[id].dtype);
    }
    if (!leads) continue;
    if (written_op && written_op(step.name) == kStop) return at(kStop, step);
    if (casts(step)) return at("cast", step);
    if (!floats) return at(step.op->name, step);
  }
  return {};
}

using plan::TensorId;

/// A variable, and its gradient of the mean loss.
struct Judged {
  TensorId tensor;
  std::string name;
  Array value;
  compare::Doubles gradient;
};

/// Computes the loss of step 0 with one variable changed. Each call trains, so each call first sets
/// all variables to their initial values.
class Losses {
 public:
  Losses(exec::PreparedRun& prepared, const plan::Job& job)
      : prepared_(prepared),
        job_(job),
        deliverables_(exec::list_deliverables(*prepared.whole, prepared.deliveries)) {
    prepared_.input_pipeline->prime(*prepared_.program, 0);
  }

  /// Returns the loss with `value` for the variable `changed`. If that id is invalid, no variable
  /// is changed.
  double at(TensorId changed, const ArrayView& value, bool gradients = false) {
    exec::Program& program = *prepared_.program;
    prepared_.start.state.write_to(job_, program);
    prepared_.input_pipeline->prime(program, 0);
    prepared_.input_pipeline->fill(program, 0, 0);
    if (changed.valid()) program.write_variable(changed, value);
    std::vector<uint8_t> wanted(deliverables_.size(), gradients ? 1 : 0);
    plan::visit_tensors(*job_.optimizer, [&](TensorId id) {
      wanted[static_cast<size_t>(std::ranges::find(deliverables_, id) - deliverables_.begin())] = 1;
    });
    const double rate = plan::learning_rate(job_.optimizer->learning_rate, 0);
    program.launch({.step = 0, .learning_rate = rate, .wanted = wanted}, 0, 0);
    program.wait(0);
    if (const auto fault = program.fault(0))
      throw exec::fault_error(*fault, 0, job_, *prepared_.input_pipeline);
    exec::StepRecord record;
    exec::read_losses(program, 0, job_, record);
    return *record.loss;
  }
  std::span<const std::byte> delivered(TensorId tensor) const {
    return prepared_.program->delivered(tensor, 0);
  }

 private:
  exec::PreparedRun& prepared_;
  const plan::Job& job_;
  const std::vector<TensorId> deliverables_;
};

/// The results of the check, as the child process reports them.
struct Tally {
  size_t tensors = 0, directions = 0;
  std::vector<std::string> kinks, listed;
  std::optional<Difference> wrong;
};

std::string to_json(const Tally& tally) {
  OrderedJson json{{"tensors", tally.tensors},
                   {"directions", tally.directions},
                   {"kinks", tally.kinks},
                   {"listed", tally.listed}};
  if (tally.wrong)
    json["wrong"] = {tally.wrong->tensor, tally.wrong->first, tally.wrong->second,
                     tally.wrong->where};
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

double norm_of(const compare::Doubles& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum);
}

/// Returns random signs, which are equal in every run.
compare::Doubles direction_of(const Judged& judged, uint32_t trial) {
  compare::Doubles direction(judged.gradient.size());
  const PhiloxKey key = philox_key(1, judged.name);
  for (size_t i = 0; i < direction.size(); ++i)
    direction[i] = philox_block(key, trial, i / 4)[i % 4] >> 31 ? 1 : -1;
  return direction;
}

/// A direction of a trial, restricted to the elements first to last - 1.
struct Direction {
  uint32_t trial = 0;
  size_t first = 0, last = 0;
};

/// Compares the gradient with the slope in one direction, for several step sizes of the
/// differences. With many small kinks, each too weak to be detected, the slope depends on the step
/// size. A gradient is therefore wrong only if two step sizes give the same slope.
SlopeCheck check_direction(Losses& losses, const Judged& judged, const Direction& along,
                           double& expected) {
  compare::Doubles direction = direction_of(judged, along.trial);
  for (size_t i = 0; i < direction.size(); ++i)
    if (i < along.first || i >= along.last) direction[i] = 0;
  const compare::Doubles values = compare::doubles_of(judged.value.view());
  expected = 0;
  for (size_t i = 0; i < direction.size(); ++i) expected += direction[i] * judged.gradient[i];
  Array changed = judged.value;
  const auto loss_at = [&](double h) {
    for (size_t i = 0; i < values.size(); ++i)
      changed.as<double>()[i] = values[i] + h * direction[i];
    return losses.at(judged.tensor, changed.view());
  };
  const double size = norm_of(values) / std::sqrt(static_cast<double>(values.size()));
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double before = kNone;  // the slope for the previous step size, if it disagreed with the gradient
  SlopeCheck last{.slope = Slope::kUnclear};
  for (const double share : {1e-4, 1e-5, 1e-6}) {
    const SlopeCheck check =
        check_slope(loss_at, expected, norm_of(judged.gradient), share * std::max(size, 1e-2));
    const bool again = std::abs(check.measured - before) <= check.error / 10;
    if (check.slope == Slope::kAgrees || (check.slope == Slope::kDiffers && again)) return check;
    last = check;
    before = check.slope == Slope::kDiffers ? check.measured : kNone;
  }
  if (last.slope != Slope::kKink) last.slope = Slope::kUnclear;
  return last;
}

/// Two directions suffice if the gradient agrees in both. If it differs in one, up to eight
/// directions are searched for a kink, and then parts of the direction that differs. The gradient
/// counts as wrong only if there is no kink. A variable may be exactly at a kink: a bias of 0
/// before a relu is.
void judge(Losses& losses, const plan::Job& job, const Judged& judged, Tally& tally) {
  constexpr uint32_t kEnough = 2, kMost = 8;
  const size_t elements = judged.gradient.size();
  uint32_t agreeing = 0;
  bool kinks = false;
  std::optional<uint32_t> wrong;  // the first trial in which the gradient differs
  std::optional<Difference> difference;
  for (uint32_t trial = 0; trial < kMost && (agreeing < kEnough || wrong) && !(kinks && wrong);
       ++trial) {
    double expected = 0;
    const SlopeCheck check = check_direction(losses, judged, {trial, 0, elements}, expected);
    kinks = kinks || check.slope == Slope::kKink;
    if (check.slope == Slope::kAgrees) ++agreeing;
    if (check.slope != Slope::kDiffers || wrong) continue;
    wrong = trial;
    difference =
        Difference{.tensor = fmt::format("gradient of `{}` along a direction", judged.name),
                   .first = fmt::format("watch_diff {}", shortest(expected)),
                   .second = fmt::format("differences {}", shortest(check.measured)),
                   .where = job[judged.tensor].where};
  }
  if (wrong && !kinks)
    kinks = bends_in_part(elements, [&](size_t first, size_t last) {
      double expected = 0;
      return check_direction(losses, judged, {*wrong, first, last}, expected);
    });
  if (wrong && !kinks) {
    tally.wrong = std::move(difference);
  } else if (wrong || agreeing == 0) {
    tally.kinks.push_back(judged.name);
  } else {
    ++tally.tensors;
    tally.directions += agreeing;
  }
}

/// Returns the delivery of the gradient of a trained variable, or null.
const exec::Delivery* gradient_of(const plan::Job& job, const plan::Variable& variable,
                                  const std::vector<exec::Delivery>& deliveries) {
  if (!variable.trainable || variable.slot) return nullptr;
  const auto found = std::ranges::find_if(deliveries, [&](const exec::Delivery& delivery) {
    return delivery.gradient && delivery.name == job[variable.tensor].name;
  });
  return found == deliveries.end() ? nullptr : &*found;
}

/// Reads the values and gradients of one call before the next call overwrites them.
std::vector<Judged> read_all(Losses& losses, const exec::PreparedRun& prepared,
                             const plan::Job& job, double scale) {
  losses.at({}, {}, true);
  std::vector<Judged> all;
  for (const exec::State::Entry& entry : prepared.start.state.entries()) {
    const exec::Delivery* delivery = gradient_of(job, *entry.variable, prepared.deliveries);
    if (!delivery) continue;
    Judged judged{entry.variable->tensor, entry.tensor->name, entry.value, {}};
    judged.gradient = compare::doubles_of(
        {DType::kFloat64, entry.value.shape(), losses.delivered(delivery->tensor).data()});
    for (double& value : judged.gradient) value *= delivery->factor * (all.empty() ? scale : 1);
    all.push_back(std::move(judged));
  }
  return all;
}

/// Runs in a child process. `scale` is a factor for the first gradient; it is not 1 if the gradient
/// is damaged.
std::string judge_all(exec::Backend& backend, const plan::Plan& plan, const plan::Job& job,
                      const Request& request, double scale) {
  exec::RunRequest run(plan, job, request.trials.root, request.trials.directory);
  run.inputs = request.trials.inputs;
  run.commands = false;
  run.load = request.trials.load;
  run.load_partial = request.trials.load_partial;
  run.save = "none";
  run.steps = 1;
  exec::PreparedRun prepared = exec::prepare_run(backend, run);
  Losses losses(prepared, job);
  Tally tally;
  for (const Judged& judged : read_all(losses, prepared, job, scale)) {
    if (const auto broken = broken_path(job, judged.tensor, request.written_op)) {
      tally.listed.push_back(fmt::format("`{}` reaches the loss through {}", judged.name, *broken));
      continue;
    }
    judge(losses, job, judged, tally);
    if (tally.wrong) break;
  }
  return to_json(tally);
}

Result result_of(const Json& tally) {
  Result result;
  result.detail = fmt::format("{} along {}, float64", counted(tally.at("tensors"), "gradient"),
                              counted(tally.at("directions"), "direction"));
  for (const Json& line : tally.at("listed"))
    result.notes.push_back("not judged: " + line.get<std::string>());
  for (const Json& name : tally.at("kinks"))
    result.notes.push_back(fmt::format("left out at a kink: `{}`", name.get<std::string>()));
  if (tally.contains("wrong")) {
    const Json& wrong = tally.at("wrong");
    result.verdict = Verdict::kDiffers;
    result.detail = tally.at("tensors") == 0 ? "the first gradient that was judged, float64"
                                             : result.detail + "; the next one differs";
    result.difference = Difference{
        .step = 0, .tensor = wrong[0], .first = wrong[1], .second = wrong[2], .where = wrong[3]};
  } else if (tally.at("tensors") == 0) {
    result.verdict = Verdict::kNotApplicable;
    result.detail = "no gradient can be judged";
  }
  return result;
}

}  // namespace

SlopeCheck check_slope(const std::function<double(double)>& loss_at, double expected, double norm,
                       double step) {
  constexpr double kClose = 1e-6;  // relative to the norm; the error of a wrong gradient exceeds it
  const double middle = loss_at(0);
  const Differences wide(loss_at, middle, step), narrow(loss_at, middle, step / 2);
  const double noise = kNoise * std::max(wide.size, std::abs(middle)) / (step / 2);
  const double apart = std::abs(wide.central - narrow.central);
  const double measured = (4 * narrow.central - wide.central) / 3;
  const double error = std::abs(measured - expected);
  if (error <= kClose * norm + noise) return {Slope::kAgrees, measured, error};
  if (!std::isfinite(measured)) return {Slope::kUnclear, measured, error};
  const bool bends = narrow.bend > 0.75 * wide.bend && narrow.bend > error / 2;
  const bool disagrees = apart > error / 10 + noise;
  return {bends ? Slope::kKink : disagrees ? Slope::kUnclear : Slope::kDiffers, measured, error};
}

bool bends_in_part(size_t elements, const std::function<SlopeCheck(size_t, size_t)>& check) {
  size_t first = 0, last = elements;
  while (last - first > 1) {
    const size_t middle = first + (last - first) / 2;
    const SlopeCheck lower = check(first, middle), upper = check(middle, last);
    const auto error_of = [](const SlopeCheck& part) {
      return part.slope == Slope::kDiffers || part.slope == Slope::kKink ? part.error : 0;
    };
    if (error_of(lower) == 0 && error_of(upper) == 0) return false;
    const bool in_lower = error_of(lower) >= error_of(upper);
    if ((in_lower ? lower : upper).slope == Slope::kKink) return true;
    (in_lower ? last : first) = middle;
  }
  return false;
}

Result check_gradients(Bench& bench) {
  if (!bench.job().train) throw NotApplicable("a predict job has no gradients");
  const std::string hooks = fmt::format(
      "jobs.{}.hooks=[{{watch_diff: \"**\", of: mean, to: none}}]", bench.request().trials.job);
  plan::Plan plan = bench.compile_exact({.sets = {hooks}});
  plan::Job& watched = job_of(plan, bench.request().trials.job);
  watched.run.also.clear();
  const double scale = bench.scales_gradients() ? 1.001 : 1;
  const auto work = [&](exec::Backend& backend, const plan::Job& job) {
    return judge_all(backend, plan, job, bench.request(), scale);
  };
  Result result = result_of(Json::parse(on_device(bench.request().trials, plan, work)));
  if (bench.scales_gradients() && result.verdict != Verdict::kNotApplicable)
    bench.note_damage("the first gradient is 0.1 % too large");
  return result;
}

}  // namespace flow::verify
