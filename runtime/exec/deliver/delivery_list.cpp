// Lists the deliveries of a job with their names, in order, and the tensors that `--capture`
// requests.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/text.h"
#include "runtime/exec/core/run_files.h"
#include "runtime/exec/deliver/delivery.h"
#include "runtime/io/elements.h"
#include "runtime/plan/model/lifetimes.h"
#include "runtime/plan/model/schedule.h"

namespace flow::exec {
namespace {

using plan::ReturnValue;
using plan::TensorId;

/// Returns true if the items are distinct tensors. They are then named after the tensors, and by
/// position otherwise.
bool distinct_tensors(const ReturnValue& value) {
  std::set<TensorId> seen;
  return std::ranges::all_of(value.items, [&](const ReturnValue& item) {
    return item.is_leaf() && seen.insert(item.tensor).second;
  });
}

constexpr std::string_view kReturns = "returns";

std::string folder_of_item(const ReturnValue& value, size_t i) {
  if (value.kind == ReturnValue::Kind::kDict) return value.keys[i];
  if (value.kind == ReturnValue::Kind::kTuple && distinct_tensors(value))
    return value.items[i].name;
  return std::to_string(i);
}

/// Adds a delivery. For ListNumpy, adds one for each device, each with its own folder.
void add(const plan::Job& job, Delivery delivery, bool per_device, std::vector<Delivery>& list) {
  if (!per_device) {
    list.push_back(std::move(delivery));
    return;
  }
  delivery.devices = job.devices;
  delivery.per_device = true;
  for (int64_t device = 0; device < job.devices; ++device) {
    Delivery part = delivery;
    part.device = device;
    part.name += fmt::format("/{}", device);
    part.label += fmt::format("/{}", device);
    part.folder += fmt::format("/{}", device);
    list.push_back(std::move(part));
  }
}

/// Lists the deliveries of a return. `keyed` is true inside a Dict, whose keys are the names that
/// the job file gives to the values.
void list_returned(const plan::Job& job, const ReturnValue& value, const std::string& folder,
                   bool keyed, std::vector<Delivery>& list) {
  if (!value.is_leaf()) {
    keyed |= value.kind == ReturnValue::Kind::kDict;
    for (size_t i = 0; i < value.items.size(); ++i)
      list_returned(job, value.items[i], folder + "/" + folder_of_item(value, i), keyed, list);
    return;
  }
  Delivery delivery;
  delivery.tensor = value.tensor;
  delivery.name = value.name;
  delivery.folder = folder == kReturns ? folder + "/" + delivery.name : folder;
  delivery.label = keyed ? folder.substr(kReturns.size() + 1) : delivery.name;
  delivery.every_step = true;
  delivery.sinks = job.returns->sinks;
  delivery.where = job.returns->where;
  add(job, std::move(delivery), value.kind == ReturnValue::Kind::kListNumpy, list);
}

/// Parses a condition. REQUIRES: the plan was checked.
plan::Condition parse_checked(const std::string& when) {
  plan::ConditionError error;
  std::optional<plan::Condition> condition = plan::parse_condition(when, error);
  FLOW_CHECK(condition, "{}", error.message);
  return std::move(*condition);
}

Delivery from_hook(const plan::Hook& hook) {
  Delivery delivery{hook};
  delivery.folder = "watch/" + hook.name;
  delivery.gradient = hook.kind == plan::Hook::Kind::kWatchDiff;
  delivery.label = delivery.gradient ? hook.name + "/diff" : hook.name;
  if (hook.when) delivery.condition = parse_checked(*hook.when);
  return delivery;
}

/// Returns the permutation that makes the axis of rows the first one: "[1, 0, 2]".
std::string rows_first(const plan::Tensor& tensor) {
  std::vector<int> perm{tensor.batch_axis};
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    if (axis != tensor.batch_axis) perm.push_back(axis);
  return fmt::format("[{}]", fmt::join(perm, ", "));
}

/// Throws RequestError for a tensor that cannot be trimmed to its real rows.
void check_rows(const plan::Job& job, const Delivery& delivery, const StepIndex& step_index) {
  const plan::Tensor& tensor = job[delivery.tensor];
  if (!step_index.pads() || tensor.batch_axis == plan::kNoBatch) return;
  const bool trimmable = tensor.batch_axis == 0 && tensor.shape[0] % step_index.batch() == 0;
  if (trimmable) return;
  const bool elsewhere = tensor.batch_axis > 0;
  const std::string rows =
      elsewhere ? fmt::format("has its rows along axis {}", tensor.batch_axis) : "mixes rows";
  throw RequestError(
      fmt::format("{}: cannot deliver `{}`, which {}: {} rows are not a multiple of the "
                  "batch size {}, so the last batch is padded",
                  delivery.where, tensor.name, rows, step_index.rows(), step_index.batch()),
      elsewhere
          ? fmt::format("deliver `{{op: transpose, perm: {}}}` of it, with the rows first",
                        rows_first(tensor))
          : "choose a batch size that divides the rows, or select rows with `rows: a..b`; for an "
            "input without rows, write `rows: false`");
}

/// Throws RequestError if two values would be written to the same file.
void check_files(const std::vector<Delivery>& list) {
  enum class Files { kStacked, kPerStep, kStats };
  std::map<std::tuple<std::string, bool, Files>, const Delivery*> writers;
  for (const Delivery& delivery : list)
    for (const plan::Sink& sink : delivery.sinks) {
      const auto* npy = std::get_if<plan::NpySink>(&sink);
      if (!npy && !std::holds_alternative<plan::StatsSink>(sink)) continue;
      const Files files = !npy ? Files::kStats : npy->per_step ? Files::kPerStep : Files::kStacked;
      const auto [at, fresh] =
          writers.try_emplace({delivery.folder, delivery.gradient, files}, &delivery);
      if (fresh) continue;
      const Delivery& other = *at->second;
      throw RequestError(
          &other == &delivery
              ? fmt::format("{}: `{}` would be written to {} twice", delivery.where, delivery.name,
                            delivery.folder)
              : fmt::format("{}: `{}` would be written to {}, like `{}` of {}", delivery.where,
                            delivery.name, delivery.folder, other.name, other.where),
          "rename the output of a hook with `as: NAME`, or change the key in the Dict");
    }
}

bool makes(const plan::Job& job, const plan::Step& step, const std::string& tensor) {
  return std::ranges::any_of(step.outputs,
                             [&](TensorId id) { return id.valid() && job[id].name == tensor; });
}

/// Returns the steps with this name; if there are none, those that make the tensor of this name;
/// otherwise the forward steps below the name.
std::vector<const plan::Step*> steps_of_entry(const plan::Job& job, const std::string& entry) {
  std::vector<const plan::Step*> named, making, below;
  for (const plan::Step& step : job.steps) {
    if (step.probe) continue;
    if (step.name == entry) named.push_back(&step);
    if (makes(job, step, entry)) making.push_back(&step);
    const bool forward = step.name.find(':') == std::string::npos;
    if (forward && step.name.starts_with(entry + "/")) below.push_back(&step);
  }
  return !named.empty() ? named : !making.empty() ? making : below;
}

[[noreturn]] void refuse_entry(const plan::Job& job, const std::string& entry) {
  std::vector<std::string> names;
  for (const plan::Step& step : job.steps)
    if (!step.probe) names.push_back(step.name);
  const std::vector<std::string> near = suggest(entry, names);
  throw RequestError(fmt::format("--capture: job `{}` has no step `{}`", job.name, entry),
                     near.empty()
                         ? fmt::format("list the steps with flowc show --job {} --steps", job.name)
                         : fmt::format("did you mean {}?", quoted_alternatives(near)));
}

class Captured {
 public:
  Captured(const plan::Job& job, const std::vector<bool>& own, int64_t step)
      : job_(job), own_(own), step_(step) {}

