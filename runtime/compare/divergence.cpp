// Compares two files of fingerprints in the order of computation.
#include "runtime/compare/divergence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "ops/core/spec.h"
#include "runtime/base/error.h"
#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/plan/json/json.h"
#include "runtime/plan/model/lifetimes.h"

namespace flow::compare {
namespace {

using plan::TensorId;

/// Returns the largest distance that rounding causes before an error has grown: many times the
/// error of a sum of a few thousand elements in that dtype.
double floor_of(DType dtype) {
  if (dtype == DType::kFloat64) return 1e-12;
  return is_low_precision(dtype) ? 5e-3 : 2e-5;
}
/// A jump is a distance of at least this many times the largest distance before it. Measured with
/// oneDNN limited to SSE4.1 against AVX-512, with two seeds and 20 to 150 steps: if only rounding
/// differs, the distance of a tensor is at most 41 times the largest one before it in ResNet-18, 38
/// times in LeNet, 29 times in a siamese network, and 3 times in a GPT. The largest factors occur
/// for gradients of biases and of the scales of batch_normalization, which are sums in which almost
/// everything cancels.
constexpr double kJump = 100;

std::optional<RunFacts> read_record(const fs::path& run) {
  const auto text = read_if_there(run, exec::kRunRecord, kLargestRecord);
  if (!text) return {};
  const Json json = Json::parse(*text, nullptr, false);
  if (json.is_object()) return facts_of(json);
  throw RequestError(
      fmt::format("{} is damaged: expected a JSON object", (run / exec::kRunRecord).string()),
      "restore it, or run the job again");
}

/// Returns the reason why equal plans need not give bit-identical results in both runs, or an empty
/// text if they must.
std::string bits_may_differ(const std::optional<RunFacts>& golden,
                            const std::optional<RunFacts>& out) {
  const auto both = [](const char* what, const std::string& a, const std::string& b) {
    return fmt::format("{}: `{}` and `{}`", what, a, b);
  };
  if (!golden || !out)
    return fmt::format("{} has no {}, so it may come from another device or version",
                       golden ? "out" : "golden", exec::kRunRecord);
  if (golden->device != out->device) return both("different devices", golden->device, out->device);
  if (golden->instruction_set != out->instruction_set)
    return both("different instruction sets", golden->instruction_set, out->instruction_set);
  if (golden->version != out->version)
    return both("different versions of flow", golden->version, out->version);
  if (golden->libraries != out->libraries) return "different versions of libraries";
  return {};
}

/// A tensor of both runs, with its positions in the two files.
struct Pair {
  TensorId tensor;  // the tensor in the plan that is walked
  size_t walked, other;
};

/// Pairs tensors by name; names are unique in a job. A copy that only a run on two devices makes is
/// paired with its source, because it has the same elements.
std::vector<Pair> pair_tensors(const FingerprintedRun& walked, const FingerprintedRun& other) {
  std::map<std::string, size_t> places;
  const std::vector<TensorId>& others = other.file.tensors();
  for (size_t i = 0; i < others.size(); ++i) places[other.plan.ran()[others[i]].name] = i;
  const plan::Job& job = walked.plan.ran();
  std::map<TensorId, TensorId> sources;  // the sources of copies
  for (const plan::Step& step : job.steps)
    if (step.op->between_devices) sources[step.outputs[0]] = step.inputs[0];
  const auto find = [&](TensorId tensor) {
    const auto found = places.find(job[tensor].name);
    const auto copy = sources.find(tensor);
    const bool is_named = found != places.end() || copy == sources.end();
    return is_named ? found : places.find(job[copy->second].name);
  };
  std::vector<Pair> pairs;
  const std::vector<TensorId>& tensors = walked.file.tensors();
  for (size_t i = 0; i < tensors.size(); ++i)
    if (const auto found = find(tensors[i]); found != places.end())
      pairs.push_back({tensors[i], i, found->second});
  return pairs;
}

/// Returns true if golden's plan is walked. The other plan is walked if only that one has copies
/// between devices.
bool walks_golden(const FingerprintedRun& golden, const FingerprintedRun& out) {
  return plan::has_two_devices(golden.plan.ran()) || !plan::has_two_devices(out.plan.ran());
}

class Walk {
 public:
  Walk(const FingerprintedRun& golden, const FingerprintedRun& out)
      : walks_golden_(walks_golden(golden, out)),
        walked_(walks_golden_ ? golden : out),
        other_(walks_golden_ ? out : golden),
        job_(walked_.plan.ran()),
        pairs_(pair_tensors(walked_, other_)) {
    report_.reason = bits_may_differ(golden.record, out.record);
    report_.by_distance = !report_.reason.empty();
    report_.tensors = pairs_.size();
    before_.resize(job_.tensors.size());
  }

