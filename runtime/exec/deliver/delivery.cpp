// Passes values of completed calls to the sinks.
#include "runtime/exec/deliver/delivery.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/exec/core/state.h"
#include "runtime/plan/json/records.h"

namespace flow::exec {
namespace {

/// Returns the event of a hook's delivery; the arrays and the step are added when it fires.
io::CommandEvent event_of(const plan::Job& job, const Delivery& delivery) {
  io::CommandEvent event{.kind = delivery.gradient ? "watch_diff" : "watch",
                         .name = delivery.name,
                         .where = delivery.where};
  if (delivery.per_device) {
    event.name.resize(event.name.rfind('/'));  // `y/0` is the first device's part of `y`.
    plan::ReturnValue parts;
    parts.kind = plan::ReturnValue::Kind::kListNumpy;
    event.value = io::structure_of(parts, delivery.devices);
  }
  if (delivery.scope.empty()) return event;
  event.scope = delivery.scope;
  event.op = delivery.op;
  event.placement = plan::name_of(job.device_of(job[delivery.tensor]));
  return event;
}

io::CommandEvent event_of(const plan::Job& job, const plan::Returns& returns) {
  return {.kind = "return",
          .name = returns.value.is_leaf() ? returns.value.name : "returns",
          .where = returns.where,
          .value = io::structure_of(returns.value, job.devices)};
}

/// Returns the number of rows without those that only pad the batch. REQUIRES: the tensor has rows.
int64_t real_rows(const plan::Tensor& tensor, const StepIndex& step_index,
                  const Position& position) {
  if (!step_index.pads() || position.rows == step_index.batch()) return tensor.shape[0];
  return tensor.shape[0] / step_index.batch() * position.rows;
}

/// Returns the first row of a device and its number of rows: an equal part of a whole batch, but
/// fewer rows if the batch is incomplete.
std::pair<int64_t, int64_t> part_of(int64_t rows, const plan::Tensor& tensor,
                                    const Delivery& delivery) {
  const int64_t part = tensor.shape[0] / delivery.devices, first = part * delivery.device;
  return {first, std::clamp<int64_t>(rows - first, 0, part)};
}

bool is_print(const plan::Sink& sink) { return std::holds_alternative<plan::PrintSink>(sink); }

bool counts_epochs(const plan::Sink& sink) {
  const auto* print = std::get_if<plan::PrintSink>(&sink);
  return print && print->over == plan::Over::kEpoch;
}

/// Returns the number of epochs, complete after `end` steps, in which it fired. Epochs after the
/// first kMost, which only a damaged checkpoint can have, are not counted.
int64_t epochs_fired(const Delivery& delivery, const StepIndex& step_index, int64_t end) {
  constexpr int64_t kMost = 1 << 20;
  const int64_t complete = std::min(step_index.epochs_after(end), kMost);
  int64_t epochs = 0;
  for (int64_t epoch = 0; epoch < complete; ++epoch) {
    const int64_t first = steps_of_epochs(epoch, step_index.steps_per_epoch());
    const int64_t next = steps_of_epochs(epoch + 1, step_index.steps_per_epoch());
    if (delivery.count(next) > delivery.count(first)) ++epochs;
  }
  return epochs;
}

io::SinkContext context_of(const plan::Job& job, const Delivery& delivery,
                           const StepIndex& step_index, const SinkOptions& options) {
  const plan::Tensor& tensor = job[delivery.tensor];
  io::SinkContext context{options};
  context.job = job.name;
  context.name = delivery.name;
  context.label = delivery.label;
  context.where = delivery.where;
  context.dtype = tensor.dtype;
  context.shape = tensor.shape;
  if (tensor.batch_axis == 0) context.shape[0] /= delivery.devices;
  if (!job.train && step_index.has_rows() && tensor.batch_axis == 0)
    context.rows_at = [&tensor, &delivery, step_index](int64_t step) {
      return part_of(real_rows(tensor, step_index, step_index.at(step)), tensor, delivery).second;
    };
  context.gradient = delivery.gradient;
  context.in_scope = !delivery.scope.empty();
  context.directory /= delivery.folder;
  return context;
}

/// Restricts a whole tensor to the rows that do not pad the batch, and to the device's part of
/// them.
void take_rows(ArrayView& value, const plan::Tensor& tensor, const Delivery& delivery,
               const StepIndex& step_index, const Position& position) {
  if (tensor.batch_axis != 0) return;
  const auto [first, count] = part_of(real_rows(tensor, step_index, position), tensor, delivery);
  const int64_t row = tensor.shape.elements(1, tensor.shape.rank());
  if (count > 0) value.data += static_cast<size_t>(first * row) * size_of(value.dtype);
  value.shape[0] = count;
}

std::optional<std::string> check_finite(const Delivery& delivery, const ArrayView& value,
                                        int64_t step) {
  const auto found = first_nonfinite(value);
  if (!found) return std::nullopt;
  return fmt::format("{}: step {}: {} `{}` is {}; expected finite values", delivery.where, step,
                     delivery.gradient ? "the gradient of" : "tensor", delivery.name, *found);
}

}  // namespace

CommandDelivery::CommandDelivery(const plan::Job& job, const std::vector<Delivery>& deliveries,
                                 const SinkOptions& options)
    : commands_(options.commands) {
  if (!options.run_commands) return;
  bool returns = false;
  for (const Delivery& delivery : deliveries) {
    const bool first = delivery.every_step ? !returns : delivery.device == 0;
    returns = delivery.every_step;
    if (first) add(returns ? event_of(job, *job.returns) : event_of(job, delivery), delivery.sinks);
    ++wholes_.back().parts;
    whole_of_[&delivery] = wholes_.size() - 1;
  }
  commands_.start();
}

void CommandDelivery::add(io::CommandEvent event, const std::vector<plan::Sink>& sinks) {
  Whole whole{std::move(event), {}, 0};
  for (const plan::Sink& sink : sinks)
    if (const auto* command = std::get_if<plan::CommandSink>(&sink))
      whole.places.push_back(commands_.add(*command, whole.event.name, whole.event.where));
  wholes_.push_back(std::move(whole));
}

bool CommandDelivery::takes(const Delivery& delivery) const {
  const auto found = whole_of_.find(&delivery);
  return found != whole_of_.end() && !wholes_[found->second].places.empty();
}

void CommandDelivery::take(const Delivery& delivery, const io::Event& event) {
  if (!takes(delivery)) return;
  Whole& whole = wholes_[whole_of_.at(&delivery)];
  whole.event.arrays.push_back({delivery.name, event.value});
  if (whole.event.arrays.size() < whole.parts) return;
  whole.event.step = event.step;
  whole.event.epoch = event.epoch;
  whole.event.call = event.call;
  for (const size_t place : whole.places) commands_.deliver(place, whole.event);
  whole.event.arrays.clear();
}

void CommandDelivery::end_pass(int64_t step, int64_t epoch,
                               const std::optional<plan::CallPlace>& call) {
  commands_.end_pass({.kind = "pass_end", .step = step, .epoch = epoch, .call = call});
}

Deliverer::Deliverer(const plan::Job& job, const StepIndex& step_index,
                     const std::vector<Delivery>& deliveries, const SinkOptions& options)
    : step_index_(step_index), commands_(job, deliveries, options) {
  if (job.optimizer) gradient_norm_ = job.optimizer->gradient_norm;
  for (const Delivery& delivery : deliveries) {
    Route route{&delivery, &job[delivery.tensor], {}, {}, {}, fired_before(delivery, options)};
    route.value = {route.tensor->dtype, route.tensor->shape, nullptr};
    reports_epochs_ |= std::ranges::any_of(delivery.sinks, counts_epochs);
    if (delivery.factor != 1) route.scaled = Array(route.tensor->dtype, route.tensor->shape);
    io::SinkContext context = context_of(job, delivery, step_index, options);
    context.delivered_before = route.fired.events;
    context.epochs_before = route.fired.epochs;
    parts_.reserve(static_cast<size_t>(delivery.devices));
    for (const plan::Sink& sink : delivery.sinks) {
      auto made = make_sink(sink, context, options);
      if (!made) continue;
      if (is_print(sink)) resume(delivery, *made, options.sums);
      route.sinks.push_back(std::move(made));
    }
    routes_.push_back(std::move(route));
  }
  write_scopes(job, options);
}

/// Returns the events before the first step of a resumed run. Without a condition, they follow from
/// the steps; otherwise they are read from the checkpoint. An incomplete epoch does not count.
Deliverer::Fired Deliverer::fired_before(const Delivery& delivery,
                                         const SinkOptions& options) const {
  const int64_t end = options.resume_from;
  Fired fired;
  if (!delivery.when) {
    fired.events = delivery.count(end);
    if (std::ranges::any_of(delivery.sinks, counts_epochs))
      fired.epochs = epochs_fired(delivery, step_index_, end);
    return fired;
  }
  if (std::ranges::none_of(delivery.sinks, is_print)) return fired;
  const std::string name =
      fmt::format("when:{}{}", delivery.folder, delivery.gradient ? ":diff" : "");
  fired.name = name;
  const auto is_taken = [&] {
    return std::ranges::any_of(routes_,
                               [&](const Route& route) { return route.fired.name == fired.name; });
  };
  for (int i = 2; is_taken(); ++i) fired.name = fmt::format("{} {}", name, i);
  const auto kept = options.sums.find(fired.name);
  if (kept == options.sums.end() || kept->second.size() != 3) return fired;
  const auto word = [&](size_t i) { return static_cast<int64_t>(kept->second[i]); };
  fired.events = std::clamp<int64_t>(word(0), 0, end);
  fired.epochs = std::clamp<int64_t>(word(1), 0, end);
  fired.last_epoch = word(2);
  if (fired.epochs > 0 && fired.last_epoch >= step_index_.epochs_after(end)) {
    --fired.epochs;
    fired.last_epoch = -1;
  }
  return fired;
}

/// Makes a sink. A sink that makes a followed value also continues from its saved sum.
std::unique_ptr<io::Sink> Deliverer::make_sink(const plan::Sink& sink,
                                               const io::SinkContext& context,
                                               const SinkOptions& options) {
  const auto* mean = std::get_if<plan::MeanSink>(&sink);
  if (!mean) return io::make_sink(sink, context, options.out, options.json);
  auto made =
      std::make_unique<io::MeanSink>(io::make_sums(mean->metric, plan::Reduce::kMean, context));
  const std::string name = "mean:" + mean->value;
  if (const auto sum = options.sums.find(name); sum != options.sums.end())
    made->resume(sum->second);
  sums_[name] = made.get();
  means_[mean->value] = made.get();
  return made;
}

/// Restores the saved sum of a sink. The name of the sum contains a counter if several sinks have
/// the same tensor.
void Deliverer::resume(const Delivery& delivery, io::Sink& sink, const Sums& sums) {
  const std::string name = delivery.folder + (delivery.gradient ? ":diff" : "");
  std::string numbered = name;
  for (int i = 2; sums_.contains(numbered); ++i) numbered = fmt::format("{} {}", name, i);
  if (const auto sum = sums.find(numbered); sum != sums.end()) sink.resume(sum->second);
  sums_[numbered] = &sink;
}

/// Writes a description of the .npy files of each scope.
void Deliverer::write_scopes(const plan::Job& job, const SinkOptions& options) const {
  std::map<std::string, plan::ScopeRecord> records;
  for (const Route& route : routes_) {
    const Delivery& delivery = *route.delivery;
    const auto is_npy = [](const plan::Sink& sink) {
      return std::holds_alternative<plan::NpySink>(sink);
    };
    if (delivery.scope.empty() || std::ranges::none_of(delivery.sinks, is_npy)) continue;
    plan::ScopeRecord& record = records[delivery.scope];
    const std::string device(plan::name_of(job.device_of(*route.tensor)));
    if (record.placement.empty()) record.placement = device;
    if (record.placement != device) record.placement = "cpu+gpu";
    record.arrays.push_back({delivery.name, delivery.gradient ? "watch_diff" : "watch", delivery.op,
                             std::string(name_of(route.tensor->dtype)),
                             route.tensor->shape.extents()});
  }
  for (auto& [scope, record] : records) {
    record.scope = scope;
    write_text_atomically(options.directory / "watch" / scope / "scope.json",
                          plan::to_json(record));
  }
}

void Deliverer::take_value(Route& route, const Program& program, const Position& position,
                           size_t slot) {
  ArrayView& value = route.value;
  if (route.tensor->batch_axis == 0) value.shape[0] = route.tensor->shape[0];
  const Delivery& delivery = *route.delivery;
  value.data = delivery.is_part_of(*route.tensor)
                   ? program.delivered_part(delivery.tensor, delivery.device, slot).data()
                   : program.delivered(delivery.tensor, slot).data();
  if (delivery.factor != 1) {
    io::scale(value, delivery.factor, route.scaled);
    value.data = route.scaled.bytes().data();
  }
  take_rows(value, *route.tensor, delivery, step_index_, position);
}

/// Returns true if the condition holds for all parts together.
bool Deliverer::holds(std::span<const Route> parts, const Program& program, size_t slot) {
  if (!parts[0].delivery->when) return true;
  parts_.clear();
  for (const Route& part : parts) parts_.push_back(part.value);
  const io::Statistics found = io::statistics_of(parts_);
  return parts[0].delivery->condition->holds(
      gradient_norm_ ? found.values(delivered_scalar(program, *gradient_norm_, slot))
                     : found.values());
}

Stop Deliverer::stop_asked() const {
  if (commands_.asked_to_stop()) return Stop::kCommand;
  return hook_stops_ ? Stop::kHook : Stop::kNone;
}

void Deliverer::hand_over(Route& route, int64_t step, const Position& position) {
  const io::Event event{step, position.epoch, position.last_of_epoch, route.value, call_};
  for (const auto& sink : route.sinks) sink->deliver(event);
  commands_.take(*route.delivery, event);
  if (!route.delivery->when) return;
  if (route.delivery->stops && !hook_stops_) {
    stopping_hook_ = fmt::format("{}: step {}: `{}` holds for `{}`", route.delivery->where, step,
                                 *route.delivery->when, route.delivery->name);
    hook_stops_ = true;
  }
  Fired& fired = route.fired;
  ++fired.events;
  if (fired.last_epoch != position.epoch) ++fired.epochs;
  fired.last_epoch = position.epoch;
}

std::optional<std::string> Deliverer::deliver(const Program& program, int64_t step, size_t slot) {
  const Position position = step_index_.at(step);
  std::optional<std::string> failure;
  for (size_t i = 0, end = 0; i < routes_.size(); i = end) {
    const Delivery& delivery = *routes_[i].delivery;
    end = i + static_cast<size_t>(delivery.devices);  // the parts of the devices follow one another
    if (!delivery.fires(step)) continue;
    const std::span<Route> parts = std::span(routes_).subspan(i, end - i);
    for (Route& part : parts) take_value(part, program, position, slot);
    if (!holds(parts, program, slot)) continue;
    for (Route& part : parts) {
      hand_over(part, step, position);
      if (delivery.check_finite && !failure)
        failure = check_finite(*part.delivery, part.value, step);
    }
  }
  if (reports_epoch_at(step))
    for (Route& route : routes_)
      for (const auto& sink : route.sinks) sink->end_epoch();
  return failure;
}

bool Deliverer::absorbs(int64_t step) const {
  if (reports_epoch_at(step)) return false;
  constexpr int64_t kSmall = 1024;  // elements
  const bool last_of_epoch = step_index_.at(step).last_of_epoch;
  return std::ranges::all_of(routes_, [&](const Route& route) {
    if (!route.delivery->fires(step)) return true;
    return !route.delivery->check_finite && !route.delivery->stops &&
           !commands_.takes(*route.delivery) && route.tensor->shape.elements() <= kSmall &&
           std::ranges::all_of(route.sinks,
                               [&](const auto& sink) { return sink->absorbs(last_of_epoch); });
  });
}

void Deliverer::end_call(int64_t steps) {
  for (Route& route : routes_)
    for (const auto& sink : route.sinks) sink->end_call();
  commands_.end_pass(steps - 1, step_index_.at(steps - 1).epoch, call_);
}

std::optional<double> Deliverer::take_mean(const std::string& key) {
  const auto found = means_.find(key);
  return found == means_.end() ? std::nullopt : found->second->take();
}

OutputState Deliverer::outputs() const {
  OutputState outputs;
  for (const auto& [name, sink] : sums_)
    if (auto held = sink->held(); !held.empty()) outputs.sums[name] = std::move(held);
  for (const Route& route : routes_)
    for (const auto& sink : route.sinks) sink->list_files(outputs.files);
  add_fired(outputs.sums, "");
  return outputs;
}

void Deliverer::add_fired(Sums& sums, const std::string& prefix) const {
  for (const Route& route : routes_)
    if (const Fired& fired = route.fired; !fired.name.empty() && fired.events > 0)
      sums[prefix + fired.name] = {static_cast<uint64_t>(fired.events),
                                   static_cast<uint64_t>(fired.epochs),
                                   static_cast<uint64_t>(fired.last_epoch)};
}

void Deliverer::finish(bool goes_on) {
  for (Route& route : routes_)
    for (const auto& sink : route.sinks)
      if (!goes_on || sink->held().empty()) sink->end_call();
}

void Deliverer::close() {
  for (Route& route : routes_)
    for (const auto& sink : route.sinks) sink->close();
}

}  // namespace flow::exec
