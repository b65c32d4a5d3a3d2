// The properties that compare runs bit for bit, and the measurement of the distance between float32
// and float64.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <thread>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file_operations.h"
#include "runtime/base/text.h"
#include "runtime/compare/arrays.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/io/npy.h"
#include "runtime/plan/serialize.h"
#include "runtime/verify/bench.h"

namespace flow::verify {
namespace {

Trial trial_of(Bench& bench, const char* name, const plan::Plan& plan) {
  return {.folder = bench.folder_for(name), .plan = plan, .steps = bench.request().steps};
}

Result check_repeat(Bench& bench) {
  Result result;
  compare_trial(bench, trial_of(bench, "repeat", bench.plan()), "the same run again", result);
  return result;
}

Result check_threads(Bench& bench) {
  Result result;
  const int all = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  for (const int threads : std::set{1, 2, all}) {
    Trial trial = trial_of(bench, "threads", bench.plan());
    trial.threads = threads;
    const std::string what = counted(static_cast<uint64_t>(threads), "thread");
    if (!compare_trial(bench, trial, what, result)) return result;
  }
  return result;
}

/// Continues the run that `first` began, and compares the result with the reference.
bool compare_continued(Bench& bench, Trial first, const std::string& what, Result& result) {
  const TrialEnd end = bench.run_whole(first);
  if (first.killed_at && !end.killed) throw RunError("a run ended before it could be killed");
  first.steps = bench.request().steps;
  first.killed_at.reset();
  first.resume = true;
  return compare_trial(bench, first, what, result);
}

Result check_resume(Bench& bench) {
  if (!bench.job().train) throw NotApplicable("a predict job has no state to resume");
  Result result;
  const int64_t at = bench.at();
  Trial stopped = trial_of(bench, "resume", bench.plan());
  stopped.steps = at;
  if (!compare_continued(bench, stopped, fmt::format("stopped at {}", at), result)) return result;
  plan::Plan saving = bench.plan();
  job_of(saving, bench.job().name).run.checkpoint.every_steps = at;
  Trial killed = trial_of(bench, "killed", saving);
  killed.killed_at = std::min(at + 1, bench.steps());
  compare_continued(bench, killed, fmt::format("killed after {}", *killed.killed_at), result);
  return result;
}

/// Returns the first line in which two texts differ.
Difference first_line_of(const std::string& first, const std::string& second) {
  const auto a = split(first, '\n'), b = split(second, '\n');
  size_t line = 0;
  while (line < std::min(a.size(), b.size()) && a[line] == b[line]) ++line;
  const auto text = [line](const auto& lines) {
    return line < lines.size() ? shortened(trimmed(lines[line])) : std::string("its end");
  };
  return {.tensor = fmt::format("plan, line {}", line + 1), .first = text(a), .second = text(b)};
}

Result check_plan(Bench& bench) {
  Result result;
  const std::string text = plan::to_json(bench.plan());
  if (bench.request().compile) {
    const std::string again = plan::to_json(bench.compile({}));
    result.detail = "two builds";
    if (again != text) {
      result.verdict = Verdict::kDiffers;
      result.difference = first_line_of(text, again);
      return result;
    }
  }
  const plan::Plan read = plan::from_json(text, "the built plan");
  compare_trial(bench, trial_of(bench, "plan", read), "run from the built plan", result);
  return result;
}

bool is_watch(const plan::Hook& hook) { return !exec::made_key(hook); }

/// Returns the plan without the watches of the job. What the job returns, trains and follows is
/// kept.
plan::Plan unwatched(const Bench& bench) {
  plan::Plan plan = bench.plan();
  std::erase_if(job_of(plan, bench.job().name).hooks, is_watch);
  return plan;
}

Result check_watch(Bench& bench) {
  const bool has_hooks = std::ranges::any_of(bench.job().hooks, is_watch);
  if (!bench.request().compile && !has_hooks)
    throw NotApplicable(fmt::format("{} is a plan without hooks", bench.request().file));
  Result result;
  const RunRules rules{.watches = false};
  if (has_hooks) {
    const plan::Plan plan = unwatched(bench);
    if (!compare_trial(bench, trial_of(bench, "unwatched", plan), "nothing watched", result, rules))
      return result;
  }
  if (!bench.request().compile) return result;
  Variant everything{.watches = {"**"}};
  if (bench.job().train) everything.watch_diffs = {"**"};
  const plan::Plan plan = bench.compile(everything);
  compare_trial(bench, trial_of(bench, "watched", plan), "everything watched", result, rules);
  return result;
}

Result check_async(Bench& bench) {
  if (!bench.job().returns) throw NotApplicable("the job returns nothing");
  constexpr std::string_view kBegin = "Callback[";
  plan::Plan plan = bench.plan();
  plan::Returns& returns = *job_of(plan, bench.job().name).returns;
  returns.callback = !returns.callback;
  returns.type = returns.callback
                     ? fmt::format("{}{}]", kBegin, returns.type)
                     : returns.type.substr(kBegin.size(), returns.type.size() - kBegin.size() - 1);
  Result result;
  compare_trial(bench, trial_of(bench, "async", plan),
                returns.callback ? "as a Callback" : "not as a Callback", result);
  return result;
}

/// Returns the plan without the caches of the job's datasets, or with new ones in `folder`.
/// Datasets that have no cache do not get one, because not all rows can be cached.
plan::Plan with_caches_in(const Bench& bench, const std::string& folder) {
  plan::Plan plan = bench.plan();
  for (plan::Dataset& dataset : job_of(plan, bench.job().name).datasets)
    if (!dataset.cache.empty()) dataset.cache = folder;
  return plan;
}

Result check_data(Bench& bench) {
  const auto& datasets = bench.job().datasets;
  if (datasets.empty()) throw NotApplicable("the job reads no dataset");
  Result result;
  for (const int64_t threads : {1, 3}) {
    plan::Plan plan = bench.plan();
    job_of(plan, bench.job().name).run.data_threads = threads;
    const std::string what =
        fmt::format("{} that {}", counted(static_cast<uint64_t>(threads), "thread"),
                    threads == 1 ? "decodes" : "decode");
    if (!compare_trial(bench, trial_of(bench, "data", plan), what, result)) return result;
  }
  if (std::ranges::all_of(datasets, &std::string::empty, &plan::Dataset::cache)) return result;
  const plan::Plan uncached = with_caches_in(bench, "");
  if (!compare_trial(bench, trial_of(bench, "data", uncached), "no cache", result)) return result;
  const fs::path folder =
      fs::absolute(bench.request().trials.directory / bench.folder_for("cache"));
  const plan::Plan cached = with_caches_in(bench, folder.string());
  for (const char* what : {"a new cache", "an existing cache"})
    if (!compare_trial(bench, trial_of(bench, "data", cached), what, result)) break;
  remove_tree(folder);
  return result;
}

Result check_graph(Bench& bench) {
  if (bench.job().device != plan::DeviceKind::kGpu) throw NotApplicable("the job runs on the CPU");
  Result result;
  Trial trial = trial_of(bench, "graph", bench.plan());
  trial.eager = true;
  compare_trial(bench, trial, "CUDA graphs and --eager", result);
  return result;
}

constexpr std::array kProperties = {
    Property{"repeat", "run twice", check_repeat},
    Property{"threads", "run with 1, 2 and all threads", check_threads},
    Property{"resume", "stopped, and killed, then resumed", check_resume},
    Property{"plan", "built twice, and run from the built plan", check_plan},
    Property{"watch", "everything watched, and nothing", check_watch},
    Property{"async", "as a Callback, and not", check_async},
    Property{"data", "rows decoded by 1 and 3 threads, and without a cache", check_data},
    Property{"shards", "one batch, shards, and ranks of several processes", check_shards, false},
    Property{"graph", "on a GPU: CUDA graphs and --eager", check_graph},
    Property{"gradients", "gradients against differences of the loss", check_gradients, false},
    Property{"precision", "how far float32 is from float64", check_precision, false}};

/// Returns true if the property is tried with this damage. Damage to state that a run carries from
/// step to step is tried in `resume`, because that run is continued.
bool is_tried_by(DamageKind kind, const Property& property, bool resumes) {
  if (kind == DamageKind::kGradient) return std::string_view(property.name) == "gradients";
  if (!property.exact) return false;
  const bool resume = std::string_view(property.name) == "resume";
  return kind == DamageKind::kBit || !resumes || resume;
}

struct Distance {
  std::string tensor;
  double relative = 0;   // ||a - b|| / ||b||, over all steps; b in float64
  bool is_zero = false;  // the array is 0 in theory
};

// The ratio of the rounding errors in float64 to those in float32. A gradient that is not 0 does
// not shrink like this.
constexpr double kShrinks = 1e-4;

/// Returns the distance of an array from its float64 version. Some gradients are 0 in theory, such
/// as that of a bias before batch normalization. Only rounding errors remain of them, which shrink
/// with higher precision.
Distance distance_between(std::string name, const ArrayView& array, const ArrayView& exact) {
  const compare::Doubles a = compare::doubles_of(array), b = compare::doubles_of(exact);
  double error = 0, size = 0, rounded = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
    rounded += a[i] * a[i];
  }
  return {std::move(name), error == 0 ? 0 : std::sqrt(error / size),
          size < kShrinks * kShrinks * rounded};
}

/// Marks variables whose optimizer slots are 0 in theory, because the values of these variables
/// follow rounding errors, too.
void mark_variables(std::vector<Distance>& distances) {
  for (Distance& variable : distances)
    for (const Distance& slot : distances)
      variable.is_zero |= slot.is_zero && slot.tensor.starts_with(variable.tensor + "/");
}

/// Returns the distances of the float arrays that both runs have, the largest first and those that
/// are 0 in theory last. NaN counts as larger than all numbers.
std::vector<Distance> distances_between(const fs::path& run, const fs::path& exact) {
  std::vector<Distance> distances;
  const compare::Side a = compare::list_side(run), b = compare::list_side(exact);
  for (const auto& [name, path] : a.arrays) {
    const auto other = b.arrays.find(name);
    if (other == b.arrays.end()) continue;
    const Array x = io::read_npy(path), y = io::read_npy(other->second);
    if (y.dtype() != DType::kFloat64 || x.shape() != y.shape()) continue;
    distances.push_back(distance_between(name, x.view(), y.view()));
  }
  mark_variables(distances);
  const auto rank = [](const Distance& d) {
    constexpr double kFirst = -std::numeric_limits<double>::infinity();
    return std::pair(d.is_zero, std::isnan(d.relative) ? kFirst : -d.relative);
  };
  std::ranges::stable_sort(distances, {}, rank);
  return distances;
}

}  // namespace