  DivergenceReport run() {
    std::vector<int64_t> steps;
    const std::vector<int64_t> a = walked_.file.steps(), b = other_.file.steps();
    std::ranges::set_intersection(a, b, std::back_inserter(steps));
    if (pairs_.empty()) steps.clear();
    for (const int64_t step : steps) {
      if (report_.steps++ == 0) report_.first_step = step;
      report_.last_step = step;
      compare(step);
      if (report_.first) break;
      agreed_at_ = step;
    }
    return std::move(report_);
  }

 private:
  void compare(int64_t step) {
    const std::vector<Fingerprint> a = walked_.file.of_step(step), b = other_.file.of_step(step);
    now_.assign(job_.tensors.size(), std::nullopt);
    for (const Pair& pair : pairs_) {
      const Fingerprint &x = a[pair.walked], &y = b[pair.other];
      if (x.count == 0 || y.count == 0) continue;  // the tensor was not made in this call
      const double distance = x.is_same(y) ? 0 : distance_between(x, y);
      now_[pair.tensor.index()] = distance;
      const bool differs = report_.by_distance ? jumps(pair.tensor, distance) : !x.is_same(y);
      if (differs && !report_.first)
        report_.first =
            describe(step, pair.tensor, walks_golden_ ? x : y, walks_golden_ ? y : x, distance);
      else if (differs)
        report_.first->also_differing.push_back(job_[pair.tensor].name);
      report_.largest = std::max(report_.largest, distance);
    }
    for (size_t i = 0; i < now_.size(); ++i)
      if (now_[i]) before_[i] = *now_[i];
  }

  bool jumps(TensorId tensor, double distance) const {
    double known = std::max(
        {floor_of(job_[tensor].dtype), report_.largest, before_[tensor.index()].value_or(0)});
    return !std::isfinite(distance) || distance > kJump * known;
  }

  Divergence describe(int64_t step, TensorId tensor, const Fingerprint& golden,
                      const Fingerprint& out, double distance) const {
    using Kind = Divergence::Kind;
    const plan::Role role = job_[tensor].role;
    Divergence found{.kind = role == plan::Role::kInput      ? Kind::kInput
                             : role == plan::Role::kVariable ? Kind::kVariable
                                                             : Kind::kComputed,
                     .step = step,
                     .tensor = job_[tensor].name,
                     .made_by = {},
                     .where = job_[tensor].where,
                     .agreeing = {},
                     .unknown = {},
                     .agreed_at = agreed_at_,
                     .also_differing = {},
                     .golden = golden,
                     .out = out,
                     .distance = distance,
                     .growth = report_.largest};
    const plan::Step* maker = maker_of(tensor);
    if (found.kind != Kind::kComputed || !maker) return found;
    found.made_by = maker->name;
    found.where = maker->where;
    plan::visit_operands(*maker, [&](TensorId input) { add_input(input, found); });
    return found;
  }

  const plan::Step* maker_of(TensorId tensor) const {
    const auto maker = std::ranges::find_if(job_.steps, [&](const plan::Step& step) {
      return std::ranges::count(step.outputs, tensor) > 0;
    });
    return maker == job_.steps.end() ? nullptr : &*maker;
  }