  void add(const char* folder, TensorId tensor, const std::string& where) {
    if (!tensor.valid() || own_[tensor.index()] || !seen_.insert({folder, tensor}).second) return;
    Delivery delivery;
    delivery.tensor = tensor;
    delivery.name = delivery.label = job_[tensor].name;
    delivery.folder = fmt::format("{}/{}/{}", kCaptureFolder, folder, delivery.name);
    delivery.steps = {{step_, step_ + 1, 1}};
    delivery.sinks = {plan::NpySink{.per_step = true}};
    delivery.where = where;
    deliveries.push_back(std::move(delivery));
  }

  std::vector<Delivery> deliveries;

 private:
  const plan::Job& job_;
  const std::vector<bool>& own_;
  const int64_t step_;
  std::set<std::pair<std::string, TensorId>> seen_;
};

}  // namespace

std::tuple<bool, bool, TensorId> order_of(const plan::Job& job, const Delivery& delivery) {
  return {delivery.gradient, job[delivery.tensor].role != plan::Role::kInput, delivery.tensor};
}

bool Delivery::fires(int64_t step) const {
  return every_step || std::ranges::any_of(steps, [step](const plan::StepRange& range) {
           return step >= range.first && step < range.end &&
                  (step - range.first) % range.stride == 0;
         });
}

bool Delivery::fires_always(int64_t first, int64_t end) const {
  return every_step || std::ranges::any_of(steps, [=](const plan::StepRange& range) {
           return range.first <= first && end <= range.end && range.stride == 1;
         });
}

int64_t Delivery::count(int64_t end) const {
  if (every_step) return end;
  int64_t count = 0;
  for (const plan::StepRange& range : steps) {
    const int64_t last = std::min(range.end, end);
    if (last > range.first) count += (last - range.first - 1) / range.stride + 1;
  }
  return count;
}

const std::string* made_key(const plan::Hook& hook) {
  if (hook.sinks.size() != 1) return nullptr;
  const auto* mean = std::get_if<plan::MeanSink>(&hook.sinks.front());
  return mean ? &mean->value : nullptr;
}

std::set<std::string> followed_keys(const plan::Job& main, const plan::Job& job) {
  std::set<std::string> keys;
  plan::visit_followed(main, [&](const plan::FollowedValue& value) {
    if (value.job == (&main == &job ? "" : job.name)) keys.insert(value.key());
  });
  return keys;
}

std::vector<Delivery> list_deliveries(const plan::Job& job, const StepIndex& step_index,
                                      const std::set<std::string>& followed) {
  std::vector<Delivery> list;
  for (const plan::Hook& hook : job.hooks)
    if (const std::string* key = made_key(hook); !key || followed.contains(*key))
      add(job, from_hook(hook), hook.per_device, list);
  std::ranges::stable_sort(list, {},
                           [&](const Delivery& delivery) { return order_of(job, delivery); });
  if (job.returns) list_returned(job, job.returns->value, std::string(kReturns), false, list);
  for (const Delivery& delivery : list) check_rows(job, delivery, step_index);
  check_files(list);
  return list;
}

std::vector<std::string> growing_files(const std::vector<Delivery>& deliveries) {
  std::vector<std::string> files;
  for (const Delivery& delivery : deliveries)
    for (const plan::Sink& sink : delivery.sinks) {
      if (std::holds_alternative<plan::StatsSink>(sink))
        files.push_back(io::stats_file(delivery.folder, delivery.gradient).string());
      const auto* npy = std::get_if<plan::NpySink>(&sink);
      if (!npy || npy->per_step) continue;
      const auto [values, steps] = io::stacked_files(delivery.folder, delivery.gradient);
      files.insert(files.end(), {values.string(), steps.string()});
    }
  return files;
}

uint64_t hook_bytes(const std::vector<Delivery>& deliveries, const plan::Job& job, int64_t first,
                    int64_t end) {
  double bytes = 0;  // a double, because a hostile plan may need more than 64 bits
  for (const Delivery& delivery : deliveries) {
    if (delivery.every_step) continue;
    const plan::Tensor& tensor = job[delivery.tensor];
    // If the tensor has rows, each device has a part of them.
    const int64_t elements =
        tensor.shape.elements() / (tensor.batch_axis == 0 ? delivery.devices : 1);
    const double each = static_cast<double>(elements) *
                        static_cast<double>(size_of(io::Delivered::dtype_of(tensor.dtype)));
    for (const plan::Sink& sink : delivery.sinks)
      if (std::holds_alternative<plan::NpySink>(sink))
        bytes += each * static_cast<double>(delivery.count(end) - delivery.count(first));
  }
  return static_cast<uint64_t>(std::min(bytes, 0x1p63));
}

CaptureRequest parse_capture(const std::string& text) {
  const size_t at = text.rfind('@');
  const auto step = at == text.npos ? std::nullopt : whole_number(text.substr(at + 1));
  if (!step || at == 0 || *step < 0 || *step >= plan::kMostSteps)
    throw RequestError(fmt::format("--capture: invalid value `{}`; expected ENTRY@STEP", text),
                       "name a step of the plan and a global step: --capture lenet/conv1@20");
  return {text.substr(0, at), *step};
}

std::vector<Delivery> list_captured(const plan::Job& job, const std::vector<bool>& own,
                                    const CaptureRequest& request) {
  const std::vector<const plan::Step*> steps = steps_of_entry(job, request.entry);
  if (steps.empty()) refuse_entry(job, request.entry);
  std::set<TensorId> made;
  for (const plan::Step* step : steps) made.insert(step->outputs.begin(), step->outputs.end());
  Captured captured(job, own, request.step);
  for (const plan::Step* step : steps)
    plan::visit_operands(*step, [&](TensorId id) {
      if (!made.contains(id)) captured.add("inputs", id, step->where);
    });
  for (const plan::Step* step : steps)
    for (const TensorId id : step->outputs) captured.add("outputs", id, step->where);
  return std::move(captured.deliveries);
}

}  // namespace flow::exec