std::span<const Property> all_properties() { return kProperties; }

bool can_notice(std::span<const Property* const> properties, DamageKind kind) {
  return std::ranges::any_of(
      properties, [kind](const Property* property) { return is_tried_by(kind, *property, false); });
}

Verifier::Verifier(Request request) : bench_(std::make_unique<Bench>(std::move(request))) {}
Verifier::~Verifier() = default;

Result Verifier::check(const Property& property) {
  Result result = check_once(property);
  undamaged_[property.name] = result.verdict;
  return result;
}

Result Verifier::check_once(const Property& property) {
  bench_->reference();
  Result result;
  try {
    result = property.check(*bench_);
  } catch (const NotApplicable& reason) {
    result = {.verdict = Verdict::kNotApplicable, .detail = reason.what()};
  } catch (const RequestError&) {
    throw;
  } catch (const RunError& error) {
    if (error.exit_status() == kDefect) throw;
    const bool differs = error.exit_status() == kCheckFailed;  // a check that other trials pass
    result = {.verdict = differs ? Verdict::kDiffers : Verdict::kError, .detail = error.what()};
    if (!error.hint().empty()) result.notes.push_back("hint: " + error.hint());
  }
  result.property = property.name;
  return result;
}

/// Properties that do not apply count as holding.
bool Verifier::holds_undamaged(const Property& property) {
  if (!undamaged_.contains(property.name)) check(property);
  const Verdict verdict = undamaged_[property.name];
  return verdict != Verdict::kDiffers && verdict != Verdict::kError;
}