  /// If a tensor has no fingerprint and is a view, the fingerprint of its source is used.
  void add_input(TensorId input, Divergence& found) const {
    const TensorId shown = input;
    while (!now_[input.index()]) {
      const plan::Step* maker = maker_of(input);
      if (!maker || !maker->op->view || maker->inputs.empty()) break;
      input = maker->inputs[0];
    }
    auto& names = now_[input.index()] ? found.agreeing : found.unknown;
    if (const std::string& name = job_[shown].name; std::ranges::count(names, name) == 0)
      names.push_back(name);
  }

  const bool walks_golden_;
  const FingerprintedRun &walked_, &other_;
  const plan::Job& job_;
  const std::vector<Pair> pairs_;
  std::vector<std::optional<double>> now_, before_;  // distances, indexed by TensorId
  std::optional<int64_t> agreed_at_;
  DivergenceReport report_;
};

/// Returns how many steps are truncated or damaged, or are missing at the end of the run. A run
/// that was resumed without fingerprints may lack other steps.
size_t missing_steps(const FingerprintedRun& run) {
  const RunFacts record = run.record.value_or(RunFacts());
  const auto& taken = record.fingerprint_every;
  const int64_t last_step = record.last_step.value_or(0);
  if (!taken || *taken != run.file.every() || last_step <= 0) return run.file.damaged();
  const int64_t newest = (last_step - 1) / *taken;
  const std::vector<int64_t> steps = run.file.steps();
  const int64_t found = steps.empty() ? -1 : steps.back() / *taken;
  return std::max(run.file.damaged(), static_cast<size_t>(std::max<int64_t>(0, newest - found)));
}

}  // namespace

FingerprintedRun read_fingerprinted_run(const fs::path& run) {
  std::error_code unknown;
  const fs::path path = run / exec::kFingerprintFile;
  if (!fs::is_directory(run, unknown))
    throw RequestError(fmt::format("{} is not a run directory", run.string()),
                       "name the directory of a run, as in -o DIR");
  if (!fs::exists(fs::symlink_status(path, unknown)))
    throw RequestError(fmt::format("{} has no {}", run.string(), exec::kFingerprintFile),
                       "run the job again with --fingerprint");
  require_inside(run, path);
  auto plan = read_run_plan(run);
  if (!plan)
    throw RequestError(fmt::format("{} has no plan that can be read", run.string()),
                       "run the job again with --fingerprint");
  FingerprintedRun read{run, std::move(*plan), read_record(run), exec::FingerprintReader(path)};
  for (const TensorId tensor : read.file.tensors())
    if (!tensor.valid() || tensor.index() >= read.plan.ran().tensors.size())
      throw RequestError(
          fmt::format("{} does not belong to the plan next to it: it has tensor {} of {}",
                      path.string(), tensor.value, read.plan.ran().tensors.size()),
          "run the job again with --fingerprint");
  const size_t missing = missing_steps(read);
  if (missing > (read.record && read.record->exit_status == 0 ? 0 : 1))
    throw RequestError(fmt::format("{} is damaged: {} of {} are missing", path.string(), missing,
                                   counted(read.file.steps().size() + missing, "recorded step")),
                       "run the job again with --fingerprint");
  return read;
}

double distance_between(const Fingerprint& a, const Fingerprint& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (a.count != b.count || a.not_finite != b.not_finite) return kInfinity;
  const auto relative = [](double difference, double size) {
    if (!std::isfinite(difference)) return kInfinity;
    return size > 0 ? std::abs(difference) / size : 0.0;
  };
  const auto finite = static_cast<double>(a.count - a.not_finite);
  if (!(finite > 0)) return 0;
  const double norm = std::sqrt(std::max(a.square, b.square));
  const double largest =
      std::max({std::abs(a.least), std::abs(a.most), std::abs(b.least), std::abs(b.most)});
  return std::max({relative(a.sum - b.sum, std::max(a.absolute, b.absolute)),
                   relative(a.absolute - b.absolute, std::max(a.absolute, b.absolute)),
                   relative(std::sqrt(a.square) - std::sqrt(b.square), norm),
                   relative(a.least - b.least, largest), relative(a.most - b.most, largest)});
}

DivergenceReport find_divergence(const FingerprintedRun& golden, const FingerprintedRun& out) {
  return Walk(golden, out).run();
}

}  // namespace flow::compare
