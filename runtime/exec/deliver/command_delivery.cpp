// Values on their way to commands.
#include "runtime/exec/deliver/command_delivery.h"

#include <utility>

#include "runtime/exec/deliver/delivery.h"

namespace flow::exec {

namespace {

/// A hook's delivery; arrays and step come when it fires.
io::CommandEvent event_of(const plan::Job& job, const Delivery& delivery) {
  io::CommandEvent event{.kind = delivery.gradient ? "watch_diff" : "watch",
                         .name = delivery.name,
                         .where = delivery.where};
  if (delivery.per_device) {
    event.name.resize(event.name.rfind('/'));  // "y/0" is the first device's part of y
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

}  // namespace flow::exec