Proof Verifier::prove(DamageKind kind, std::span<const Property* const> properties) {
  const bool resumes =
      bench_->job().train && std::ranges::any_of(properties, [](const Property* property) {
        return std::string_view(property->name) == "resume";
      });
  Proof proof{.kind = kind, .name = all_damages()[static_cast<size_t>(kind)].name};
  std::vector<const Property*> tried;
  for (const Property* property : properties) {
    if (!is_tried_by(kind, *property, resumes)) continue;
    if (holds_undamaged(*property))
      tried.push_back(property);
    else
      proof.failing.emplace_back(property->name);
  }
  bench_->damage(kind);
  for (const Property* property : tried) {
    const Result result = check_once(*property);
    if (result.verdict == Verdict::kNotApplicable) continue;
    const bool caught = result.verdict != Verdict::kHolds;
    (caught ? proof.caught : proof.unproved).emplace_back(property->name);
    if (caught && !proof.difference) proof.difference = result.difference;
  }
  proof.done = bench_->damaged();
  bench_->damage({});
  return proof;
}

Result check_precision(Bench& bench) {
  const std::string precision = bench.job().precision;
  if (precision == "float64") throw NotApplicable("the job computes in float64");
  const plan::Plan plan = bench.compile_exact({});
  const TrialEnd exact = bench.run_whole(
      {.folder = bench.folder_for("precision"), .plan = plan, .steps = bench.request().steps});
  Result result{.verdict = Verdict::kMeasured};
  const auto distances = distances_between(bench.reference().directory, exact.directory);
  remove_tree(exact.directory);
  for (const Distance& distance : distances)
    result.notes.push_back(fmt::format("{:.1e}  {}{}", distance.relative, distance.tensor,
                                       distance.is_zero ? ", 0 in theory" : ""));
  result.detail = distances.empty() || distances.front().is_zero
                      ? fmt::format("{} against float64, no floats to compare", precision)
                      : fmt::format("{} against float64, at most {:.1e} apart", precision,
                                    distances.front().relative);
  return result;
}

}  // namespace flow::verify
